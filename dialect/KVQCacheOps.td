// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_CACHE_OPS
#define KVQ_CACHE_OPS

include "dialect/KVQPipelineOps.td"

def KVQ_CacheOp : KVQ_Op<"cache", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a paged cache: a pipeline for keys, one for values, and the model's geometry";
  let description = [{
    `layers` layers of `kv_heads` KV heads serve `q_heads` query heads. `page` is the default page
    in tokens; any multiple of the record's block is served at run time. `sink` first and `recent`
    last tokens stay in high precision. `at` lists the layers of the model that the cache serves, in
    the order of the leading extent of its constants; without it these are the first ones. A library
    may hold several caches, and layers that none serves: the model has as many layers as its
    attribute `kvq.layers` says, else as the last one that is served asks for. `record` is filled by
    `kvq-plan-layout`.

    Constraints: q_heads is a multiple of kv_heads; page is a multiple of 16; heads and layers are
    at least 1, windows at least 0; `at` has as many layers as `layers` says, none twice and below
    those of the model; the two pipelines exist and their rows have one element type;
    their constants have the cache's layers and KV heads, or 1; the record is legal (kvq/layout.h),
    and a planned one is the one that pipelines and page lead to.

    ```mlir
    kvq.pipeline @key {
      %k = kvq.rows : !kvq.rows<?x64xbf16>
      %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
      %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
      kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
    }
    kvq.cache @smollm2 {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$key, FlatSymbolRefAttr:$value,
                       I64Attr:$q_heads, I64Attr:$kv_heads, I64Attr:$layers, I64Attr:$page,
                       DefaultValuedAttr<I64Attr, "0">:$sink,
                       DefaultValuedAttr<I64Attr, "0">:$recent,
                       OptionalAttr<DenseI64ArrayAttr>:$at,
                       OptionalAttr<KVQ_RecordAttr>:$record);
  let assemblyFormat = [{
    $sym_name ` ` `{` `key` `=` $key `,` `value` `=` $value `,` `q_heads` `=` $q_heads `,`
    `kv_heads` `=` $kv_heads `,` `layers` `=` $layers `,` `page` `=` $page
    `` custom<CacheOptions>($sink, $recent, $at) `` `}`
    (`record` $record^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The pipelines, or null when a reference does not resolve.
    PipelineOp getKeyPipeline();
    PipelineOp getValuePipeline();

    /// Layers of the model that the cache serves, in the order of its constants.
    ::llvm::SmallVector<int64_t> getModelLayers();
  }];
}

#endif // KVQ_CACHE_OPS
