// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Level 3: tile ops that attend the tiles of records, and merge what warps, teams and splits have made.
// dialect/KVQTileOps.td says what a row, a tile and a fragment are.
#ifndef KVQ_TILE_DECODE_OPS
#define KVQ_TILE_DECODE_OPS

include "dialect/KVQTileOps.td"

//===-- Decode: the tiles of one step ---------------------------------------------------------------------------===//
//
// `tiles` tiles that follow one another are handled at once: one on the CPU, a unit of a stage on a GPU. Of their
// tokens the first `valid` count; without `valid`, all.

def KVQ_TileLoadParamsOp : KVQ_TileOp<"tile.load_params"> {
  let summary = "(scale, offset) per token and channel group of a tile: value = scale * code + offset";
  let description = [{
    Both are selected to 0 for tokens at and past `valid`, before any arithmetic: stale bytes may be NaN. offset is the
    zero of the min form, -zero * scale of the zero form, -mid * scale of the sym form. `tiles` in a row are read.

    ```mlir
    %p = kvq.tile.load_params %tile, %valid {record = #record, side = #kvq.side<key>}
      : (!llvm.ptr, i64) -> !kvq.fragment<params>
    ```
  }];
  let arguments = (ins KVQ_Address:$tile, Optional<I64>:$valid, KVQ_TileRecordAttr:$record,
                       KVQ_TileSideKindAttr:$side, DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"params">:$params);
}

def KVQ_TileDotOp : KVQ_TileOp<"tile.dot"> {
  let summary = "sum of query * code over each channel group, for all queries and the 16 tokens of a tile";
  let description = [{
    The inner loop of scores: raw codes only. Tokens past the end give numbers without meaning, never a trap.

    ```mlir
    %d = kvq.tile.dot %tile, %query {record = #record, queries = 4 : i64}
      : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
    ```
  }];
  let arguments = (ins KVQ_Address:$tile, KVQ_Fragment<"query">:$query, KVQ_TileRecordAttr:$record, I64Attr:$queries,
                       DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"dots">:$dots);
}

def KVQ_TileScoreOp : KVQ_TileOp<"tile.score"> {
  let summary = "score = sum over groups of scale * dot + offset * (sum of the query)";
  let description = [{
    ```mlir
    %s = kvq.tile.score %dots, %params, %query {record = #record, queries = 4 : i64}
      : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"dots">:$dots, KVQ_Fragment<"params">:$params, KVQ_Fragment<"query">:$query,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries, DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"scores">:$scores);
}

def KVQ_TileSoftcapOp : KVQ_TileOp<"tile.softcap"> {
  let summary = "score = cap * tanh((score + shift) / cap), shift being what centering K took from the logit";
  let description = [{
    ```mlir
    %c = kvq.tile.softcap %s, %query {record = #record, queries = 4 : i64, cap = 30.0 : f64}
      : (!kvq.fragment<scores>, !kvq.fragment<query>) -> !kvq.fragment<scores>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"scores">:$scores, KVQ_Fragment<"query">:$query, F64Attr:$cap,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries, DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"scores">:$capped);
}

def KVQ_TileRowBoundsOp : KVQ_TileOp<"tile.row_bounds"> {
  let summary = "of each query row of a block the first token that it attends, and the token after the last";
  let description = [{
    Row i of the block is row `first_row` + i of the KV head, of query token (first_row + i) / `ratio`, whose position
    is `position` more than the number of that token. It attends `window` tokens, its own position the last.

    ```mlir
    %b = kvq.tile.row_bounds %first_row, %ratio, %position, %window {queries = 4 : i64}
      : (i64, i64, i64, i64) -> !kvq.fragment<bounds>
    ```
  }];
  let arguments = (ins I64:$first_row, I64:$ratio, I64:$position, I64:$window, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"bounds">:$bounds);
}

def KVQ_TileMaskScoresOp : KVQ_TileOp<"tile.mask_scores"> {
  let summary = "-inf for the tokens that a query row does not attend; token 0 of the tiles has position `first`";
  let description = [{
    ```mlir
    %m = kvq.tile.mask_scores %s, %bounds, %first {queries = 4 : i64}
      : (!kvq.fragment<scores>, !kvq.fragment<bounds>, i64) -> !kvq.fragment<scores>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"scores">:$scores, KVQ_Fragment<"bounds">:$bounds, I64:$first, I64Attr:$queries,
                       DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"scores">:$masked);
}

def KVQ_TileInitSoftmaxOp : KVQ_TileOp<"tile.init_softmax"> {
  let summary = "running maximum -inf and sum 0 per query";
  let description = [{
    `record` is asked for by targets that keep sums per value group with the softmax (tile.weigh_integer).

    ```mlir
    %s = kvq.tile.init_softmax {queries = 4 : i64} : () -> !kvq.fragment<softmax>
    ```
  }];
  let arguments = (ins I64Attr:$queries, OptionalAttr<KVQ_TileRecordAttr>:$record);
  let results = (outs KVQ_Fragment<"softmax">:$state);
}

def KVQ_TileSoftmaxOp : KVQ_TileOp<"tile.softmax"> {
  let summary = "one step of the online softmax over the 16 scores of each query";
  let description = [{
    Raises the running maximum m to the tile's, gives p = exp(score - m) (exactly 0 for a masked token), multiplies the
    sum by factor = exp(m_old - m) and adds p. `factors` holds the factor of each query: 1 where m did not grow.

    ```mlir
    %t, %probs, %factors = kvq.tile.softmax %state, %scores {queries = 4 : i64}
      : (!kvq.fragment<softmax>, !kvq.fragment<scores>)
      -> (!kvq.fragment<softmax>, !kvq.fragment<probs>, !kvq.fragment<factors>)
    ```
  }];
  let arguments = (ins KVQ_Fragment<"softmax">:$state, KVQ_Fragment<"scores">:$scores, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"softmax">:$next, KVQ_Fragment<"probs">:$probs, KVQ_Fragment<"factors">:$factors);
}

def KVQ_TileInitOutputOp : KVQ_TileOp<"tile.init_output"> {
  let summary = "output accumulators of all queries, zero";
  let description = [{
    A target with integer accumulators keeps their fp32 sums in `partial`, where tile.flush leaves the result.

    ```mlir
    %o = kvq.tile.init_output {record = #record, queries = 4 : i64} : () -> !kvq.fragment<output>
    ```
  }];
  let arguments = (ins Optional<KVQ_Address>:$partial, KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"output">:$output);
}

def KVQ_TileRescaleOp : KVQ_TileOp<"tile.rescale"> {
  let summary = "multiplies the accumulators of each query whose factor is not 1";
  let description = [{
    ```mlir
    %p = kvq.tile.rescale %o, %factors {record = #record, queries = 4 : i64}
      : (!kvq.fragment<output>, !kvq.fragment<factors>) -> !kvq.fragment<output>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"output">:$output, KVQ_Fragment<"factors">:$factors, KVQ_TileRecordAttr:$record,
                       I64Attr:$queries);
  let results = (outs KVQ_Fragment<"output">:$next);
}

def KVQ_TileWeighOp : KVQ_TileOp<"tile.weigh"> {
  let summary = "p * scale per token and channel group of V, in the order the target's accumulate reads it";
  let description = [{
    ```mlir
    %w = kvq.tile.weigh %probs, %params {record = #record, queries = 4 : i64}
      : (!kvq.fragment<probs>, !kvq.fragment<params>) -> !kvq.fragment<weights>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"probs">:$probs, KVQ_Fragment<"params">:$params, KVQ_TileRecordAttr:$record,
                       I64Attr:$queries);
  let results = (outs KVQ_Fragment<"weights">:$weights);
}

def KVQ_TileAddOffsetsOp : KVQ_TileOp<"tile.add_offsets"> {
  let summary = "adds the sum of p * offset over the tile's tokens: one scalar per query and channel group";
  let description = [{
    ```mlir
    %p = kvq.tile.add_offsets %o, %probs, %params {record = #record, queries = 4 : i64}
      : (!kvq.fragment<output>, !kvq.fragment<probs>, !kvq.fragment<params>) -> !kvq.fragment<output>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"output">:$output, KVQ_Fragment<"probs">:$probs, KVQ_Fragment<"params">:$params,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"output">:$next);
}

def KVQ_TileAccumulateOp : KVQ_TileOp<"tile.accumulate"> {
  let summary = "adds the sum of weight * code over the tile's tokens to every channel and query";
  let description = [{
    The inner loop of outputs: raw codes only; a weight of a token past the end is exactly 0.

    ```mlir
    %p = kvq.tile.accumulate %o, %tile, %weights {record = #record, queries = 4 : i64}
      : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"output">:$output, KVQ_Address:$tile, KVQ_Fragment<"weights">:$weights,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries, DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"output">:$next);
}

def KVQ_TileWeighIntegerOp : KVQ_TileOp<"tile.weigh_integer"> {
  let summary = "one step of the online softmax whose weights, p * scale, are 16-bit integers";
  let description = [{
    A weight is round(exp(score - m) * scale) for a reference m per query. The reference stays while every weight of the
    step fits 16 bits; else it rises, and the sums so far (of the softmax, and the accumulators, which move to fp32) are
    brought to it; it falls where a step would leave too few bits. The sums of p * offset, of p * scale and of the
    weights are kept with the softmax: the ratio of the last two corrects what rounding took from the codes. Also moves
    the accumulators before they can overflow (record.md section 8).

    ```mlir
    %t, %p, %w = kvq.tile.weigh_integer %s, %o, %scores, %params {record = #record, queries = 4 : i64, tiles = 4 : i64}
      : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<scores>, !kvq.fragment<params>)
      -> (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<weights>)
    ```
  }];
  let arguments = (ins KVQ_Fragment<"softmax">:$state, KVQ_Fragment<"output">:$output, KVQ_Fragment<"scores">:$scores,
                       KVQ_Fragment<"params">:$params, KVQ_TileRecordAttr:$record, I64Attr:$queries,
                       DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"softmax">:$next, KVQ_Fragment<"output">:$sums, KVQ_Fragment<"weights">:$weights);
}

def KVQ_TileFlushOp : KVQ_TileOp<"tile.flush"> {
  let summary = "writes the partial result of a split: unnormalised outputs, maximum and sum per query";
  let description = [{
    `partial` receives queries x dim outputs, then the maxima, then the sums, in f32.

    ```mlir
    kvq.tile.flush %o, %state, %partial {record = #record, queries = 4 : i64}
      : (!kvq.fragment<output>, !kvq.fragment<softmax>, !llvm.ptr) -> ()
    ```
  }];
  let arguments = (ins KVQ_Fragment<"output">:$output, KVQ_Fragment<"softmax">:$state, KVQ_Address:$partial,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries);
}

//===-- Merge ---------------------------------------------------------------------------------------------------===//

def KVQ_TileMergeWarpsOp : KVQ_TileOp<"tile.merge_warps"> {
  let summary = "query `index` of the partial results that `count` warps flushed: row, maximum, sum";
  let description = [{
    The row is not divided by the sum. Partials follow one another in shared memory, as tile.flush wrote them.

    ```mlir
    %row, %max, %sum = kvq.tile.merge_warps %partials, %count, %index {record = #record, queries = 4 : i64}
      : (!llvm.ptr, i64, i64) -> (!kvq.tile_row<128>, f32, f32)
    ```
  }];
  let arguments = (ins KVQ_Address:$partials, I64:$count, I64:$index, KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs KVQ_TileRowType:$row, F32:$max, F32:$sum);
  let hasVerifier = 1;
}

def KVQ_TileStorePartialOp : KVQ_TileOp<"tile.store_partial"> {
  let summary = "writes row, maximum and sum of query `index` to a partial result in the workspace";
  let description = [{
    `partial` holds queries x dim outputs, then the maxima, then the sums, in f32.

    ```mlir
    kvq.tile.store_partial %row, %max, %sum, %partial, %index {queries = 4 : i64}
      : (!kvq.tile_row<128>, f32, f32, !llvm.ptr, i64) -> ()
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, F32:$max, F32:$sum, KVQ_Address:$partial, I64:$index, I64Attr:$queries);
}

def KVQ_TileMergePartialsOp : KVQ_TileOp<"tile.merge_partials", [AllTypesMatch<["row", "result"]>]> {
  let summary = "query `index` of `count` partial results in the workspace, in ascending order; replaces the row";
  let description = [{
    ```mlir
    %r, %max, %sum = kvq.tile.merge_partials %row, %partials, %count, %index {stride = 2080 : i64, queries = 4 : i64}
      : (!kvq.tile_row<128>, !llvm.ptr, i64, i64) -> (!kvq.tile_row<128>, f32, f32)
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_Address:$partials, I64:$count, I64:$index, I64Attr:$stride,
                       I64Attr:$queries);
  let results = (outs KVQ_TileRowType:$result, F32:$max, F32:$sum);
  let hasVerifier = 1;
}

def KVQ_TileNormalizeOp : KVQ_TileOp<"tile.normalize", [AllTypesMatch<["row", "result"]>]> {
  let summary = "row / denominator, the natural log-sum-exp, and the sum of p over the denominator";
  let description = [{
    The denominator is the sum and exp(`sink`), a learned logit that no value belongs to; -inf is none. A row of sum 0
    becomes zeros, with lse -inf and mass 0, whatever the sink.

    ```mlir
    %r, %lse, %mass = kvq.tile.normalize %row, %max, %sum, %sink
      : (!kvq.tile_row<128>, f32, f32, f32) -> (!kvq.tile_row<128>, f32, f32)
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, F32:$max, F32:$sum, F32:$sink);
  let results = (outs KVQ_TileRowType:$result, F32:$lse, F32:$mass);
}

def KVQ_TileCombineOp : KVQ_TileOp<"tile.combine"> {
  let summary = "the output row of query `index` from the partial results of `splits` splits, in ascending order";
  let description = [{
    Partials lie `stride` bytes apart. The denominator is the sum of p and exp(`sink`), a learned logit that no value
    belongs to; -inf is none. `lse` is the natural log-sum-exp and `mass` the sum of p over the denominator: 1 without a
    sink, or 0 (with lse -inf and a row of zeros, whatever the sink) when nothing was attended.

    ```mlir
    %row, %lse, %mass = kvq.tile.combine %partials, %splits, %index, %sink {stride = 1152 : i64, queries = 4 : i64}
      : (!llvm.ptr, i64, i64, f32) -> (!kvq.tile_row<64>, f32, f32)
    ```
  }];
  let arguments = (ins KVQ_Address:$partials, I64:$splits, I64:$index, F32:$sink, I64Attr:$stride, I64Attr:$queries);
  let results = (outs KVQ_TileRowType:$row, F32:$lse, F32:$mass);
  let hasVerifier = 1;
}

def KVQ_TileQueryShiftOp : KVQ_TileOp<"tile.query_shift"> {
  let summary = "the shift that store_query kept for query `index`";
  let description = [{
    ```mlir
    %s = kvq.tile.query_shift %workspace, %index {record = #record, queries = 4 : i64} : (!llvm.ptr, i64) -> f32
    ```
  }];
  let arguments = (ins KVQ_Address:$workspace, I64:$index, KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs F32:$shift);
}

#endif // KVQ_TILE_DECODE_OPS
