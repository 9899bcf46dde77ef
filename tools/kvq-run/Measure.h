// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a library on the layers of a trace and measures. Three outputs of the same attention are
// compared, all with f64 references:
//   original     f64 attention over the trace's keys and values
//   dequantized  f64 attention over what the pages hold
//   kernel       what the library's kernels return
// Method error: dequantized against original. Kernel error: kernel against dequantized. Total
// error: kernel against original. They are never mixed. All are relative l2 errors, |got -
// expected| / |expected| over all rows and heads.
#pragma once

#include "calib/io/Trace.h"
#include "kvq/runtime.h"
#include "runtime/format/library.h"
#include "runtime/format/method.h"
#include "tools/device/Device.h"
#include "tools/kvq-run/Cache.h"

#include <memory>
#include <string>
#include <vector>

namespace kvq {

/// Squared sums, so that layers can be added up.
struct SquaredError {
  double difference = 0, expected = 0;

  void add(const std::vector<double> &got, const std::vector<double> &expected);
  void add(const SquaredError &other);
  double relative() const;
};

struct LayerErrors {
  int64_t layer = 0; ///< in the model
  SquaredError method, kernel, total;
  /// dequantized, rounded to the element type of the output, against itself: what a kernel error is
  /// at its best.
  SquaredError rounding;
  SquaredError projectedMethod, projectedTotal; ///< after W_O
  Digests digests;
  double lseMethod = 0, lseKernel = 0; ///< largest absolute differences of the log-sum-exp

  void add(const LayerErrors &other);
};

struct RunOptions {
  int64_t page = 0;    ///< tokens; 0: the library's default
  int64_t threads = 0; ///< 0: one per processor
  kvq_target target = KVQ_TARGET_CPU;
};

struct Report {
  std::string name; ///< of the cache
  int64_t page = 0, keyBits = 0, valueBits = 0;
  double bitsPerElement = 0; ///< parameters and padding counted, for the page in use
  std::vector<LayerErrors> layers;
  LayerErrors total; ///< over all layers; `layer` has no meaning
};

/// A library as the runtime sees it and as the oracle does.
class Runner {
public:
  static std::string open(const std::string &path, const RunOptions &options, Runner &out);

  /// Fills a cache with every token of each layer, decodes all queries of the layer as one batch of
  /// sequences that share the cache and end at their own tokens, and compares. An error is one
  /// sentence, or empty.
  std::string run(const Trace &trace, Report &out);

private:
  struct Close {
    void operator()(kvq_library *library) const { kvq_close(library); }
  };

  std::string checkTrace(const Trace &trace) const;
  std::string measure(const Trace &trace, size_t index, LayerErrors &out);

  std::unique_ptr<Device> device; ///< outlives the library
  FileBytes bytes;
  LibraryView view;
  CacheMethod method;
  std::unique_ptr<kvq_library, Close> library;
  int64_t page = 0;
};

} // namespace kvq
