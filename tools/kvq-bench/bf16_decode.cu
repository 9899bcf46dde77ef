// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The baseline of kvq-bench: decode attention over a paged BF16 cache, bound by the reading of it.
// bf16_decode.ptx is made from this file, and must be made anew after a change, by
//     tools/scripts/bf16_ptx.py
// A sequence has 32 query and 8 KV heads of 128 channels. Memory of a page of 64 tokens:
// [KV head][K, V][token][channel]. A unit of work is a page of one KV head; the units by (sequence,
// KV head, page) are cut into one range for each block. A block works on one unit at a time, its
// warps on eight tokens each and far enough ahead of their arithmetic to keep the memory busy. Each
// of 16 lanes holds eight channels of a token, so a warp reads two tokens at once.
#include <cuda_pipeline.h>
#include <stdint.h>

constexpr int kDim = 128, kGroup = 4, kKvHeads = 8, kPage = 64, kWarps = 8, kStages = 3;
constexpr int kPairs = kPage / kWarps / 2;          // token pairs of a warp in a unit
constexpr int kChunks = kPage * kDim / 8;           // 16-byte chunks of K (or V) in a unit
constexpr int kRows = kGroup * kDim;                // numbers of a result
constexpr int kPartial = kRows + 2 * kGroup;        // of a partial result: the rows, maxima, sums
constexpr float kLow = -1e30f;                      // a maximum of no scores
constexpr float kScale = 1.44269504f / 11.3137085f; // log2(e) / sqrt(128)

struct Arguments {
  const uint4 *pool;
  const int32_t *table;          // [sequence][columns]
  const uint4 *queries;          // bf16 [sequence][32][128]
  uint16_t *out;                 // bf16, as the queries
  float *partial;                // [blocks + segments][kPartial]
  unsigned *counters;            // [segments], zero before and after a launch
  int columns, length, segments; // a segment is a KV head of a sequence
};

// Online softmax of the four heads in units of log2, for half a warp's tokens.
struct State {
  float high[kGroup], sum[kGroup], row[kGroup][8];
};

static __device__ void clear(State &state) {
  for (int h = 0; h < kGroup; ++h) {
    state.high[h] = kLow, state.sum[h] = 0;
    for (int i = 0; i < 8; ++i)
      state.row[h][i] = 0;
  }
}

static __device__ void unpack(uint4 chunk, float *out) {
  const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

// `chunks` are a lane's of K, then of V, 32 apart; tokens from `tokens` on (two a pair) do not
// count.
static __device__ void attend(State &state, const float (&query)[kGroup][8], const uint4 *chunks,
                              int tokens) {
  float score[kPairs][kGroup], x[8];
  for (int pair = 0; pair < kPairs; ++pair) {
    unpack(chunks[32 * pair], x);
    for (int h = 0; h < kGroup; ++h) {
      float dot = 0;
      for (int i = 0; i < 8; ++i)
        dot += query[h][i] * x[i];
      for (int distance = 8; distance; distance /= 2)
        dot += __shfl_xor_sync(~0u, dot, distance);
      score[pair][h] = 2 * pair < tokens ? dot : -INFINITY;
    }
  }
  for (int h = 0; h < kGroup; ++h) {
    float high = state.high[h];
    for (int pair = 0; pair < kPairs; ++pair)
      high = fmaxf(high, score[pair][h]);
    const float shrink = exp2f(state.high[h] - high);
    state.high[h] = high, state.sum[h] *= shrink;
    for (int i = 0; i < 8; ++i)
      state.row[h][i] *= shrink;
    for (int pair = 0; pair < kPairs; ++pair)
      state.sum[h] += score[pair][h] = exp2f(score[pair][h] - high);
  }
  for (int pair = 0; pair < kPairs; ++pair) {
    unpack(chunks[32 * (kPairs + pair)], x);
    for (int h = 0; h < kGroup; ++h)
      for (int i = 0; i < 8; ++i)
        state.row[h][i] += score[pair][h] * x[i];
  }
}

// Adds what the other half of the warp has; all lanes of a half then hold the sum over the warp.
static __device__ void joinHalves(State &state) {
  for (int h = 0; h < kGroup; ++h) {
    const float high = fmaxf(state.high[h], __shfl_xor_sync(~0u, state.high[h], 16));
    const float shrink = exp2f(state.high[h] - high);
    state.high[h] = high, state.sum[h] *= shrink;
    state.sum[h] += __shfl_xor_sync(~0u, state.sum[h], 16);
    for (int i = 0; i < 8; ++i) {
      state.row[h][i] *= shrink;
      state.row[h][i] += __shfl_xor_sync(~0u, state.row[h][i], 16);
    }
  }
}

// Of one number of the result: its value, and sum and maximum of its head.
struct Element {
  float value, sum, high;
};

// Element `index` over `count` partial results of kPartial numbers each.
static __device__ Element joinPartials(const float *partial, int count, int index) {
  const int head = index / kDim;
  Element out = {0, 0, kLow};
#pragma unroll 4
  for (int i = 0; i < count; ++i, partial += kPartial) {
    const float other = partial[kRows + head];
    const float high = fmaxf(out.high, other), old = exp2f(out.high - high);
    const float scale = exp2f(other - high);
    out.value = out.value * old + partial[index] * scale;
    out.sum = out.sum * old + partial[kRows + kGroup + head] * scale;
    out.high = high;
  }
  return out;
}

static __device__ void store(const Arguments &args, int segment, int index, Element element) {
  const uint32_t bits = __float_as_uint(element.value / element.sum);
  args.out[int64_t(segment) * kRows + index] = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Block with unit `unit`, where block b begins at unit b * units / blocks.
static __device__ int blockOf(int64_t unit, int64_t units) {
  return int(((unit + 1) * gridDim.x - 1) / units);
}

// The results of the warps become that of the block; the block that is the last of a segment joins
// those of all.
static __device__ void finish(const Arguments &args, State &state, int segment, float *warps) {
  const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
  joinHalves(state);
  float *mine = warps + warp * kPartial;
  for (int h = 0; h < kGroup; ++h) {
    if (lane < 16)
      for (int i = 0; i < 8; ++i)
        mine[h * kDim + 8 * lane + i] = state.row[h][i];
    if (lane == 0)
      mine[kRows + h] = state.high[h], mine[kRows + kGroup + h] = state.sum[h];
  }
  __syncthreads();
  const int64_t units = int64_t(args.segments) * args.columns;
  const int64_t begin = int64_t(segment) * args.columns;
  const int first = blockOf(begin, units);
  const int parts = blockOf(begin + args.columns - 1, units) - first + 1;
  // Along the units a block or a segment ends at each place: block + segment is of one place only.
  float *partial = args.partial + int64_t(blockIdx.x + segment) * kPartial;
#pragma unroll 1
  for (int index = thread; index < kRows; index += blockDim.x) {
    const Element element = joinPartials(warps, kWarps, index);
    if (parts == 1) {
      store(args, segment, index, element);
      continue;
    }
    partial[index] = element.value;
    if (index % kDim == 0) {
      partial[kRows + index / kDim] = element.high;
      partial[kRows + kGroup + index / kDim] = element.sum;
    }
  }
  if (parts > 1) {
    __threadfence();
    __syncthreads();
    if (__syncthreads_or(thread == 0 &&
                         atomicAdd(args.counters + segment, 1u) == unsigned(parts - 1))) {
      __threadfence();
#pragma unroll 1
      for (int index = thread; index < kRows; index += blockDim.x)
        store(args, segment, index,
              joinPartials(args.partial + int64_t(first + segment) * kPartial, parts, index));
      if (thread == 0)
        args.counters[segment] = 0;
    }
  }
  __syncthreads();
}

// Dynamic shared memory: [warp][stage][8][lane] chunks, then [warp][kPartial] numbers.
extern "C" __global__ void __launch_bounds__(32 * kWarps, 2) bf16_decode(const Arguments args) {
  extern __shared__ uint4 memory[];
  constexpr int kStage = 32 * 2 * kPairs;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint4 *ring = memory + warp * kStages * kStage + lane;
  float *warps = reinterpret_cast<float *>(memory + kWarps * kStages * kStage);
  const int64_t units = int64_t(args.segments) * args.columns;
  const int64_t begin = blockIdx.x * units / gridDim.x, end = (blockIdx.x + 1) * units / gridDim.x;
  cudaTriggerProgrammaticLaunchCompletion();
  // As decode of a library: a caller's kernel before this one may have written the pages.
  cudaGridDependencySynchronize();

  // Where copies are: the unit, its segment and page; the page's number is read a unit ahead.
  int64_t ahead = begin;
  int segment = int(begin / args.columns), column = int(begin % args.columns), stage = 0;
  int aheadSegment = segment, aheadColumn = column, aheadStage = 0;
  auto pageAhead = [&] {
    return ahead < end ? args.table[aheadSegment / kKvHeads * args.columns + aheadColumn] : 0;
  };
  int page = pageAhead();
  auto copyNext = [&] {
    if (ahead < end) {
      const uint4 *from = args.pool +
                          (int64_t(page) * kKvHeads + aheadSegment % kKvHeads) * 2 * kChunks +
                          warp * 32 * kPairs + lane;
      uint4 *to = ring + aheadStage * kStage;
      for (int i = 0; i < kPairs; ++i) {
        __pipeline_memcpy_async(to + 32 * i, from + 32 * i, 16);
        __pipeline_memcpy_async(to + 32 * (kPairs + i), from + kChunks + 32 * i, 16);
      }
      if (++aheadColumn == args.columns)
        aheadColumn = 0, ++aheadSegment;
      aheadStage = aheadStage + 1 == kStages ? 0 : aheadStage + 1;
      ++ahead;
      page = pageAhead();
    }
    __pipeline_commit();
  };
  for (int i = 0; i + 1 < kStages; ++i)
    copyNext();

  float query[kGroup][8];
  State state;
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == begin || column == 0) {
      clear(state);
      for (int h = 0; h < kGroup; ++h) {
        unpack(args.queries[(int64_t(segment) * kRows + h * kDim) / 8 + lane % 16], query[h]);
        for (float &value : query[h])
          value *= kScale;
      }
    }
    copyNext();
    __pipeline_wait_prior(kStages - 1);
    attend(state, query, ring + stage * kStage,
           args.length - column * kPage - warp * 2 * kPairs - lane / 16);
    stage = stage + 1 == kStages ? 0 : stage + 1;
    if (++column == args.columns || unit + 1 == end) {
      finish(args, state, segment, warps);
      column = column == args.columns ? 0 : column;
      ++segment;
    }
  }
}
