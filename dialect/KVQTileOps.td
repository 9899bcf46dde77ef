// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Level 3: tile ops. A kernel is a skeleton (scf loops over splits, pages and tiles, address arithmetic) of these ops;
// each one is lowered by one pattern per target. Units:
//
//   row       one token of one KV head, or one query: `dim` channels, held in fp32
//   tile      16 tokens of one KV head: K codes, V codes, token parameters (record.md section 1)
//   fragment  what a work item holds between two ops. Its shape follows from the op that made it; where it lives
//             (registers, stack, shared memory) is the target's business
//
// Ops that return a fragment of the type they were given update it: the operand is consumed and must not be used again.
// The other fragments live until the op that made them runs again. Addresses point at bytes and are never null.
#ifndef KVQ_TILE_OPS
#define KVQ_TILE_OPS

include "dialect/KVQTileTypes.td"
include "mlir/IR/OpBase.td"

def KVQ_TileOpTrait : NativeOpTrait<"TileOpTrait"> {
  let cppNamespace = "::mlir::kvq";
}

class KVQ_TileOp<string mnemonic, list<Trait> traits = []>
    : Op<KVQ_Dialect, mnemonic, traits # [KVQ_TileOpTrait]> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

//===-- Rows ----------------------------------------------------------------------------------------------------===//

def KVQ_TileLoadRowOp : KVQ_TileOp<"tile.load_row"> {
  let summary = "reads `dim` contiguous elements and widens them to fp32 exactly";
  let description = [{
    ```mlir
    %row = kvq.tile.load_row %address {element = bf16} : (!llvm.ptr) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_Address:$address, TypeAttr:$element);
  let results = (outs KVQ_TileRowType:$row);
}

def KVQ_TileZeroRowOp : KVQ_TileOp<"tile.zero_row"> {
  let summary = "a row of zeros";
  let description = [{
    ```mlir
    %row = kvq.tile.zero_row : () -> !kvq.tile_row<128>
    ```
  }];
  let results = (outs KVQ_TileRowType:$row);
}

def KVQ_TileStoreRowOp : KVQ_TileOp<"tile.store_row"> {
  let summary = "rounds each channel to `element` (nearest even; a NaN stays a NaN) and writes the row";
  let description = [{
    ```mlir
    kvq.tile.store_row %row, %address {element = bf16} : (!kvq.tile_row<128>, !llvm.ptr) -> ()
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_Address:$address, TypeAttr:$element);
}

def KVQ_TileCenterOp : KVQ_TileOp<"tile.center", [AllTypesMatch<["row", "result"]>]> {
  let summary = "row - mean, channel by channel in fp32; `mean` is `dim` f32 values";
  let description = [{
    ```mlir
    %c = kvq.tile.center %row, %mean : (!kvq.tile_row<128>, !llvm.ptr) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_Address:$mean);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileAddMeanOp : KVQ_TileOp<"tile.add_mean", [AllTypesMatch<["row", "result"]>]> {
  let summary = "row + factor * mean: undoes a centering in the share `factor` of the probability mass";
  let description = [{
    ```mlir
    %o = kvq.tile.add_mean %row, %mean, %mass : (!kvq.tile_row<128>, !llvm.ptr, f32) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_Address:$mean, F32:$factor);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileAddRowOp : KVQ_TileOp<"tile.add_row", [AllTypesMatch<["row", "addend", "result"]>]> {
  let summary = "row + addend, channel by channel";
  let description = [{
    ```mlir
    %o = kvq.tile.add_row %row, %mean : (!kvq.tile_row<128>, !kvq.tile_row<128>) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_TileRowType:$addend);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileDotMeanOp : KVQ_TileOp<"tile.dot_mean"> {
  let summary = "the inner product of a row with `dim` f32 values, in any order";
  let description = [{
    ```mlir
    %d = kvq.tile.dot_mean %row, %mean : (!kvq.tile_row<128>, !llvm.ptr) -> f32
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_Address:$mean);
  let results = (outs F32:$dot);
}

def KVQ_TileHadamardOp : KVQ_TileOp<"tile.hadamard", [AllTypesMatch<["row", "result"]>]> {
  let summary = "rotates each block of `order` channels by the Sylvester matrix";
  let description = [{
    Exact: stages of stride 1, 2, 4, ... form (a + b, a - b) in fp32; one multiplication by fp32(1 / sqrt(order)) ends.

    ```mlir
    %r = kvq.tile.hadamard %row {order = 128 : i64} : (!kvq.tile_row<128>) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, I64Attr:$order);
  let results = (outs KVQ_TileRowType:$result);
  let hasVerifier = 1;
}

def KVQ_TileRotateOp : KVQ_TileOp<"tile.rotate", [AllTypesMatch<["row", "result"]>]> {
  let summary = "row times a dense matrix of `dim` x `dim` f32 values, row-major";
  let description = [{
    x'_j is the sum of x_i R_ij (with `transpose`, R_ji) over ascending i, each product and each sum rounded to fp32, so
    every target gives the same bits. `any_order` lifts that rule where no code depends on the result.

    ```mlir
    %r = kvq.tile.rotate %row, %matrix {transpose, any_order}
      : (!kvq.tile_row<128>, !llvm.ptr) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_Address:$matrix, UnitAttr:$transpose, UnitAttr:$any_order);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileRoundRowOp : KVQ_TileOp<"tile.round_row", [AllTypesMatch<["row", "result"]>]> {
  let summary = "rounds each channel to `element`, nearest even, and widens it again";
  let description = [{
    ```mlir
    %r = kvq.tile.round_row %row {element = bf16} : (!kvq.tile_row<128>) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, TypeAttr:$element);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileSanitizeOp : KVQ_TileOp<"tile.sanitize", [AllTypesMatch<["row", "result"]>]> {
  let summary = "NaN becomes 0, an infinity the largest finite value of `element` with its sign";
  let description = [{
    ```mlir
    %r = kvq.tile.sanitize %row {element = bf16} : (!kvq.tile_row<128>) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, TypeAttr:$element);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileClipOp : KVQ_TileOp<"tile.clip", [AllTypesMatch<["row", "result"]>]> {
  let summary = "clamps each scope of `scope` channels";
  let description = [{
    `order_statistic`: to [-thr, thr] with thr the element `index` of |x| sorted ascending. `ratio`: to
    [value * min, value * max], products in fp32. `constant`: to [-value, value].

    ```mlir
    %r = kvq.tile.clip %row {kind = #kvq.tile_clip<order_statistic>, scope = 128 : i64, index = 122 : i64,
                             value = 0.96 : f64} : (!kvq.tile_row<128>) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_TileClipKindAttr:$kind, I64Attr:$scope, I64Attr:$index,
                       F64Attr:$value);
  let results = (outs KVQ_TileRowType:$result);
  let hasVerifier = 1;
}

//===-- Append --------------------------------------------------------------------------------------------------===//

def KVQ_TileQuantizeOp : KVQ_TileOp<"tile.quantize"> {
  let summary = "codes and parameters of one row, by the writer's rule of record.md section 4";
  let description = [{
    `half_even` rounds ties to even, else up; `exact` makes codes from the fp32 parameters, else from the stored ones.

    ```mlir
    %codes, %params = kvq.tile.quantize %row {side = #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>}
      : (!kvq.tile_row<128>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, KVQ_TileSideAttr:$side, UnitAttr:$half_even, UnitAttr:$exact);
  let results = (outs KVQ_Fragment<"codes">:$codes, KVQ_Fragment<"params">:$params);
  let hasVerifier = 1;
}

def KVQ_TileStoreCodesOp : KVQ_TileOp<"tile.store_codes"> {
  let summary = "packs the codes of token `token` (0..15) into its bytes of a tile; writes no byte of another token";
  let description = [{
    ```mlir
    kvq.tile.store_codes %codes, %tile, %token {record = #record, side = #kvq.side<key>}
      : (!kvq.fragment<codes>, !llvm.ptr, i64) -> ()
    ```
  }];
  let arguments = (ins KVQ_Fragment<"codes">:$codes, KVQ_Address:$tile, I64:$token, KVQ_TileRecordAttr:$record,
                       KVQ_TileSideKindAttr:$side);
}

def KVQ_TileStoreParamsOp : KVQ_TileOp<"tile.store_params"> {
  let summary = "stores the parameters of token `token` (0..15), one store per element";
  let description = [{
    ```mlir
    kvq.tile.store_params %params, %tile, %token {record = #record, side = #kvq.side<key>}
      : (!kvq.fragment<params>, !llvm.ptr, i64) -> ()
    ```
  }];
  let arguments = (ins KVQ_Fragment<"params">:$params, KVQ_Address:$tile, I64:$token, KVQ_TileRecordAttr:$record,
                       KVQ_TileSideKindAttr:$side);
}

//===-- Decode: queries -----------------------------------------------------------------------------------------===//

def KVQ_TileStoreQueryOp : KVQ_TileOp<"tile.store_query"> {
  let summary = "writes query `index` of `queries` to the query workspace, in the order the target's dot reads it";
  let description = [{
    `row` is the query in the basis of the key, times the softmax scale. `shift` is added to the log-sum-exp at the end
    (what centering K took from every logit). The sums of the query over each channel group are stored with it.

    ```mlir
    kvq.tile.store_query %row, %shift, %workspace, %index {record = #record, queries = 4 : i64}
      : (!kvq.tile_row<128>, f32, !llvm.ptr, i64) -> ()
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, F32:$shift, KVQ_Address:$workspace, I64:$index,
                       KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let hasVerifier = 1;
}

def KVQ_TileClearQueryOp : KVQ_TileOp<"tile.clear_query"> {
  let summary = "marks query `index` of the query workspace as a row that does not exist";
  let description = [{
    What later ops compute for it has no meaning, and influences no other row.

    ```mlir
    kvq.tile.clear_query %workspace, %index {record = #record, queries = 4 : i64} : (!llvm.ptr, i64) -> ()
    ```
  }];
  let arguments = (ins KVQ_Address:$workspace, I64:$index, KVQ_TileRecordAttr:$record, I64Attr:$queries);
}

def KVQ_TileScaleRowOp : KVQ_TileOp<"tile.scale_row", [AllTypesMatch<["row", "result"]>]> {
  let summary = "row times a scalar";
  let description = [{
    ```mlir
    %r = kvq.tile.scale_row %row, %scale : (!kvq.tile_row<128>, f32) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_TileRowType:$row, F32:$factor);
  let results = (outs KVQ_TileRowType:$result);
}

def KVQ_TileLoadQueryOp : KVQ_TileOp<"tile.load_query"> {
  let summary = "the queries of one KV head, from the query workspace";
  let description = [{
    ```mlir
    %q = kvq.tile.load_query %workspace {record = #record, queries = 4 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
    ```
  }];
  let arguments = (ins KVQ_Address:$workspace, KVQ_TileRecordAttr:$record, I64Attr:$queries);
  let results = (outs KVQ_Fragment<"query">:$query);
}

def KVQ_TileLoadCodesOp : KVQ_TileOp<"tile.load_codes"> {
  let summary = "the row that the codes and parameters of token `token` of a tile stand for";
  let description = [{
    scale * code + offset, in the basis in which it is stored.

    ```mlir
    %r = kvq.tile.load_codes %tile, %token {record = #record, side = #kvq.side<key>}
      : (!llvm.ptr, i64) -> !kvq.tile_row<128>
    ```
  }];
  let arguments = (ins KVQ_Address:$tile, I64:$token, KVQ_TileRecordAttr:$record, KVQ_TileSideKindAttr:$side);
  let results = (outs KVQ_TileRowType:$row);
}

#endif // KVQ_TILE_OPS
