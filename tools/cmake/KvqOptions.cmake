# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Compile options shared by every target, and helpers to declare targets.

option(KVQ_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
option(KVQ_FUZZ "Build the libFuzzer programs of test/fuzz; needs clang" OFF)

# A second build of the same sources is then mostly a copy. A launcher given on the command line wins.
if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(KVQ_CCACHE ccache)
  mark_as_advanced(KVQ_CCACHE)
  if(KVQ_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER "${KVQ_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${KVQ_CCACHE}")
  endif()
endif()

# Every target outside MLIR's own CMake helpers takes its warnings from here. Contraction is off because the oracle
# and the generated kernels must agree bit for bit on codes (g++ fuses a*b+c by default).
add_library(kvq_options INTERFACE)
target_compile_options(kvq_options INTERFACE -Wall -Wextra -ffp-contract=off $<$<BOOL:${KVQ_WERROR}>:-Werror>)
target_include_directories(kvq_options INTERFACE "${CMAKE_SOURCE_DIR}")

if(KVQ_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=address,undefined)
endif()

if(KVQ_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "KVQ_FUZZ: expected clang as C++ compiler, got ${CMAKE_CXX_COMPILER_ID}")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# kvq_add_library(name SOURCES... LINK_LIBS...): a static library of the runtime side (no MLIR).
function(kvq_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE kvq_options PUBLIC ${ARG_LINK_LIBS})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}/runtime/include" "${CMAKE_SOURCE_DIR}")
endfunction()

# kvq_add_test(name SOURCES... LINK_LIBS...): a GoogleTest program registered with CTest, run as one test.
function(kvq_add_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE kvq_options ${ARG_LINK_LIBS} GTest::gtest GTest::gtest_main)
  target_include_directories(${name} PRIVATE "${CMAKE_SOURCE_DIR}/runtime/include")
  target_compile_definitions(${name} PRIVATE KVQ_TEST_DATA="${CMAKE_SOURCE_DIR}/test/data")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/test-bin")
  add_test(NAME ${name} COMMAND ${name})
endfunction()
