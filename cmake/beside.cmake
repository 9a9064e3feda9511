# A library beside libweft, made of src/NAME; it uses libweft's public functions only:
#   weft_beside(NAME "what it does" [PACKAGE pkg-config's-word LIBRARIES what-it-links DEBIAN package])
# With PACKAGE it needs another library, and is not built where that is not installed.
find_package(PkgConfig QUIET)

function(weft_beside name what)
  cmake_parse_arguments(PARSE_ARGV 2 with "" "PACKAGE;DEBIAN" "LIBRARIES")
  string(TOUPPER ${name} NAME)
  if(PKG_CONFIG_FOUND AND with_PACKAGE)
    pkg_check_modules(${NAME} QUIET IMPORTED_TARGET ${with_PACKAGE})
  endif()
  if(with_PACKAGE AND NOT ${NAME}_FOUND)
    message(STATUS "${with_PACKAGE} was not found (Debian: ${with_DEBIAN}, pkg-config): libweft-${name} is not built")
    return()
  endif()

  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.c)
  add_library(weft_${name}_objects OBJECT ${sources})
  target_include_directories(weft_${name}_objects PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(weft_${name}_objects PRIVATE weft_build weft_dev Threads::Threads)
  if(with_PACKAGE)
    target_link_libraries(weft_${name}_objects PRIVATE PkgConfig::${NAME})
  endif()
  set_target_properties(weft_${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

  add_library(weft_${name}_static STATIC $<TARGET_OBJECTS:weft_${name}_objects>)
  set_target_properties(weft_${name}_static PROPERTIES OUTPUT_NAME weft-${name} EXPORT_NAME ${name}_static)
  target_link_libraries(weft_${name}_static PUBLIC weft_static)

  set(map ${PROJECT_SOURCE_DIR}/src/weft-${name}.map)
  add_library(weft_${name}_shared SHARED $<TARGET_OBJECTS:weft_${name}_objects>)
  set_target_properties(weft_${name}_shared PROPERTIES OUTPUT_NAME weft-${name} EXPORT_NAME ${name} LINK_DEPENDS ${map}
    INSTALL_RPATH "$ORIGIN" # libweft.so lies beside it
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  target_link_options(weft_${name}_shared PRIVATE -Wl,--version-script=${map} -Wl,-z,relro,-z,now,-z,noexecstack)
  target_link_libraries(weft_${name}_shared PUBLIC weft_shared)
  if(NOT WEFT_SANITIZE)
    target_link_options(weft_${name}_shared PRIVATE -Wl,-z,defs)
  endif()

  # Linked by flags, not by a target: who finds the package does not need the other library's .pc.
  foreach(target weft_${name}_static weft_${name}_shared)
    target_link_libraries(${target} PRIVATE ${with_LIBRARIES})
  endforeach()
  target_link_directories(weft_${name}_static PUBLIC $<BUILD_INTERFACE:${${NAME}_LIBRARY_DIRS}>)
  target_link_directories(weft_${name}_shared PRIVATE ${${NAME}_LIBRARY_DIRS})

  install(TARGETS weft_${name}_static weft_${name}_shared EXPORT weft-${name})
  install(EXPORT weft-${name} NAMESPACE weft:: FILE weft-${name}-targets.cmake DESTINATION ${package_dir})
  string(REGEX REPLACE "[<>=].*" "" pc_private "${with_PACKAGE}")
  set(pc_name weft-${name})
  set(pc_what ${what})
  configure_file(cmake/weft-beside.pc.in weft-${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

weft_beside(tls "TLS for weft, over OpenSSL" PACKAGE openssl>=3.0 LIBRARIES ssl crypto DEBIAN libssl-dev)
weft_beside(cares "Names for weft, looked up by c-ares" PACKAGE libcares>=1.16 LIBRARIES cares DEBIAN libc-ares-dev)
weft_beside(janus "The names of Janus's runtime functions, for weft")
