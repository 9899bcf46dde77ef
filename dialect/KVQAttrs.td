// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_ATTRS
#define KVQ_ATTRS

include "dialect/KVQEnums.td"
include "mlir/IR/AttrTypeBase.td"

class KVQ_Attr<string name, string attrMnemonic> : AttrDef<KVQ_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def KVQ_HadamardAttr : KVQ_Attr<"Hadamard", "hadamard"> {
  let summary = "rotation by the normalised Sylvester Hadamard matrix of the whole head";
  let description = [{
    `order` is a power of two and equals the head dim of the rows it acts on. It is its own inverse.
    In an op or a type it is written without the prefix: `hadamard<64>`.
  }];
  let parameters = (ins "int64_t":$order);
  let assemblyFormat = "`<` $order `>`";
}

def KVQ_BlockHadamardAttr : KVQ_Attr<"BlockHadamard", "block_hadamard"> {
  let summary = "block-diagonal rotation by Sylvester Hadamard matrices";
  let description = [{
    `order` is a power of two that divides the head dim. Its own inverse. For head dims that are no
    power of two (96 = 3 x 32, 192 = 3 x 64, 576 = 9 x 64).
  }];
  let parameters = (ins "int64_t":$order);
  let assemblyFormat = "`<` $order `>`";
}

def KVQ_DenseAttr : KVQ_Attr<"Dense", "dense"> {
  let summary = "rotation by a constant matrix per layer and KV head";
  let description = [{
    `matrix` names a `kvq.constant` of shape [layers, kv_heads, D, D], orthogonal. `inverse`
    multiplies by its transpose.

    ```mlir
    #kvq.dense<@calib::@key_rotation>
    #kvq.dense<@calib::@key_rotation inverse>
    ```
  }];
  let parameters = (ins "::mlir::SymbolRefAttr":$matrix,
                        DefaultValuedParameter<"bool", "false">:$inverse);
  let hasCustomAssemblyFormat = 1;
}

def KVQ_CenterEntryAttr : KVQ_Attr<"CenterEntry", "mean"> {
  let summary = "a mean that was subtracted, and the basis in which it was";
  let description = [{
    An entry of the `center` of rows, where it is written without the prefix: `@calib::@key_mean`
    for a mean taken in the model's own basis, `@calib::@key_mean in [hadamard<64>]` for one taken
    after a rotation.
  }];
  let parameters = (ins "::mlir::SymbolRefAttr":$mean, "::mlir::ArrayAttr":$basis);
  let assemblyFormat = "`<` $mean `in` $basis `>`";
}

def KVQ_FoldAttr : KVQ_Attr<"Fold", "fold"> {
  let summary = "where one factor of the dequantization went";
  let description = [{
    `factor` names the side (k or v) and the factor; `axes` lists the axes along which it varies: t
    token, d channel, g channel group, T token tile, or `constant`; `at` is the place in the kernel;
    `cost` is what is left to do there, for people.

    ```mlir
    #kvq.fold<"k.scale", axes = "t, g", at = score_per_group, cost = "4 per token">
    ```
  }];
  let parameters = (ins StringRefParameter<>:$factor, StringRefParameter<>:$axes,
                        EnumParameter<KVQ_FoldPlace>:$at, StringRefParameter<>:$cost);
  let assemblyFormat = [{
    `<` $factor `,` `axes` `=` $axes `,` `at` `=` $at `,` `cost` `=` $cost `>`
  }];
  let genVerifyDecl = 1;
}

def KVQ_RecordAttr : KVQ_Attr<"Record", "record"> {
  let summary = "the record planned for one page of one KV head";
  let description = [{
    Sizes in bytes for the cache's default page; `bits_per_element` counts parameters, code padding
    and record padding.

    ```mlir
    #kvq.record<bytes = 2560, stride = 2560, bits_per_element = 2.5 : f64>
    ```
  }];
  let parameters = (ins "int64_t":$bytes, "int64_t":$stride, "::mlir::FloatAttr":$bits_per_element);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif // KVQ_ATTRS
