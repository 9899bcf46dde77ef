// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workspace and shared memory of the GPU decode kernels (kernel_abi.h).
#pragma once

#include <cstdint>

namespace mlir::kvq {

/// Queries are handled in n-tiles of four: an MMA has eight columns, the high and the low part of
/// each query.
inline constexpr int64_t nTilesOf(int64_t queries) { return (queries + 3) / 4; }

struct GpuWorkspace {
  int64_t queries; ///< the row class, a multiple of 4
  int64_t keyDim, keyGroups, valueDim;

  int64_t nTiles() const { return nTilesOf(queries); }
  int64_t rows() const { return 4 * nTiles(); }

  // The query workspace of one segment, in words: the B fragments [n-tile][k-step, h]
  // [lane], then for each row: the scale, the sum over each key group, the shift.
  int64_t fragmentWords() const { return keyDim / 16; }
  int64_t rowWords() const { return keyGroups + 2; }
  static int64_t stepWord() { return 0; }
  static int64_t sumWord(int64_t group) { return 1 + group; }
  int64_t shiftWord() const { return 1 + keyGroups; }
  int64_t rowBegin() const { return nTiles() * fragmentWords() * 32; }
  int64_t queryFloats() const { return roundUp(rowBegin() + rows() * rowWords(), 32); }

  // What a lane holds of it, in words: its B fragments [n-tile][k-step, h], the words of row 4 n +
  // t [n-tile], then [n-tile]: a bit for each query of it that exists.
  int64_t laneRow(int64_t n) const { return nTiles() * fragmentWords() + n * rowWords(); }
  int64_t laneExists(int64_t n) const { return laneRow(nTiles()) + n; }
  int64_t laneWords() const { return laneExists(nTiles()); }

  // One partial result in the workspace: queries x dim outputs, maxima, sums.
  int64_t partialMaxima() const { return queries * valueDim; }
  int64_t partialSums() const { return partialMaxima() + queries; }
  int64_t partialFloats() const { return roundUp(partialSums() + queries, 32); }

  // One partial result of a warp in shared memory, in words: [n-tile][slice][pitch], slice 8
  // channels x 4 queries in lane order; then (maximum, sum) of each row. The pitch keeps both the
  // lanes of a slice and the slices of a row apart in the banks.
  static constexpr int64_t kPitch = 33;
  int64_t slices() const { return valueDim / 8; }
  int64_t warpMaxima() const { return nTiles() * slices() * kPitch; }
  int64_t warpWords() const { return roundUp(warpMaxima() + 2 * rows(), 4); }

private:
  static int64_t roundUp(int64_t x, int64_t m) { return (x + m - 1) / m * m; }
};

/// A scores fragment, in words: scores [tile][n-tile][r] in units of the query step, then the steps
/// [n-tile], then which queries exist [n-tile].
struct ScoreWords {
  int64_t nTiles, tiles;

  int64_t score(int64_t tile, int64_t n, int64_t r) const { return (tile * nTiles + n) * 2 + r; }
  int64_t step(int64_t n) const { return score(tiles, 0, 0) + n; }
  int64_t exists(int64_t n) const { return step(nTiles) + n; }
  int64_t count() const { return exists(nTiles); }
};

} // namespace mlir::kvq
