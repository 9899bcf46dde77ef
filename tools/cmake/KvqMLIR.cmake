# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Finds LLVM/MLIR 22 and sets up its CMake helpers for an out-of-tree project.

# Debian and LLVM's own apt repository both install under this prefix.
find_package(MLIR 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(MLIR_LINK_MLIR_DYLIB ON)
set(LLVM_LINK_LLVM_DYLIB ON)
set(LLVM_RUNTIME_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/bin")
set(LLVM_LIBRARY_OUTPUT_INTDIR "${CMAKE_BINARY_DIR}/lib")
set(MLIR_BINARY_DIR "${CMAKE_BINARY_DIR}")
set(LLVM_EXTERNAL_LIT "${LLVM_TOOLS_BINARY_DIR}/lit" CACHE STRING "lit of the installed LLVM" FORCE)
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories("${CMAKE_SOURCE_DIR}" "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}/runtime/include")
separate_arguments(KVQ_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${KVQ_LLVM_DEFINITIONS})
if(KVQ_WERROR)
  add_compile_options(-Werror)
endif()
# Generated kernels do not depend on how the compiler itself is optimised; -O1 saves a third of its build time.
add_compile_options($<$<CONFIG:Release>:-O1>)
