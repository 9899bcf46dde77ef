// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The baseline of kvq-bench: decode attention over a paged BF16 cache, bound by the reading of it.
// bf16_decode.ptx is made from this file, and must be made anew after a change, by
//     tools/scripts/bf16_ptx.py
// A sequence has 32 query and 8 KV heads of 128 channels. Memory of a page of 64 tokens:
// [KV head][K, V][token][channel]. A unit of work is a page of one KV head; the units by (sequence,
// KV head, page) are cut into one range for each block. A block works on one unit at a time, its
// warps on eight tokens each and far enough ahead of their arithmetic to keep the memory busy. Lane
// 4 g + t reads of K the channels 32 i + 8 t to 32 i + 8 t + 7 of token g, and of V the channels
// 64 i + 8 g to 64 i + 8 g + 7 of tokens 2 t and 2 t + 1: with the channels in this order these are
// operands B of the matrix instructions. In shared memory the chunks of a token are swapped so that
// neither the copies, 512 bytes in a row, nor these reads meet in a bank.
#include <cuda_pipeline.h>
#include <stdint.h>

constexpr int kDim = 128, kGroup = 4, kKvHeads = 8, kPage = 64, kWarps = 8, kStages = 3;
constexpr int kTokens = kPage / kWarps;             // of a warp in a unit
constexpr int kRowChunks = kDim / 8;                // 16-byte chunks of a token
constexpr int kChunks = kPage * kRowChunks;         // of K or V in a unit
constexpr int kRows = kGroup * kDim;                // numbers of a result
constexpr int kPartial = kRows + 2 * kGroup;        // of a partial result: the rows, maxima, sums
constexpr float kLow = -1e30f;                      // a maximum of no scores
constexpr float kScale = 1.44269504f / 11.3137085f; // log2(e) / sqrt(128)

struct Arguments {
  const uint4 *pool;
  const int32_t *table;          // [sequence][columns]
  const uint4 *queries;          // bf16 [sequence][32][128]
  uint32_t *out;                 // bf16, as the queries
  float *partial;                // [blocks + segments][kPartial]
  unsigned *counters;            // [segments], zero before and after a launch
  int columns, length, segments; // a segment is a KV head of a sequence
};

// Online softmax in units of log2 of head g, lanes with g > 3 idle. `row[8 i + e]` are the channels
// 64 i + 16 t + e and 8 more, first of the weights rounded to BF16, then of what rounding took.
struct State {
  float high, sum, row[16][4];
};

static __device__ void clear(State &state) {
  state.high = kLow, state.sum = 0;
  for (auto &row : state.row)
    row[0] = row[1] = row[2] = row[3] = 0;
}

// C (16 x 8) += A (16 x 16, the lower half zero) B.
static __device__ void multiplyKeys(float (&c)[4], uint32_t a0, uint32_t a2, uint32_t b0,
                                    uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%5}, {%7,%8}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(0), "r"(a2), "r"(b0), "r"(b1));
}

// C (16 x 8) += A (16 x 8) B.
static __device__ void multiplyValues(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(b));
}

static __device__ uint32_t toBf16(float low, float high) {
  uint32_t out;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
  return out;
}

static __device__ float maxOverTokens(float value) {
  value = fmaxf(value, __shfl_xor_sync(~0u, value, 1));
  return fmaxf(value, __shfl_xor_sync(~0u, value, 2));
}

// Where a chunk of a token lies in the warp's share of K or V in shared memory.
static __device__ int keySlot(int token, int chunk) {
  return token * kRowChunks + (chunk ^ (token & 1) * 4);
}
static __device__ int valueSlot(int token, int chunk) {
  return token * kRowChunks + (chunk ^ (token & 6));
}

// `keys` and `values` are those of eight tokens; tokens from `tokens` on do not count.
static __device__ void attend(State &state, const uint4 (&query)[4], const uint4 *keys,
                              const uint4 *values, int tokens) {
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, token = 2 * t;
  float score[4] = {};
  for (int i = 0; i < 4; ++i) {
    const uint4 key = keys[keySlot(g, 4 * i + t)];
    multiplyKeys(score, query[i].x, query[i].y, key.x, key.y);
    multiplyKeys(score, query[i].z, query[i].w, key.z, key.w);
  }
  const float s0 = token < tokens ? score[0] * kScale : -INFINITY;
  const float s1 = token + 1 < tokens ? score[1] * kScale : -INFINITY;
  const float high = fmaxf(state.high, maxOverTokens(fmaxf(s0, s1)));
  if (__any_sync(~0u, high > state.high)) {
    const float shrink = exp2f(state.high - high);
    state.high = high, state.sum *= shrink;
    for (auto &row : state.row)
      for (float &value : row)
        value *= shrink;
  }
  const float p0 = exp2f(s0 - high), p1 = exp2f(s1 - high);
  state.sum += p0 + p1;
  const uint32_t weights = toBf16(p0, p1);
  const uint32_t rest =
      toBf16(p0 - __uint_as_float(weights << 16), p1 - __uint_as_float(weights & 0xffff0000u));
  for (int i = 0; i < 2; ++i) {
    const uint4 x = values[valueSlot(token, 8 * i + g)],
                y = values[valueSlot(token + 1, 8 * i + g)];
    const uint32_t first[4] = {x.x, x.y, x.z, x.w}, second[4] = {y.x, y.y, y.z, y.w};
    for (int e = 0; e < 8; ++e)
      multiplyValues(state.row[8 * i + e], weights, rest,
                     __byte_perm(first[e / 2], second[e / 2], e % 2 ? 0x7632 : 0x5410));
  }
}

// Writes a warp's kPartial numbers.
static __device__ void put(const State &state, float *out) {
  const int head = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  float sum = state.sum;
  sum += __shfl_xor_sync(~0u, sum, 1);
  sum += __shfl_xor_sync(~0u, sum, 2);
  if (head >= kGroup)
    return;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 2; ++j)
      out[head * kDim + i / 8 * 64 + 16 * t + 8 * j + i % 8] =
          state.row[i][j] + state.row[i][j + 2];
  out[kRows + head] = state.high, out[kRows + kGroup + head] = sum;
}

// Of a thread's two numbers of the result: their values, and sum and maximum of their head.
struct Element {
  float2 value;
  float sum, high;
};

// Numbers 2 threadIdx.x and the next over `count` partial results.
static __device__ Element joinPartials(const float *partial, int count) {
  const int head = 2 * threadIdx.x / kDim;
  Element out = {{0, 0}, 0, kLow};
#pragma unroll 8
  for (int i = 0; i < count; ++i, partial += kPartial) {
    const float other = partial[kRows + head], sum = partial[kRows + kGroup + head];
    const float2 value = reinterpret_cast<const float2 *>(partial)[threadIdx.x];
    const float high = fmaxf(out.high, other);
    const float old = exp2f(out.high - high), scale = exp2f(other - high);
    out.value.x = out.value.x * old + value.x * scale;
    out.value.y = out.value.y * old + value.y * scale;
    out.sum = out.sum * old + sum * scale;
    out.high = high;
  }
  return out;
}

static __device__ void store(const Arguments &args, int segment, const Element &element) {
  args.out[int64_t(segment) * kRows / 2 + threadIdx.x] =
      toBf16(element.value.x / element.sum, element.value.y / element.sum);
}

// Block with unit `unit`, where block b begins at unit b * units / blocks.
static __device__ int blockOf(int64_t unit, int64_t units) {
  return int(((unit + 1) * gridDim.x - 1) / units);
}

// The results of the warps become that of the block; the block that is the last of a segment joins
// those of all.
static __device__ void finish(const Arguments &args, const State &state, int segment,
                              float *warps) {
  const int thread = threadIdx.x;
  put(state, warps + thread / 32 * kPartial);
  __syncthreads();
  const int64_t units = int64_t(args.segments) * args.columns;
  const int64_t begin = int64_t(segment) * args.columns;
  const int first = blockOf(begin, units);
  const int parts = blockOf(begin + args.columns - 1, units) - first + 1;
  // Along the units a block or a segment ends at each place: block + segment is of one place only.
  float *partial = args.partial + int64_t(blockIdx.x + segment) * kPartial;
  const Element element = joinPartials(warps, kWarps);
  if (parts == 1) {
    store(args, segment, element);
  } else {
    reinterpret_cast<float2 *>(partial)[thread] = element.value;
    if (thread % (kDim / 2) == 0) {
      const int head = 2 * thread / kDim;
      partial[kRows + head] = element.high, partial[kRows + kGroup + head] = element.sum;
    }
    __threadfence();
    __syncthreads();
    if (__syncthreads_or(thread == 0 &&
                         atomicAdd(args.counters + segment, 1u) == unsigned(parts - 1))) {
      __threadfence();
      store(args, segment, joinPartials(args.partial + int64_t(first + segment) * kPartial, parts));
      if (thread == 0)
        args.counters[segment] = 0;
    }
  }
  __syncthreads();
}

// Dynamic shared memory: [warp][stage][K, V][token][chunk], then [warp][kPartial] numbers.
extern "C" __global__ void __launch_bounds__(32 * kWarps, 2) bf16_decode(const Arguments args) {
  extern __shared__ uint4 memory[];
  constexpr int kShare = kTokens * kRowChunks; // chunks of a warp's K or V in a unit
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  uint4 *ring = memory + warp * kStages * 2 * kShare;
  float *warps = reinterpret_cast<float *>(memory + kWarps * kStages * 2 * kShare);
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
      const int64_t head = int64_t(page) * kKvHeads + aheadSegment % kKvHeads;
      const uint4 *keys = args.pool + head * 2 * kChunks + warp * kShare + lane;
      uint4 *to = ring + aheadStage * 2 * kShare;
      for (int i = 0; i < kShare / 32; ++i) {
        const int token = 2 * i + lane / kRowChunks, chunk = lane % kRowChunks;
        __pipeline_memcpy_async(to + keySlot(token, chunk), keys + 32 * i, 16);
        __pipeline_memcpy_async(to + kShare + valueSlot(token, chunk), keys + kChunks + 32 * i, 16);
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

  uint4 query[4] = {};
  State state;
  for (int64_t unit = begin; unit < end; ++unit) {
    if (unit == begin || column == 0) {
      clear(state);
      for (int i = 0; i < 4; ++i)
        if (g < kGroup)
          query[i] = args.queries[(int64_t(segment) * kGroup + g) * kRowChunks + 4 * i + t];
    }
    copyNext();
    __pipeline_wait_prior(kStages - 1);
    __syncwarp(); // what other lanes copied
    const uint4 *keys = ring + stage * 2 * kShare;
    attend(state, query, keys, keys + kShare, args.length - column * kPage - warp * kTokens);
    __syncwarp(); // before any lane copies to this stage again
    stage = stage + 1 == kStages ? 0 : stage + 1;
    if (++column == args.columns || unit + 1 == end) {
      finish(args, state, segment, warps);
      column = column == args.columns ? 0 : column;
      ++segment;
    }
  }
}
