// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fields that the arguments of several kernels have (kernel_abi.h), by their offsets.
#pragma once

#include "kvq/kernel_abi.h"

#include <cstddef>

namespace mlir::kvq {

/// A pool of pages: of records, or of window rows.
struct PoolFields {
  size_t data, pageStride, headStride, pageTokens;
};

/// Those of the struct `Args`, which lies `at` bytes into the arguments.
template <typename Args> constexpr PoolFields poolFields(size_t at = 0) {
  return {at + offsetof(Args, pool), at + offsetof(Args, page_stride),
          at + offsetof(Args, head_stride), at + offsetof(Args, page_tokens)};
}

/// The page ids of sequences.
struct TableFields {
  size_t ids, stride, indptr;
  size_t counts; ///< another i32 array with an entry for each sequence
};

template <typename Args> constexpr TableFields tableFields(size_t counts) {
  return {offsetof(Args, block_table), offsetof(Args, block_table_stride),
          offsetof(Args, page_indptr), counts};
}

} // namespace mlir::kvq
