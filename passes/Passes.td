// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of level 1 and 2. Every example below is a run test in lit/passes/.
#ifndef KVQ_PASSES
#define KVQ_PASSES

include "mlir/Pass/PassBase.td"

def ImportCalibration : Pass<"kvq-import-calibration", "::mlir::ModuleOp"> {
  let summary = "gives constants the values of a calibration file";
  let description = [{
    Reads a calibration file (safetensors, metadata key `kvq_calibration`) and fills the value of every `kvq.constant`
    that has a source and no value yet. Source `k.mean` stands for the tensors `layers.{i}.k.mean`; they are stacked in
    ascending order of the layers present, so a constant of type tensor<LxHxDxf32> needs L tensors [H, D]. Where the cache
    that uses the constant says at which layers of the model it serves, the tensors are those of these layers instead.

    Refused, with nothing changed: a file that cannot be read or whose digest differs, a constant that is not in the
    file, another element type, shape or number of layers, caches that disagree on the layers of a constant, a value that is not finite, and a rotation R (rank 4) with an
    entry of R R^T - I beyond 1e-3.

    Example:

    ```mlir
    kvq.constant @key_mean source("k.mean") : tensor<2x3x64xf32>
    ```

    becomes

    ```mlir
    kvq.constant @key_mean source("k.mean") : tensor<2x3x64xf32>
      = dense_resource<"calib.key_mean"> : tensor<2x3x64xf32>
    ```
  }];
  let options = [Option<"file", "file", "std::string", "", "calibration file to read">];
}

def DefaultAttention : Pass<"kvq-default-attention", "::mlir::ModuleOp"> {
  let summary = "adds attention for caches that none reads";
  let description = [{
    For each `kvq.cache` that no `kvq.attention` or `kvq.fused_attention` names, adds a function `<cache>_decode` with a
    causal attention of scale 1 / sqrt(D), D the head dim of the keys. A symbol of that name is an error.

    Example:

    ```mlir
    kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
    ```

    gets

    ```mlir
    func.func @cache_decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
      %o = kvq.attention %q, @cache scale(1.250000e-01) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
      return %o : !kvq.rows<?x64xbf16>
    }
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::kvq::KVQDialect"];
}

def Simplify : Pass<"kvq-simplify", "::mlir::ModuleOp"> {
  let summary = "drops stages that do nothing and merges rotations";
  let description = [{
    On each pipeline that no `kvq.fused_attention` reads yet:

    - neighbouring factors of a rotation that are inverse to each other cancel;
    - a dense factor whose value is the identity for every layer and head is dropped, and so is a permutation that is
      the last factor before a single group per row: it only renames codes;
    - two neighbouring rotations become one when the rows between them are f32;
    - a rotation without factors disappears, its rounding joins the stage before it when that was f32;
    - a center by an all-zero constant disappears;
    - a clip that cannot act, `order_statistic(1.0)` or `ratio(1.0)`, disappears.

    Each stage rounds once, to the element type of its result. A merge that would remove a rounding (two rotations with
    bf16 rows between them) is not done, and a remark (`--remarks-filter=kvq.*`) says so. Two centers are never merged: subtracting two means is
    not, in fp32, subtracting their sum.

    Example:

    ```mlir
    %a = kvq.rotate %k by [hadamard<64>] as f32 : !kvq.rows<?x64xbf16>
    %b = kvq.rotate %a by [dense<@calib::@r>] as bf16 : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
    %c = kvq.clip %b order_statistic(1.0) per row
      : !kvq.rows<?x64xbf16, basis = [hadamard<64>, dense<@calib::@r>]>
    ```

    becomes

    ```mlir
    %b = kvq.rotate %k by [hadamard<64>, dense<@calib::@r>] : !kvq.rows<?x64xbf16>
    ```
  }];
}

def PlaceRotations : Pass<"kvq-place-rotations", "::mlir::ModuleOp"> {
  let summary = "turns attention in the model's basis into attention in the cache's bases";
  let description = [{
    Replaces each `kvq.attention` by a `kvq.fused_attention` whose query stands in the basis of the keys and whose result
    is in the basis of the values: the query is rotated before it (as f32, it is not rounded), and the result is rotated
    back after it. With `output=weights` the result keeps the basis of the values; the function then returns rows in that
    basis, and its attribute `kvq.output_weights` lists the factors that the output projection must apply: W_O holds
    their product.

    A mean subtracted from K shifts every logit of a query by scale q.mu. Softmax ignores it, and
    - a softcap does not: the shift is added before it (`add_key_mean`);
    - without one, the log-sum-exp is mended where partial results are merged (`fix_lse`): a learned sink, which is not
      shifted, joins behind that.

    A mean subtracted from V is added to the output (`add_value_mean`).

    Example:

    ```mlir
    %o = kvq.attention %q, @cache scale(0.125) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
    ```

    becomes, with both sides rotated by hadamard<64>,

    ```mlir
    %0 = kvq.rotate %q by [hadamard<64>] as f32 : !kvq.rows<?x64xbf16>
    %1 = kvq.fused_attention %0, @cache scale(1.250000e-01) causal
      : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
    %2 = kvq.rotate %1 by [hadamard<64>] as bf16 : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
    ```
  }];
  let options = [Option<"output", "output", "std::string", "\"rotate\"",
                        "rotate: rotate the result back; weights: the output projection holds the inverse">];
  let dependentDialects = ["::mlir::kvq::KVQDialect"];
}

def FuseAttention : Pass<"kvq-fuse-attention", "::mlir::ModuleOp"> {
  let summary = "moves the dequantization out of the inner product";
  let description = [{
    Writes the dequantization of both sides as a composition of factors and places each one by the algebra of
    docs/folding.md; the axes along which a factor varies decide. The attribute `folding` of the `kvq.fused_attention`
    lists factor, axes, place and cost. A remark per factor says the same (`--remarks-filter=kvq.*`), and one per side gives
    the sum in multiply-adds per token, tile and query head. What remains in the inner loop is the codes.

    `integer-weights` plans for kernels that round probabilities to integers: the code of V is split into its middle and
    the deviation from it, and rounded weights carry the deviation only.

    Example, for a key of min form:

    ```mlir
    kvq.fused_attention %q, @cache scale(0.125) causal
    ```

    gets

    ```mlir
    folding [#kvq.fold<"k.scale", axes = "t", at = score, cost = "1 per token, 0 per tile, 0 per query">, ...]
    ```
  }];
  let options = [Option<"integerWeights", "integer-weights", "bool", "false",
                        "kernels round probabilities to integers">];
  let dependentDialects = ["::mlir::kvq::KVQDialect"];
}

def PlanLayout : Pass<"kvq-plan-layout", "::mlir::ModuleOp"> {
  let summary = "plans the record of each cache";
  let description = [{
    Fills the attribute `record` of each `kvq.cache`: bytes of a page of one KV head, its stride in a pool, and bits per
    element with parameters, code padding and record padding counted (kvq/layout.h). A remark says the same. `page`
    replaces the page of every cache first; a page that allows no record is an error.

    Example:

    ```mlir
    kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
    ```

    becomes, with both sides of 64 channels in 2 bits, one group and f16 parameters,

    ```mlir
    kvq.cache @cache {key = @key, value = @value, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
      record <bytes = 2560, stride = 2560, bits_per_element = 2.500000e+00 : f64>
    ```
  }];
  let options = [Option<"page", "page", "int64_t", "0", "page in tokens; 0 keeps the page of the cache">];
  let dependentDialects = ["::mlir::kvq::KVQDialect"];
}

def PrintMethod : Pass<"kvq-print-method", "::mlir::ModuleOp"> {
  let summary = "prints the method of each fused attention as JSON";
  let description = [{
    Prints to standard output what the code generator and the library file take from a cache and its
    `kvq.fused_attention`: the text of `kvq::methodText`. With `constants`, also the size of the constants blob and the
    first value of each constant for every layer and head. Changes nothing. An attention that a method cannot describe is an error.
  }];
  let options = [Option<"constants", "constants", "bool", "false", "also pack the constants">];
}

#endif // KVQ_PASSES
