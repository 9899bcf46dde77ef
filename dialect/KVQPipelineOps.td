// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_PIPELINE_OPS
#define KVQ_PIPELINE_OPS

include "dialect/KVQTypes.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/Properties.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class KVQ_Op<string mnemonic, list<Trait> traits = []> : Op<KVQ_Dialect, mnemonic, traits>;

/// A stage of a pipeline: pure, its result type follows from operand and attributes.
class KVQ_Stage<string mnemonic, list<Trait> traits = []>
    : KVQ_Op<mnemonic, traits # [Pure, InferTypeOpAdaptor]>;

def KVQ_RoundedElement : OptionalAttr<TypeAttr>;

//===-- Constants ---------------------------------------------------------------------------===//

def KVQ_ConstantsOp : KVQ_Op<"constants", [IsolatedFromAbove, NoTerminator, SingleBlock, Symbol,
                                           SymbolTable]> {
  let summary = "a table of calibrated constants";
  let description = [{
    Holds `kvq.constant` ops and nothing else. Pipelines refer to an entry as `@table::@entry`.

    ```mlir
    kvq.constants @calib {
      kvq.constant @key_mean source("k.mean") : tensor<2x3x64xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def KVQ_ConstantOp : KVQ_Op<"constant", [HasParent<"ConstantsOp">, Symbol]> {
  let summary = "one calibrated constant, indexed by layer and KV head";
  let description = [{
    A tensor [layers, kv_heads, ...] of f32: a mean [L, H, D] or a rotation [L, H, D, D]. Either
    `value` is given here, or `source` names the tensor `layers.{i}.<source>` of a calibration file,
    which `kvq-import-calibration` reads.

    Constraints: the type is a static f32 tensor of rank 3, or of rank 4 with square matrices;
    `value`, when given, is `dense` or `dense_resource`, has this type and is finite; at least one
    of `source` and `value` is given.

    ```mlir
    kvq.constants @calib {
      kvq.constant @key_mean source("k.mean") : tensor<2x3x64xf32>
      kvq.constant @zero_mean : tensor<1x1x32xf32> = dense<0.0> : tensor<1x1x32xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$source,
                       TypeAttrOf<AnyStaticShapeTensor>:$type, OptionalAttr<ElementsAttr>:$value);
  let assemblyFormat = [{
    $sym_name (`source` `(` $source^ `)`)? attr-dict `:` $type (`=` $value^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::llvm::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

//===-- Pipeline ----------------------------------------------------------------------------===//

def KVQ_PipelineOp : KVQ_Op<"pipeline", [IsolatedFromAbove, NoTerminator, SingleBlock, Symbol]> {
  let summary = "how the rows of one side of a cache become codes";
  let description = [{
    A chain of stages: one `kvq.rows`, then any `kvq.center` and `kvq.rotate`, then at most one
    `kvq.clip`, then `kvq.group`, `kvq.round` and `kvq.pack`. Each stage takes the result of the one
    before it.

    ```mlir
    kvq.pipeline @key {
      %k = kvq.rows : !kvq.rows<?x64xbf16>
      %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
      %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
      kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The first stage: rows as handed to append.
    RowsOp getRowsOp();
    /// The last stages.
    GroupOp getGroupOp();
    RoundOp getRoundOp();
    PackOp getPackOp();
    /// Type of the rows that are stored: after the last center, rotate and clip.
    RowsType getStoredRows();
  }];
}

def KVQ_RowsOp : KVQ_Op<"rows", [HasParent<"PipelineOp">, Pure]> {
  let summary = "the rows handed to append: the start of a pipeline";
  let description = [{
    Tokens of one KV head after RoPE, in the model's own basis (so the type has no basis and no
    center).

    ```mlir
    kvq.pipeline @key {
      %k = kvq.rows : !kvq.rows<?x64xbf16>
      %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
      %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
      kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
    }
    ```
  }];
  let results = (outs KVQ_RowsType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def KVQ_CenterOp : KVQ_Stage<"center", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "subtracts a mean per layer and KV head";
  let description = [{
    `result = round(x - mean)`: fp32, rounded once to the result's element type (`as f32`: not
    rounded). The mean is a constant [layers, kv_heads, D]; a leading extent of 1 serves all layers
    or heads. Source: OptR, key centring.

    ```mlir
    kvq.constants @calib {
      kvq.constant @key_mean source("k.mean") : tensor<2x3x64xf32>
    }
    func.func @example(%k: !kvq.rows<?x64xbf16>) {
      %c = kvq.center %k by @calib::@key_mean as f32 : !kvq.rows<?x64xbf16>
      return
    }
    ```
  }];
  let arguments = (ins KVQ_RowsType:$input, SymbolRefAttr:$mean, KVQ_RoundedElement:$element);
  let results = (outs KVQ_RowsType:$result);
  let assemblyFormat = "$input `by` $mean (`as` $element^)? attr-dict `:` qualified(type($input))";
}

def KVQ_RotateOp : KVQ_Stage<"rotate", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "multiplies rows by an orthogonal matrix: x -> x R";
  let description = [{
    R is one factor or a product of factors, applied from left to right in fp32 and rounded once to
    the result's element type (`as f32`: not rounded). Factors: `hadamard<n>` with n the head dim, a
    power of two; `block_hadamard<m>` with m a power of two dividing the head dim;
    `dense<@table::@entry>`, a constant [layers, kv_heads, D, D]; `dense<@table::@entry inverse>`,
    its transpose.

    ```mlir
    kvq.constants @calib {
      kvq.constant @u source("k.rotation") : tensor<2x3x64x64xf32>
    }
    func.func @example(%k: !kvq.rows<?x64xbf16>) {
      %r = kvq.rotate %k by [hadamard<64>] : !kvq.rows<?x64xbf16>
      %p = kvq.rotate %k by [dense<@calib::@u>, hadamard<64>] as f32 : !kvq.rows<?x64xbf16>
      return
    }
    ```
  }];
  let arguments = (ins KVQ_RowsType:$input, ArrayAttr:$factors, KVQ_RoundedElement:$element);
  let results = (outs KVQ_RowsType:$result);
  let assemblyFormat = [{
    $input `by` custom<Factors>($factors) (`as` $element^)? attr-dict `:` qualified(type($input))
  }];
  let hasFolder = 1;
}

def KVQ_ClipOp : KVQ_Stage<"clip"> {
  let summary = "limits the values of a row or group before rounding";
  let description = [{
    `order_statistic(r)`: the threshold is element int(r n) of |x| sorted ascending over the n
    values of the scope (OSCAR, OptR); `ratio(r)`: the bounds are r min(x) and r max(x) (QuaRot);
    `constant(c)`: the threshold is c. `per group` uses the groups that `kvq.group` makes later in
    the pipeline.

    Constraints: a ratio lies in (0, 1]; a constant is positive and finite.

    ```mlir
    func.func @example(%r: !kvq.rows<?x64xbf16, basis = [hadamard<64>]>) {
      %l = kvq.clip %r order_statistic(0.96) per row : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
      return
    }
    ```
  }];
  let arguments = (ins KVQ_RowsType:$input, EnumProp<KVQ_ClipKind>:$kind, F64Attr:$value,
                       EnumProp<KVQ_ClipScope>:$scope);
  let results = (outs KVQ_RowsType:$result);
  let assemblyFormat = [{
    $input $kind `(` $value `)` `per` $scope attr-dict `:` qualified(type($input))
  }];
  let hasVerifier = 1;
}

def KVQ_GroupOp : KVQ_Stage<"group"> {
  let summary = "cuts the channels of a row into groups that share parameters";
  let description = [{
    Constraints: the size divides the head dim, and is the head dim itself or a multiple of 32.

    ```mlir
    func.func @example(%l: !kvq.rows<?x64xbf16>) {
      %g = kvq.group %l along channel size 64 : !kvq.rows<?x64xbf16>
      return
    }
    ```
  }];
  let arguments = (ins KVQ_RowsType:$input, I64Attr:$size);
  let results = (outs KVQ_GroupedType:$result);
  let assemblyFormat = [{
    $input `along` `channel` `size` $size attr-dict `:` qualified(type($input))
  }];
}

def KVQ_RoundOp : KVQ_Stage<"round"> {
  let summary = "rounds each group to codes and parameters";
  let description = [{
    With top = 2^bits - 1, lo and hi the group's extremes: `min_form` stores scale (hi-lo)/top and
    zero lo, a value is scale code + zero; `zero_form` stores scale and zero -lo/scale, a value is
    (code - zero) scale; `sym_form` stores scale max|x| / (top/2), a value is scale (code - top/2).
    `half_up` is floor(x+0.5), `half_even` is the IEEE rule. `stored` computes codes from the
    parameters as they are stored, `exact` from the fp32 ones.

    Constraints: 2, 3, 4 or 8 bits; parameters of f16, bf16 or f32.

    ```mlir
    func.func @example(%g: !kvq.grouped<!kvq.rows<?x64xbf16>, 64>) {
      %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
      return
    }
    ```
  }];
  let arguments = (ins KVQ_GroupedType:$input, I64Attr:$bits, EnumProp<KVQ_Tie>:$tie,
                       EnumProp<KVQ_Form>:$form, TypeAttr:$params,
                       EnumProp<KVQ_ParamSource>:$source);
  let results = (outs KVQ_CodesType:$result);
  let assemblyFormat = [{
    $input `to` custom<CodeBits>($bits) $tie $form `params` $params $source attr-dict
    `:` qualified(type($input))
  }];
}

def KVQ_PackOp : KVQ_Op<"pack", [HasParent<"PipelineOp">]> {
  let summary = "lays codes and parameters out in the record: the end of a pipeline";
  let description = [{
    `native` is the layout of `kvq/layout.h`, made for tensor-core fragments.

    ```mlir
    kvq.pipeline @value {
      %v = kvq.rows : !kvq.rows<?x64xbf16>
      %g = kvq.group %v along channel size 32 : !kvq.rows<?x64xbf16>
      %q = kvq.round %g to i4 half_even sym_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 32>
      kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 32, 4, sym_form, f16>
    }
    ```
  }];
  let arguments = (ins KVQ_CodesType:$input);
  let assemblyFormat = "$input `native` attr-dict `:` qualified(type($input))";
  let hasVerifier = 1;
}

#endif // KVQ_PIPELINE_OPS
