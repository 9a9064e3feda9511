# libweft-cares: names looked up by c-ares, for those who have it.  It stands on libweft's public functions only.
find_package(PkgConfig QUIET)
if(PKG_CONFIG_FOUND)
  pkg_check_modules(CARES QUIET IMPORTED_TARGET libcares>=1.16)
endif()
if(NOT CARES_FOUND)
  message(STATUS "c-ares was not found (Debian: libc-ares-dev, pkg-config): libweft-cares is not built")
  return()
endif()

file(GLOB cares_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cares/*.c)
add_library(weft_cares_objects OBJECT ${cares_sources})
target_include_directories(weft_cares_objects PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(weft_cares_objects PRIVATE weft_build weft_dev Threads::Threads PkgConfig::CARES)
set_target_properties(weft_cares_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

add_library(weft_cares_static STATIC $<TARGET_OBJECTS:weft_cares_objects>)
set_target_properties(weft_cares_static PROPERTIES OUTPUT_NAME weft-cares EXPORT_NAME cares_static)
target_link_libraries(weft_cares_static PUBLIC weft_static)

set(cares_map ${PROJECT_SOURCE_DIR}/src/weft-cares.map)
add_library(weft_cares_shared SHARED $<TARGET_OBJECTS:weft_cares_objects>)
set_target_properties(weft_cares_shared PROPERTIES OUTPUT_NAME weft-cares EXPORT_NAME cares LINK_DEPENDS ${cares_map}
  INSTALL_RPATH "$ORIGIN" # libweft.so lies beside it
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_options(weft_cares_shared PRIVATE -Wl,--version-script=${cares_map} -Wl,-z,relro,-z,now,-z,noexecstack)
target_link_libraries(weft_cares_shared PUBLIC weft_shared)
if(NOT WEFT_SANITIZE)
  target_link_options(weft_cares_shared PRIVATE -Wl,-z,defs)
endif()

# Linked by flags, not by a target: who finds the package needs no libcares.pc.
foreach(target weft_cares_static weft_cares_shared)
  target_link_libraries(${target} PRIVATE cares)
endforeach()
target_link_directories(weft_cares_static PUBLIC $<BUILD_INTERFACE:${CARES_LIBRARY_DIRS}>)
target_link_directories(weft_cares_shared PRIVATE ${CARES_LIBRARY_DIRS})

install(TARGETS weft_cares_static weft_cares_shared EXPORT weft-cares)
install(EXPORT weft-cares NAMESPACE weft:: FILE weftCaresTargets.cmake DESTINATION ${package_dir})
configure_file(cmake/weft-cares.pc.in weft-cares.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-cares.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
