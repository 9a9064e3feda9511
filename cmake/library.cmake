# libweft.a and libweft.so, and what `make install` puts beside them.
add_library(weft_objects OBJECT ${weft_sources})
target_include_directories(weft_objects PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(weft_objects PRIVATE weft_build weft_dev Threads::Threads)
set_target_properties(weft_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

add_library(weft_static STATIC $<TARGET_OBJECTS:weft_objects>)
set_target_properties(weft_static PROPERTIES OUTPUT_NAME weft EXPORT_NAME static)

set(map ${PROJECT_SOURCE_DIR}/src/weft.map)
add_library(weft_shared SHARED $<TARGET_OBJECTS:weft_objects>)
set_target_properties(weft_shared PROPERTIES OUTPUT_NAME weft EXPORT_NAME weft LINK_DEPENDS ${map}
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
# nodelete: signal handlers, threads and thread-local destructors point into it, so dlclose leaves it where it is.
target_link_options(weft_shared PRIVATE -Wl,--version-script=${map} -Wl,-z,relro,-z,now,-z,noexecstack,-z,nodelete)
if(NOT WEFT_SANITIZE) # clang links a sanitizer's runtime into the program only
  target_link_options(weft_shared PRIVATE -Wl,-z,defs)
endif()

foreach(target weft_static weft_shared)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC Threads::Threads)
  # Without it, a frame larger than a stack's guard may jump over the guard. Consumers' code runs on fiber stacks.
  target_compile_options(${target} INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${weft_stack_clash}>")
endforeach()

add_library(weft::static ALIAS weft_static)
add_library(weft::weft ALIAS weft_shared)

# -- Install ------------------------------------------------------------------------------------------
if(NOT WEFT_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(TARGETS weft_static weft_shared EXPORT weft)
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT weft NAMESPACE weft:: FILE weftTargets.cmake DESTINATION ${package_dir})
write_basic_package_version_file(weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/weftConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake DESTINATION ${package_dir})
if(NOT WEFT_SANITIZE)
  add_library(weft_hook STATIC cmd/hook.c)
  target_link_libraries(weft_hook PRIVATE weft_build weft_dev)
  set_target_properties(weft_hook PROPERTIES OUTPUT_NAME weft-hook POSITION_INDEPENDENT_CODE ON)
  install(TARGETS weft_hook)
endif()
file(RELATIVE_PATH weft_cc_libdir /p/${CMAKE_INSTALL_BINDIR} /p/${CMAKE_INSTALL_LIBDIR})
foreach(name weft-cc weft-c++) # it looks at its name
  configure_file(cmd/weft-cc ${name} @ONLY)
  install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/${name} DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES docs/man/weft-cc.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME ${name}.1)
endforeach()
install(FILES docs/man/weft.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
# Paths are relative to the .pc file, so that the prefix may be chosen when installing.
file(RELATIVE_PATH pc_prefix /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
string(REPLACE ";" " " pc_stack_clash "${weft_stack_clash}")
configure_file(cmake/weft.pc.in weft.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
