# libweft-tls: TLS over OpenSSL, for those who have it.  It stands on libweft's public functions only.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(OPENSSL QUIET IMPORTED_TARGET openssl>=3.0)
endif()
if(NOT OPENSSL_FOUND)
  message(STATUS "OpenSSL 3 was not found (Debian: libssl-dev, pkg-config): libweft-tls is not built")
  return()
endif()

file(GLOB tls_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/tls/*.c)
add_library(weft_tls_objects OBJECT ${tls_sources})
target_include_directories(weft_tls_objects PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(weft_tls_objects PRIVATE weft_build weft_dev PkgConfig::OPENSSL)
set_target_properties(weft_tls_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

add_library(weft_tls_static STATIC $<TARGET_OBJECTS:weft_tls_objects>)
set_target_properties(weft_tls_static PROPERTIES OUTPUT_NAME weft-tls EXPORT_NAME tls_static)
target_link_libraries(weft_tls_static PUBLIC weft_static)

set(tls_map ${PROJECT_SOURCE_DIR}/src/weft-tls.map)
add_library(weft_tls_shared SHARED $<TARGET_OBJECTS:weft_tls_objects>)
set_target_properties(weft_tls_shared PROPERTIES OUTPUT_NAME weft-tls EXPORT_NAME tls LINK_DEPENDS ${tls_map}
  INSTALL_RPATH "$ORIGIN" # libweft.so lies beside it
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_options(weft_tls_shared PRIVATE -Wl,--version-script=${tls_map} -Wl,-z,relro,-z,now,-z,noexecstack)
target_link_libraries(weft_tls_shared PUBLIC weft_shared)
if(NOT WEFT_SANITIZE)
  target_link_options(weft_tls_shared PRIVATE -Wl,-z,defs)
endif()

# Linked by flags, not by a target: who finds the package needs no openssl.pc.
foreach(target weft_tls_static weft_tls_shared)
  target_link_libraries(${target} PRIVATE ssl crypto)
endforeach()
target_link_directories(weft_tls_static PUBLIC $<BUILD_INTERFACE:${OPENSSL_LIBRARY_DIRS}>)
target_link_directories(weft_tls_shared PRIVATE ${OPENSSL_LIBRARY_DIRS})

install(TARGETS weft_tls_static weft_tls_shared EXPORT weft-tls)
install(EXPORT weft-tls NAMESPACE weft:: FILE weftTlsTargets.cmake DESTINATION ${package_dir})
configure_file(cmake/weft-tls.pc.in weft-tls.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-tls.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
