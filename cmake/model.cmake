# weft-model: the library's own sources and the tests of test/model, compiled so that every memory access calls
# the checker (test/model/mc), which stands in for ThreadSanitizer's runtime and for src/plat/linux*.c.
if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "the model build needs clang: cmake -DCMAKE_C_COMPILER=clang-19")
endif()

file(GLOB model_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/model/*.c)
file(GLOB model_checker CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/model/mc/*.c ${PROJECT_SOURCE_DIR}/test/model/mc/*.S)
list(FILTER weft_sources EXCLUDE REGEX "src/plat/linux[^/]*\\.[cS]$")

add_library(model_checked OBJECT ${weft_sources} ${model_tests})
target_compile_options(model_checked PRIVATE -O1 ${WEFT_DEBUG_INFO} -fsanitize=thread -fno-omit-frame-pointer)
# Small capacities: every wrap-around and overflow happens within a few steps.
target_compile_definitions(model_checked PRIVATE WEFTI_MODEL=1 WEFTI_RING_CAP=4u WEFTI_DEQUE_CAP=4u WEFTI_BATCH_MAX=2u
  WEFTI_SLAB_MAGAZINE=4u WEFTI_SLAB_CHUNK=4096 WEFTI_LOCK_SPIN=1 WEFTI_SPIN_MAX=2u WEFTI_SPIN_TIGHT=1u WEFTI_JOB_SPIN=1u
  WEFTI_SEAT_SPIN=1u WEFTI_NAP_STREAK=UINT32_MAX WEFTI_STACK_CHUNK=131072 WEFTI_BARGE_SPIN=1 WEFTI_BARGE_PATIENCE=3000 WEFTI_WAKES=2u
  WEFTI_BIAS_STREAK=1u WEFTI_BIAS_STREAK_ALONE=1u WEFTI_SPILLS=2u WEFTI_SPILL_SIZE=2u WEFTI_IO_GROUP=2u
  WEFTI_SHARD_BUCKETS=2u WEFTI_NODES_MAGAZINE=2u WEFTI_NODES_CHUNK=8u
  WEFTI_PROCESS_CHUNK=2u WEFTI_PROCESS_CHUNKS=4u WEFTI_PROCESS_CACHE=1u)

add_library(model_checker OBJECT ${model_checker})
target_compile_options(model_checker PRIVATE -O2 ${WEFT_DEBUG_INFO} -fno-omit-frame-pointer)
target_compile_definitions(model_checker PRIVATE WEFTI_MODEL=1)

foreach(target model_checked model_checker)
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/test/model)
  target_link_libraries(${target} PRIVATE weft_dev Threads::Threads)
endforeach()

add_executable(weft-model $<TARGET_OBJECTS:model_checked> $<TARGET_OBJECTS:model_checker>)
target_link_libraries(weft-model PRIVATE Threads::Threads)
set_target_properties(weft-model PROPERTIES LINKER_LANGUAGE C)
