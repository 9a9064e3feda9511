# build/weft: the node's outside and its client, over weft_ledger (node.cmake).
if(NOT WEFT_NODE_BUILT)
  return()
endif()

# The page becomes an array of bytes.
set(page ${CMAKE_CURRENT_BINARY_DIR}/generated/page.c)
add_custom_command(OUTPUT ${page}
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/cmd/weft/page.html -DTO=${page} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmd/weft/page.html ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)

file(GLOB weft_program CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmd/weft/*.c)
list(REMOVE_ITEM weft_program ${ledger_sources})
list(REMOVE_ITEM weft_program ${PROJECT_SOURCE_DIR}/cmd/weft/main.c)
add_library(weft_outside STATIC ${weft_program} ${page})
target_link_libraries(weft_outside PUBLIC weft_ledger PkgConfig::JANSSON PRIVATE weft_build weft_dev)
add_executable(weft_program cmd/weft/main.c) # in a parent project, a target `weft` would be linked by mistake
set_target_properties(weft_program PROPERTIES OUTPUT_NAME weft)
target_link_libraries(weft_program PRIVATE weft_outside weft_build weft_dev)
target_link_options(weft_program PRIVATE -Wl,-z,relro,-z,now,-z,noexecstack)

if(WEFT_TESTS AND NOT WEFT_SANITIZE) # it has a malloc of its own
  add_executable(weft-node-memory test/node/memory/memory.c)
  target_link_libraries(weft-node-memory PRIVATE weft_outside weft_dev)
endif()

if(NOT WEFT_INSTALL)
  return()
endif()
install(TARGETS weft_program)
install(FILES docs/man/weft.1 docs/man/weft-node.1 docs/man/weft-tx.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
# The prefix may be chosen when installing.
install(CODE "set(bindir \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
configure_file(\"${PROJECT_SOURCE_DIR}/cmake/weft-node.service.in\" \"${CMAKE_CURRENT_BINARY_DIR}/weft-node.service\" @ONLY)")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-node.service DESTINATION lib/systemd/system)
