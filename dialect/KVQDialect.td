// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_DIALECT
#define KVQ_DIALECT

include "mlir/IR/OpBase.td"

def KVQ_Dialect : Dialect {
  let name = "kvq";
  let cppNamespace = "::mlir::kvq";
  let summary = "Quantized KV caches: how rows become codes, and attention over them";
  let description = [{
    Level 1 says what a cache is. A `kvq.pipeline` is a chain of stages on the rows (tokens) of one
    KV head after RoPE: `rows -> center | rotate -> clip -> group -> round -> pack`. A `kvq.cache`
    names one pipeline for keys and one for values, and the geometry. `kvq.attention` reads a cache
    and takes and returns rows in the model's own basis.

    Level 2 says what is computed. `kvq.fused_attention` demands that the query stands in the basis
    of the keys and that its result is in the basis of the values; its `folding` says where each
    factor of the dequantization went.

    Level 3 (dialect/KVQTileOps.td) are the tile ops that a kernel is made of.

    A module is a model. Its attribute `kvq.layers` is the number of the model's layers, for models
    whose last layers no cache serves.

    Rows are row vectors: a rotation R acts as `x R`, its inverse as `x R^T`.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let extraClassDeclaration = [{
    /// Version of the dialect's bytecode; a reader refuses another major version.
    static constexpr uint64_t kMajorVersion = 0, kMinorVersion = 1;

    void registerAttributes();
    void registerTypes();
    void registerOps();
    void registerTileOps();
    void registerBytecode();
  }];
}

#endif // KVQ_DIALECT
