// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Method `mean`: the constant subtracted from every key before it is quantized. Softmax does not
// change when all keys of a head move by one vector, so the mean of each channel can be taken out
// of the cache, and with it the part of the quantization range that the keys share.
#pragma once

#include "calib/io/CalibrationFile.h"
#include "calib/io/Trace.h"
#include "calib/observers/MeanObserver.h"

namespace kvq {

/// Observes the keys of traces of one model, layer by layer. Memory: one f64 per layer, KV head and
/// channel.
class KeyMeanSolver {
public:
  /// Adds all keys of a trace. The first trace fixes the model, the layers and the rope settings;
  /// another one that differs in them is an error.
  std::string add(const Trace &trace);

  /// Precondition: a trace was added.
  Calibration solve() const;

private:
  std::string checkSame(const Trace &trace) const;

  Calibration description; ///< everything but the means
  std::vector<MeanObserver> observers;
};

} // namespace kvq
