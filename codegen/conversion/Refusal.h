// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Why a target cannot serve a method: the rules that all targets share, each told as "target NAME
// expects ..., got ...".
#pragma once

#include "runtime/format/method.h"

#include <string>

namespace mlir::kvq {

class Refusal {
public:
  /// `maxDim` is the largest head dim of the target.
  Refusal(std::string target, int maxDim) : target(std::move(target)), maxDim(maxDim) {}

  std::string operator()(const std::string &expected, const std::string &got) const {
    return "target " + target + " expects " + expected + ", got " + got;
  }

  /// The first rule that `method` breaks, of both sides, windows and query heads; or an empty
  /// string.
  std::string ofMethod(const ::kvq::CacheMethod &method) const;

private:
  std::string ofSide(const char *name, const ::kvq::RecordSide &side) const;

  std::string target;
  int maxDim;
};

} // namespace mlir::kvq
