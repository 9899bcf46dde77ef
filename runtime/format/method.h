// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The method of a cache: what the compiler read from the pipelines, as plain data. It is the one
// description shared by the code generator (which compiles it), the library file (which carries it
// as JSON) and the scalar oracle (which interprets it).
//
// A side (K or V) maps one row of `dim` channels, the post-RoPE token of one KV head, to codes:
//
//   x_0 = the row;  x_i = step_i(x_{i-1}) for each step;  codes, parameters = round(x_n)
//
// Center and rotate steps compute in fp32 and round once to the element type of their result; "the
// rotated row" is the value after the last step. Rows are vectors: a rotation R acts as x R, its
// inverse as x R^T.
#pragma once

#include "kvq/layout.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvq {

/// One factor of a rotation. Factors apply from left to right: x -> x F_0 F_1 ... .
struct RotationFactor {
  enum class Kind : uint8_t {
    hadamard,       ///< Sylvester order `order` == dim; own inverse.
    block_hadamard, ///< dim / order blocks of Sylvester order `order`; own inverse.
    dense,          ///< constant `constant`, [layers, kv_heads, dim, dim] f32.
  };
  Kind kind = Kind::hadamard;
  int order = 0;
  bool inverse = false; ///< dense only: multiply by the transpose.
  int constant = -1;    ///< dense only: index in CacheMethod::constants.
};

/// One step of a side's pipeline before rounding.
struct Step {
  enum class Kind : uint8_t { center, rotate, clip };
  enum class Clip : uint8_t {
    order_statistic, ///< threshold = element int(value * n) of |x| sorted ascending; clamp to
                     ///< [-thr, thr].
    ratio,           ///< lo, hi = value * min(x), value * max(x); clamp to [lo, hi].
    constant,        ///< clamp to [-value, value], value as fp32.
  };
  Kind kind = Kind::center;
  ElementType result =
      ElementType::bf16; ///< center, rotate: the element type the result is rounded to.
  int constant = -1;     ///< center: mean [layers, kv_heads, dim] f32.
  std::vector<RotationFactor> factors; ///< rotate.
  Clip clip = Clip::order_statistic;   ///< clip.
  double value = 0;                    ///< clip: ratio (f64) or threshold.
  bool per_group = false;              ///< clip: scope is a group instead of the row.
};

/// How rounding turns a group into codes and parameters; record.md section 4 has the rule.
struct RoundRule {
  enum class Tie : uint8_t { half_up, half_even };
  enum class Source : uint8_t {
    stored, ///< codes from the parameters as stored (default).
    exact,  ///< codes from the fp32 parameters, before they are narrowed.
  };
  Tie tie = Tie::half_up;
  Source source = Source::stored;
};

struct SideMethod {
  RecordSide record;                    ///< dim, bits, form, group, parameter type, packing.
  ElementType rows = ElementType::bf16; ///< element type of the rows handed to append.
  std::vector<Step> steps;
  RoundRule round;

  /// Element type of the rotated row: what high-precision windows store.
  ElementType storedRows() const;
};

/// A constant of the constants blob: f32, row-major, at a byte offset that is a multiple of 64.
struct Constant {
  std::string name;
  std::vector<int64_t> shape;
  int64_t offset = 0;
};

/// What the attention kernel of the library computes.
struct AttentionMethod {
  float scale = 0; ///< multiplies q.k before the softmax.
  bool causal = true;
  bool rotate_query = true; ///< kernel rotates q into the key's basis (else rows arrive rotated).
  bool unrotate_output = true; ///< kernel rotates the output back (else W_O holds the inverse).
  ElementType rows = ElementType::bf16; ///< element type of q and of the output.
  float softcap = 0;                    ///< c: a logit x becomes c tanh(x / c); 0: none.
  int window =
      0; ///< tokens that a query attends, its own included, unless a call says else; 0: all.
  int sinks = -1; ///< constant [layers or 1, q_heads, 1] of learned sink logits; -1: none.
};

struct CacheMethod {
  std::string name;
  SideMethod key, value;
  int q_heads = 0, kv_heads = 0, layers = 1;
  int page = 64;
  int sink = 0, recent = 0; ///< high-precision windows, tokens; 0 in format version 0.
  AttentionMethod attention;
  std::vector<Constant> constants;

  RecordSpec record() const; ///< layout specification of one page of one KV head.
  /// Byte offset in the constants blob of the learned sink logits of a layer, [q_heads]; -1: none.
  int64_t sinksOffset(int64_t layer) const;
  /// Whether some tokens are kept as rows of high precision beside the records.
  bool windowed() const { return sink || recent; }
  /// Bytes of a token and KV head in high precision: its key and its value.
  int64_t windowRowBytes() const;
};

/// "min", "zero", "sym" or "norm".
const char *formName(ParameterForm form);

/// Empty when every number and index of a method is in its range and its record is legal; else one
/// sentence that says where, what was expected and what was got. The method may come from anywhere.
std::string verifyMethod(const CacheMethod &method);

/// JSON text of a method (schema version 0), and back. `parseMethod` returns an empty string and
/// fills `out`, or returns one sentence that says what was expected and what was got, and leaves
/// `out` alone. What it returns has passed verifyMethod.
std::string methodText(const CacheMethod &method);
std::string parseMethod(const std::string &text, CacheMethod &out);

} // namespace kvq
