// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Level 3: tile ops on high-precision window rows (record.md section 6): rows of f16 or bf16 as they are stored, in the
// basis of the codes and centered like them, `dim` elements each, one after another.
//
// A tile is 16 rows that follow one another; `rows` is the address of its row 0, aligned to 16 bytes. Of them the rows
// `begin` up to `end` count; `begin` may be negative and `end` beyond the tile. The bytes of the others may be stale, and
// have no part in any result. All 16 lie in one page, so pages are multiples of 16 tokens.
#ifndef KVQ_TILE_WINDOW_OPS
#define KVQ_TILE_WINDOW_OPS

include "dialect/KVQTileOps.td"

def KVQ_TileDotRowsOp : KVQ_TileOp<"tile.dot_rows"> {
  let summary = "scores of all queries and 16 rows of K, as tile.score gives them";
  let description = [{
    Rows that do not count give numbers without meaning (tile.mask_rows).

    ```mlir
    %s = kvq.tile.dot_rows %rows, %begin, %end, %query {record = #record, queries = 4 : i64, element = bf16}
      : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
    ```
  }];
  let arguments = (ins KVQ_Address:$rows, I64:$begin, I64:$end, KVQ_Fragment<"query">:$query,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries, TypeAttr:$element);
  let results = (outs KVQ_Fragment<"scores">:$scores);
  let hasVerifier = 1;
}

def KVQ_TileMaskRowsOp : KVQ_TileOp<"tile.mask_rows"> {
  let summary = "-inf for the scores of rows that do not count, after all that changes scores";
  let description = [{
    `tiles` follow one another, of rows or of codes; `begin` and `end` count from the first row of all.

    ```mlir
    %m = kvq.tile.mask_rows %s, %begin, %end {queries = 4 : i64}
      : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"scores">:$scores, I64:$begin, I64:$end, I64Attr:$queries,
                       DefaultValuedAttr<I64Attr, "1">:$tiles);
  let results = (outs KVQ_Fragment<"scores">:$masked);
}

def KVQ_TileAccumulateRowsOp : KVQ_TileOp<"tile.accumulate_rows"> {
  let summary = "adds the sum of p * row over 16 rows of V to every channel and query";
  let description = [{
    p of a row that does not count is exactly 0.

    ```mlir
    %p = kvq.tile.accumulate_rows %o, %rows, %begin, %end, %probs {record = #record, queries = 4 : i64, element = bf16}
      : (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"output">:$output, KVQ_Address:$rows, I64:$begin, I64:$end,
                       KVQ_Fragment<"probs">:$probs, KVQ_TileRecordAttr:$record, I64Attr:$queries, TypeAttr:$element);
  let results = (outs KVQ_Fragment<"output">:$next);
  let hasVerifier = 1;
}

//===-- Targets with integer accumulators -----------------------------------------------------------------------===//
//
// They attend the rows of a window with a softmax and an output of their own, before the codes: init_window, then for
// each tile dot_rows, mask_rows, weigh_window and accumulate_window, at last enter_window.

def KVQ_TileInitWindowOp : KVQ_TileOp<"tile.init_window"> {
  let summary = "the softmax of no row and outputs of 0";
  let description = [{
    ```mlir
    %t, %o = kvq.tile.init_window {record = #record, queries = 4 : i64}
      : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
    ```
  }];
  let arguments = (ins KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"window_softmax">:$state, KVQ_Fragment<"window_output">:$output);
}

def KVQ_TileWeighWindowOp : KVQ_TileOp<"tile.weigh_window"> {
  let summary = "one step of the online softmax over 16 scores of each query, its p in two parts of `element`";
  let description = [{
    Raises the running maximum m to that of the tile and brings the sum and the outputs to it. p, in proportion to
    exp(score - m), is a sum of two elements that errs by less than 2^-16 of p, or 2^-38 of the largest; exactly 0
    for a score of -inf, also where every score is.

    ```mlir
    %t, %p, %w = kvq.tile.weigh_window %s, %o, %scores {record = #record, queries = 4 : i64, element = bf16}
      : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
      -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
    ```
  }];
  let arguments = (ins KVQ_Fragment<"window_softmax">:$state, KVQ_Fragment<"window_output">:$output,
                       KVQ_Fragment<"scores">:$scores, KVQ_TileRecordAttr:$record, I64Attr:$queries, TypeAttr:$element);
  let results = (outs KVQ_Fragment<"window_softmax">:$next, KVQ_Fragment<"window_output">:$sums,
                      KVQ_Fragment<"window_weights">:$weights);
  let hasVerifier = 1;
}

def KVQ_TileAccumulateWindowOp : KVQ_TileOp<"tile.accumulate_window"> {
  let summary = "adds the sum of p * row over 16 rows of V to every channel and query of a window";
  let description = [{
    ```mlir
    %p = kvq.tile.accumulate_window %o, %rows, %begin, %end, %weights
      {record = #record, queries = 4 : i64, element = bf16}
      : (!kvq.fragment<window_output>, !llvm.ptr, i64, i64, !kvq.fragment<window_weights>)
      -> !kvq.fragment<window_output>
    ```
  }];
  let arguments = (ins KVQ_Fragment<"window_output">:$output, KVQ_Address:$rows, I64:$begin, I64:$end,
                       KVQ_Fragment<"window_weights">:$weights, KVQ_TileRecordAttr:$record, I64Attr:$queries,
                       TypeAttr:$element);
  let results = (outs KVQ_Fragment<"window_output">:$next);
  let hasVerifier = 1;
}

def KVQ_TileEnterWindowOp : KVQ_TileOp<"tile.enter_window"> {
  let summary = "begins the softmax and the outputs over codes with what a window's rows gave";
  let description = [{
    `state` and `output` are as tile.init_softmax and tile.init_output left them. The window's sums become sums that
    were moved to fp32; references stay, so the first codes take one of their own.

    ```mlir
    %t, %p = kvq.tile.enter_window %s, %o, %window, %sums {record = #record, queries = 4 : i64}
      : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
      -> (!kvq.fragment<softmax>, !kvq.fragment<output>)
    ```
  }];
  let arguments = (ins KVQ_Fragment<"softmax">:$state, KVQ_Fragment<"output">:$output,
                       KVQ_Fragment<"window_softmax">:$window, KVQ_Fragment<"window_output">:$sums,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"softmax">:$next, KVQ_Fragment<"output">:$result);
}

#endif // KVQ_TILE_WINDOW_OPS
