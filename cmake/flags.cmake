# Compiler flags.  weft_build: how the library itself is compiled.  weft_dev: what our own targets add.

# Hardening that costs nothing measurable; ELF executables and libraries without writable tables.
add_library(weft_build INTERFACE)
target_compile_options(weft_build INTERFACE
  -fno-plt -fno-semantic-interposition -fno-strict-overflow)
if(NOT WEFT_SANITIZE)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-fstack-clash-protection WEFT_HAVE_STACK_CLASH)
  if(WEFT_HAVE_STACK_CLASH)
    set(weft_stack_clash -fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
      list(APPEND weft_stack_clash --param=stack-clash-protection-guard-size=12) # it thinks that guards have 64 KiB there
    endif()
  endif()
  target_compile_options(weft_build INTERFACE
    -fstack-protector-strong ${weft_stack_clash}
    $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
endif()
target_compile_definitions(weft_build INTERFACE $<$<CONFIG:Debug>:WEFTI_DEBUG=1>)

add_library(weft_dev INTERFACE)
if(WEFT_DEV)
  target_compile_options(weft_dev INTERFACE -Wall -Wextra -Wundef -Wshadow -Wstrict-prototypes -Werror)
  if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    set(weft_explicit -Watomic-implicit-seq-cst) # in the library and the examples: atomics by name only
    target_compile_options(weft_build INTERFACE ${weft_explicit})
  endif()
endif()

# What cmd/weft-cc adds, for our own metered code.
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  set(weft_metered "SHELL:-Xclang -fsanitize-coverage-type=3" "SHELL:-Xclang -fsanitize-coverage-trace-pc"
    "SHELL:-Xclang -fsanitize-coverage-no-prune")
else()
  set(weft_metered -fsanitize-coverage=trace-pc -fno-lto) # with it, gcc would forget the other
endif()

# Neither __FILE__ nor the debug information names the folders of the sources and of the build: builds in two places are equal.
# The last option that matches wins.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -ffile-prefix-map=${PROJECT_BINARY_DIR}=build)

# Sanitizers apply to everything in the tree.
if(WEFT_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(WEFT_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread)
elseif(WEFT_SANITIZE)
  message(FATAL_ERROR "WEFT_SANITIZE is '${WEFT_SANITIZE}', expected address or thread")
endif()
add_compile_options(${sanitize} $<$<BOOL:${WEFT_SANITIZE}>:-fno-omit-frame-pointer>)
add_link_options(${sanitize})
