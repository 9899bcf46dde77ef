// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels compiled in this process, and a cache to run them on.
#pragma once

#include "codegen/conversion/Workspace.h"
#include "codegen/target/CpuObject.h"
#include "kvq/kernel_abi.h"
#include "runtime/format/method.h"

#include <memory>
#include <vector>

namespace kvq::test {

/// The four kernels of a method, loaded from a shared object that was compiled and linked here.
class Kernels {
public:
  /// Null after printing the diagnostic.
  static std::unique_ptr<Kernels> compile(const CacheMethod &method, mlir::kvq::CpuLevel level);
  ~Kernels();

  kvq_cpu_token_fn append = nullptr;
  kvq_cpu_decode_fn prepare = nullptr, decode = nullptr, merge = nullptr;
  mlir::kvq::Workspace workspace{};

private:
  Kernels() = default;
  void *handle = nullptr;
};

/// Elements of one type as raw bytes: what callers hand to the kernels.
class Rows {
public:
  Rows(ElementType type, int64_t count) : type(type), bytes(count * elementBytes(type)) {}
  /// Rounds `values` to the type.
  Rows(ElementType type, const std::vector<float> &values);
  std::vector<float> values() const;

  ElementType type;
  std::vector<uint8_t> bytes;
};

/// A pool of pages filled with FF, and one sequence in it whose pages lie in a scrambled order.
class Cache {
public:
  Cache(const CacheMethod &method, const std::vector<float> &constants, int64_t capacity, int page,
        uint64_t seed);

  /// Appends tokens [first, first + count) of `k` and `v` ([token][head][dim]), in the order given
  /// by `order`.
  void append(const Kernels &kernels, const Rows &k, const Rows &v, int64_t first, int64_t count,
              const std::vector<int64_t> &order = {});
  /// Output rows and log-sum-exps of one query row set [q_heads][dim] per length.
  struct Attention {
    std::vector<float> out, lse;
  };
  Attention decode(const Kernels &kernels, const Rows &q, const std::vector<int32_t> &lengths,
                   int64_t splitTokens);

  uint8_t *record(int64_t token, int head);
  const uint8_t *record(int64_t token, int head) const {
    return const_cast<Cache *>(this)->record(token, head);
  }

  const CacheMethod &method;
  RecordLayout layout;
  int page;
  std::vector<uint8_t> storage;
  uint8_t *pool = nullptr;
  int64_t pages = 0, poolBytes = 0;
  std::vector<int32_t> table;
  const float *constants;
  int64_t layer = 0;

private:
  std::vector<float> alignedConstants;
};

} // namespace kvq::test
