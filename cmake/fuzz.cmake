# Fuzz targets (libFuzzer, so clang only).  Each is compiled with the one source it is about.
foreach(name http_parse)
  add_executable(weft-fuzz-${name} test/fuzz/${name}.c src/http/parse.c)
  target_include_directories(weft-fuzz-${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(weft-fuzz-${name} PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(weft-fuzz-${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(weft-fuzz-${name} PRIVATE weft_dev)
endforeach()
