// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of GPU kernels: what a kernel was compiled for, readable and complete.
//
//   decode_sm90a_d128_k2v2_g128_min_f16_r4_bf16
//
//   role     append, plan, prepare, decode, appendwindow, demote, commit, dequantize
//   chip     as LLVM calls it, without the underscore
//   d        head dim            } K's, then x and V's where it differs: d128x64, g32x128, minxsym
//   k v      bits of K and of V  }
//   g        channels that share parameters; the head dim where the whole head does
//   form     min, zero, sym, norm: how codes and parameters make values
//   type     of the parameters
//   r        row class: query rows of one KV head that are handled at once, 4, 8, 12 or 16; how
//   many
//            there are, query heads times query tokens, is known at run time
//   io       type of the rows of K, V, queries and outputs
//   x        last, only where the method has more to it than that (steps, another tie rule or
//   scale,
//            windows, mixed types): the first 8 hex digits of the digest of its text
//
// Heads, layers and the default page are not in a name: no kernel depends on them.
#pragma once

#include "runtime/format/library.h"
#include "runtime/format/method.h"

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::kvq {

/// What a name says of K or of V.
struct KernelSide {
  int dim = 0, bits = 0;
  int group = 0; ///< channels; the head dim for one group
  ::kvq::ParameterForm form = ::kvq::ParameterForm::min;
  ::kvq::ElementType element = ::kvq::ElementType::f16;

  bool operator==(const KernelSide &other) const;
};

struct KernelName {
  ::kvq::KernelRole role = ::kvq::KernelRole::decode;
  std::string chip; ///< "sm_90a"
  KernelSide key, value;
  int rows = 4;
  ::kvq::ElementType io = ::kvq::ElementType::bf16;
  std::string rest; ///< 8 hex digits, or empty

  bool operator==(const KernelName &other) const;
};

std::string printKernelName(const KernelName &name);

/// Fills `out` and returns an empty string, or returns one sentence that says what was expected and
/// got, and leaves `out` alone. Only what printKernelName writes is taken.
std::string parseKernelName(llvm::StringRef text, KernelName &out);

/// The name of a kernel of `method` for a chip.
KernelName kernelNameOf(const ::kvq::CacheMethod &method, ::kvq::KernelRole role,
                        llvm::StringRef chip);

/// The method of a name without rest: plain attention of scale 1/sqrt(D), no steps, ties half up,
/// codes from stored parameters, 4 KV heads, one layer, page 64.
::kvq::CacheMethod methodOf(const KernelName &name);

} // namespace mlir::kvq
