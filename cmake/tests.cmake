# The test programs: one a folder of test/, each linked with the harness and the static library, whose internal
# functions (wefti_) they may call.
add_library(weft_harness STATIC test/harness/harness.c)
target_include_directories(weft_harness PUBLIC ${PROJECT_SOURCE_DIR}/test/harness)
target_link_libraries(weft_harness PUBLIC Threads::Threads PRIVATE weft_dev)

add_library(weft_metered OBJECT test/metered/code.c)
target_compile_options(weft_metered PRIVATE ${weft_metered})
target_link_libraries(weft_metered PRIVATE weft_dev)

foreach(kind unit api fault stress)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/${kind}/*.c)
  if(sources)
    add_executable(weft-${kind} ${sources})
    target_include_directories(weft-${kind} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/test)
    target_compile_definitions(weft-${kind} PRIVATE $<$<CONFIG:Debug>:WEFTI_DEBUG=1>)
    target_link_libraries(weft-${kind} PRIVATE $<TARGET_OBJECTS:weft_metered> weft_harness weft_static weft_dev m)
    if(WEFT_HAVE_STACK_CLASH) # as fibers' code should be
      target_compile_options(weft-${kind} PRIVATE -fstack-clash-protection)
    endif()
  endif()
endforeach()

add_executable(weft-harness test/harness/selftest.c)
target_link_libraries(weft-harness PRIVATE weft_harness weft_dev)

if(WEFT_NODE)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/node/*.c)
  add_executable(weft-node-test ${sources})
  target_link_libraries(weft-node-test PRIVATE weft_harness weft_ledger weft_dev)
  add_executable(weft-node-kill test/node/kill/kill.c)
  target_link_libraries(weft-node-kill PRIVATE weft_ledger weft_dev)
endif()
