// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fold algebra: moves a dequantization out of the inner product of attention. No IR here.
//
// A dequantization is a composition of factors from the code outward, y_0 = code, y_{i+1} =
// factor_i(y_i), and the row of token t is x_t = y_n. Every factor names the axes along which it
// varies:
//
//   t token, d channel, g channel group (a function of d), T token tile (a function of t)
//
// K contracts the channels, score_t = sum_d q_d x_td, and V the tokens, out_d = sum_t p_t x_td.
// Both are the bilinear form sum_td p_t q_d x_td, so one walk from the outside in serves both: it
// writes x as a sum of terms
//
//   term_t = ( payload_t * token(t, T, g) ) tile-operations(T) fixed-operations
//
// where the payload is the code (after what stays element-wise) or the value of an offset, token
// factors are scalars per token or per token and group, and operations act on the channels:
// diagonal scales and rotations. What stands on the channel side goes into q (K) or into the
// accumulator (V); what stands on the token side multiplies the score (K) or the probability (V).
// The axes alone decide; docs/folding.md derives the rules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::kvq::folding {

/// Axes along which a factor varies, a set of bits.
enum Axis : uint8_t { axisToken = 1, axisChannel = 2, axisGroup = 4, axisTile = 8 };
using Axes = uint8_t;

/// "t, g", or "constant" for the empty set.
std::string axesText(Axes axes);

/// One factor of a dequantization.
struct Factor {
  enum class Kind : uint8_t {
    scale,    ///< y * s
    offset,   ///< y + z
    rotation, ///< y R, or y R^T when `transposed`; axes {} or {T}
    map,      ///< any function of one element, such as a codebook
  };
  Kind kind = Kind::scale;
  std::string name;
  Axes axes = 0;
  int block = 0; ///< rotation: channels that it mixes, in aligned blocks; 0 is the whole row
  bool transposed =
      false;         ///< rotation: multiplies by R^T. The same name with the other flag cancels it.
  bool fast = false; ///< rotation: a Hadamard transform, block * log2(block) operations a block
  bool exact = false; ///< offset: needs exact weights, so it may not start an integer accumulator
};

struct Composition {
  std::vector<Factor> factors; ///< from the code outward
  int dim = 0;                 ///< channels of a row
  int group = 0;               ///< channels of a group; 0 is the whole row
  int tile = 16;               ///< tokens of a tile
};

/// Empty when `composition` is well formed, else the rule broken, with expected and got.
std::string verifyComposition(const Composition &composition);

enum class Side : uint8_t { key, value };

/// Where a factor goes. The letters name the axes that a place can tell apart.
enum class Place : uint8_t {
  // K, channel side.
  query,          ///< into q, once (d)
  query_per_tile, ///< into q, once per tile (d, T)
  // K, token side.
  score,           ///< multiplies the dot product (t)
  score_per_group, ///< multiplies the dot product of a group (t, g)
  // Offsets. In K the sum of q over the offset, in V the sum of the weights times the offset.
  bias_per_token, ///< one scalar per token (and group) (t, g)
  bias_per_tile,  ///< once per tile (d, T)
  bias_constant,  ///< K: one scalar per query; V: one per channel, times the sum of the weights (d)
  // V, token side.
  probability,           ///< multiplies p before the sum (t)
  probability_per_group, ///< multiplies p before the sum, one p per group (t, g)
  // Both: an offset that starts the accumulator of the codes, and takes the factors of the codes
  // (d, T).
  accumulator,
  // V, channel side.
  accumulator_per_tile, ///< acts on the accumulator of a tile, which is flushed per tile (d, T)
  output,               ///< acts on the finished sum, once (d)
  // K, offsets that are the same for every token.
  dropped,     ///< softmax does not see it (d)
  log_sum_exp, ///< dropped, and added to the exported log-sum-exp (d)
  // Both.
  elementwise, ///< stays in registers, per element (t, d)
};
inline constexpr int kPlaces = 15;

const char *placeName(Place place);
/// The axes that `place` tells apart; a factor that varies along another axis cannot stand there.
Axes placeAxes(Place place);

/// What the softmax around K allows.
struct ScoreRules {
  bool shiftInvariant = true; ///< adding one number to every score of a query changes nothing
  bool exportsLogSumExp =
      false; ///< the log-sum-exp leaves the kernel, so a dropped shift must enter it
};

/// Operations per query head, counted as multiply-adds.
struct Cost {
  int64_t perToken = 0, perTile = 0, perQuery = 0;
};

/// One term of a folded row. Indices are factors of the composition; operations and payload are
/// listed in the order in which they act on the payload (token factors and diagonals commute among
/// themselves).
struct Term {
  int offset = -1;          ///< the offset that is the payload; -1: the payload is the code
  std::vector<int> payload; ///< code only: factors that stay element-wise
  std::vector<int> token;   ///< scalars per token, or per token and group
  std::vector<int> tile;    ///< operations on the channels, once per tile
  std::vector<int> fixed;   ///< operations on the channels, once
  bool constant =
      false; ///< the same row for every token: known when compiling, operations included
};

struct Plan {
  Side side = Side::key;
  Composition composition;
  std::vector<Place> places; ///< one per factor
  std::vector<Cost> costs;   ///< one per factor
  Cost total;
};

/// The terms that `plan.places` stand for; the last one is the code's. Total: any places give some
/// terms, so that a test can execute a wrong plan.
std::vector<Term> termsOf(const Plan &plan);

/// Places every factor of a well-formed composition. The sum of the terms equals the composition
/// exactly; a `dropped` or `log_sum_exp` term is the same for every token.
Plan placeKey(const Composition &composition, const ScoreRules &rules = {});
Plan placeValue(const Composition &composition);

/// "3 per token, 0 per tile, 128 per query"
std::string costText(const Cost &cost);

} // namespace mlir::kvq::folding
