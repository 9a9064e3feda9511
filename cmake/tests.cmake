# The test programs: one a folder of test/, each linked with the harness and the static library, whose internal
# functions (wefti_) they may call.
add_library(weft_harness STATIC test/harness/harness.c)
target_include_directories(weft_harness PUBLIC ${PROJECT_SOURCE_DIR}/test/harness)
target_link_libraries(weft_harness PUBLIC Threads::Threads PRIVATE weft_dev)

add_library(weft_metered OBJECT test/metered/code.c)
target_compile_options(weft_metered PRIVATE ${weft_metered})
target_link_libraries(weft_metered PRIVATE weft_dev)

set(kinds unit api fault stress)
if(TARGET weft_tls_static)
  list(APPEND kinds tls)
endif()
foreach(kind ${kinds})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/${kind}/*.c)
  if(sources)
    add_executable(weft-${kind} ${sources})
    target_include_directories(weft-${kind} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/test)
    target_compile_definitions(weft-${kind} PRIVATE $<$<CONFIG:Debug>:WEFTI_DEBUG=1>)
    target_link_libraries(weft-${kind} PRIVATE $<TARGET_OBJECTS:weft_metered> weft_harness weft_static weft_dev m)
    if(kind STREQUAL tls)
      target_link_libraries(weft-tls PRIVATE weft_tls_static)
    endif()
    if(WEFT_HAVE_STACK_CLASH) # as fibers' code should be
      target_compile_options(weft-${kind} PRIVATE -fstack-clash-protection)
    endif()
  endif()
endforeach()

add_executable(weft-harness test/harness/selftest.c)
target_link_libraries(weft-harness PRIVATE weft_harness weft_dev)
