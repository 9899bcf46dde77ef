// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled CPU kernels behind the C interface: a library, a pool of pages, and calls over both.
#pragma once

#include "kvq/runtime.h"
#include "runtime/format/library.h"
#include "runtime/reference/Append.h"
#include "test/numeric/Kernels.h"
#include "test/numeric/Methods.h"

#include <gtest/gtest.h>

namespace kvq::test {

/// A library of one format for each method, for the host.
class CompiledLibrary {
public:
  /// `layers` are those of the model; empty: the layers of the first method.
  explicit CompiledLibrary(std::vector<MethodCase> methods, std::vector<LibraryLayer> layers = {});
  CompiledLibrary(const CompiledLibrary &) = delete;
  CompiledLibrary &operator=(const CompiledLibrary &) = delete;
  ~CompiledLibrary() { kvq_close(library); }

  kvq_library *get() const { return library; }
  const MethodCase &methodOf(int64_t layer) const;
  /// The layer's index in the constants of its method.
  int64_t constantLayer(int64_t layer) const;

private:
  std::vector<MethodCase> methods;
  std::vector<LibraryLayer> layers;
  kvq_library *library = nullptr;
};

/// Plain attention over records of `bits`, rows of f32, so that an error is the kernel's alone.
MethodCase exactMethod(int dim, int bits, int qHeads, int kvHeads);

/// Pages of a pool, and the KV heads in them.
struct PoolShape {
  int64_t page = 16, pages = 8;
  int64_t layer = 0, firstHead = 0, heads = 0; ///< heads 0: all
  int64_t headPadding = 0, pagePadding = 0;    ///< bytes behind each record and each page
  int64_t fill = 0xff;                         ///< every byte; -1: the pool is left untouched
};

/// A pool in memory that is there only where it is touched, and calls that write it.
class PagedCache {
public:
  PagedCache(const CompiledLibrary &library, const PoolShape &shape);
  PagedCache(const PagedCache &) = delete;
  PagedCache &operator=(const PagedCache &) = delete;
  ~PagedCache();

  /// Appends tokens [first, first + count) of `inputs` to the sequence that lies in `pages`.
  void append(const Inputs &inputs, int64_t first, int64_t count,
              const std::vector<int32_t> &pages);
  /// Appends the first rows of `inputs` where `slots` says; `flags` and `reserved` of the call.
  kvq_status appendAt(const Inputs &inputs, const std::vector<int64_t> &slots, uint32_t flags = 0,
                      int64_t reserved = 0);
  /// Rows of one head of a sequence in f64, [token][dim], in the model's basis, by the oracle.
  std::vector<double> rows(char side, int64_t head, int64_t tokens,
                           const std::vector<int32_t> &pages) const;
  uint8_t *record(int64_t page, int64_t head) const {
    return data() + page * pool.page_stride + head * pool.head_stride;
  }
  uint8_t *data() const { return static_cast<uint8_t *>(pool.data); }
  std::vector<uint8_t> bytes() const { return {data(), data() + poolBytes}; }
  const CacheMethod &method() const { return library.methodOf(shape.layer).method; }

  const CompiledLibrary &library;
  PoolShape shape;
  RecordLayout layout;
  kvq_pool pool = {};
  kvq_place place = {};
  int64_t poolBytes = 0;
};

/// What a decode attends.
struct Request {
  std::vector<std::vector<int32_t>> pages; ///< of each sequence
  std::vector<int32_t> lengths;
  int64_t qLength = 1, ratio = 0;           ///< ratio 0: that of the method
  int64_t window = 0, split = 0, bound = 0; ///< bound 0: the longest of `lengths`
  std::vector<float> sinks = {};            ///< of the query heads of the call
  uint64_t seed = 1;                        ///< of the queries
};

/// A decode with its memory. Ids past a sequence's pages would fault, out is prefilled with 7, and
/// the workspace is exactly as large as asked for, with a guard behind it.
class DecodeCall {
public:
  DecodeCall(const PagedCache &cache, Request request);
  DecodeCall(const DecodeCall &) = delete;
  DecodeCall &operator=(const DecodeCall &) = delete;

  /// Expects success, the guard as it was, and nothing left of the prefill.
  void run();
  /// Every output row and log-sum-exp against float64 attention over the dequantized cache.
  void check() const;
  /// Bits of all outputs.
  bool operator==(const DecodeCall &other) const;
  /// Row [sequence][query token][head] of the outputs.
  const float *row(int64_t index) const { return &out[size_t(index * valueDim)]; }
  int64_t headCount() const { return heads; }

  kvq_decode_args args = {};
  Request request;
  std::vector<float> q, out, lse; ///< [sequence][query token][query head of the call](dim)

private:
  void fillArguments();

  const PagedCache &cache;
  int64_t heads, keyDim, valueDim; ///< query heads of the call
  std::vector<int32_t> table;
  std::vector<uint8_t> workspace;
};

/// Whether `count` numbers have the same bits.
bool sameBits(const float *a, const float *b, size_t count);

/// A generator for what is drawn: everything follows from the seed.
inline std::mt19937_64 drawnFrom(uint64_t seed) { return std::mt19937_64(seed); }

/// `first`, `first` + 1, ... : ids of `count` pages.
std::vector<int32_t> pageRun(int32_t first, int64_t count);

} // namespace kvq::test
