// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_ATTENTION_OPS
#define KVQ_ATTENTION_OPS

include "dialect/KVQCacheOps.td"

/// Attention of query rows over a cache. Rows are the query heads of one KV head.
class KVQ_AttentionBase<string mnemonic, list<Trait> traits = []>
    : KVQ_Op<mnemonic, traits # [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let hasVerifier = 1;
}

def KVQ_AttentionOp : KVQ_AttentionBase<"attention"> {
  let summary = "attention over a cache, in the model's own basis";
  let description = [{
    softmax(scale q k^T) v over the tokens of the cache, with query head j reading KV head j /
    (q_heads / kv_heads). Query and result are model rows, whatever the pipelines do:
    `kvq-place-rotations` mends the bases. `softcap(c)` replaces a logit l by c tanh(l / c);
    `window(n)` keeps the last n tokens; `sinks(@t::@e)` adds one learned column per query head to
    the softmax: its logits go into the library, and serve calls that bring none; `q_len(n)` is the number of query tokens of a sequence.

    Constraints: scale and softcap are positive and finite; window and q_len are at least 1; sinks
    are a constant [layers or 1, q_heads, 1]; query and result have no basis and no center, and the
    head dims of keys and values.

    ```mlir
    kvq.pipeline @key {
      %k = kvq.rows : !kvq.rows<?x64xbf16>
      %g = kvq.group %k along channel size 64 : !kvq.rows<?x64xbf16>
      %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
      kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
    }
    kvq.cache @cache {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
    func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
      %o = kvq.attention %q, @cache scale(0.125) causal : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
      return %o : !kvq.rows<?x64xbf16>
    }
    ```
  }];
  let arguments = (ins KVQ_RowsType:$query, FlatSymbolRefAttr:$cache, F64Attr:$scale,
                       UnitAttr:$causal, OptionalAttr<F64Attr>:$softcap,
                       OptionalAttr<I64Attr>:$window,
                       OptionalAttr<SymbolRefAttr>:$sinks, DefaultValuedAttr<I64Attr, "1">:$q_len);
  let results = (outs KVQ_RowsType:$result);
  let assemblyFormat = [{
    $query `,` $cache `scale` `(` $scale `)` (`causal` $causal^)? (`softcap` `(` $softcap^ `)`)?
    (`window` `(` $window^ `)`)? (`sinks` `(` $sinks^ `)`)? (`q_len` `(` $q_len^ `)`)? attr-dict
    `:` qualified(type($query)) `->` qualified(type($result))
  }];
}

def KVQ_FusedAttentionOp : KVQ_AttentionBase<"fused_attention"> {
  let summary = "attention over the codes of a cache, in the bases in which they are stored";
  let description = [{
    As `kvq.attention`, but the query must stand in the basis of the cached keys, and the result is
    in the basis of the cached values. `add_key_mean` adds scale q.mu to each logit before the
    softcap; `fix_lse` adds it to the log-sum-exp of the keys when partial results are merged,
    before a learned sink joins them and before it is exported; `add_value_mean` adds mu sum(p) /
    denominator to the output. `folding` says where each factor of the dequantization went
    (`kvq-fuse-attention`).

    Constraints: those of `kvq.attention`, but that the query's basis equals the key pipeline's and
    the result's equals the value pipeline's; a centred key with a softcap needs `add_key_mean`,
    which excludes `fix_lse`, and with learned sinks alone `fix_lse`; a centred value needs `add_value_mean`; no flag is set
    for a mean that does not exist.

    ```mlir
    kvq.pipeline @key {
      %k = kvq.rows : !kvq.rows<?x64xbf16>
      %r = kvq.rotate %k by hadamard<64> : !kvq.rows<?x64xbf16>
      %g = kvq.group %r along channel size 64 : !kvq.rows<?x64xbf16, basis = [hadamard<64>]>
      %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64>
      kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16, basis = [hadamard<64>]>, 64, 2, min_form, f16>
    }
    kvq.cache @cache {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
    func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
      %r = kvq.rotate %q by hadamard<64> as f32 : !kvq.rows<?x64xbf16>
      %o = kvq.fused_attention %r, @cache scale(0.125) causal
        : !kvq.rows<?x64xf32, basis = [hadamard<64>]> -> !kvq.rows<?x64xf32, basis = [hadamard<64>]>
      %p = kvq.rotate %o by hadamard<64> as bf16 : !kvq.rows<?x64xf32, basis = [hadamard<64>]>
      return %p : !kvq.rows<?x64xbf16>
    }
    ```
  }];
  let arguments = (ins KVQ_RowsType:$query, FlatSymbolRefAttr:$cache, F64Attr:$scale,
                       UnitAttr:$causal, OptionalAttr<F64Attr>:$softcap,
                       OptionalAttr<I64Attr>:$window,
                       OptionalAttr<SymbolRefAttr>:$sinks, DefaultValuedAttr<I64Attr, "1">:$q_len,
                       UnitAttr:$add_key_mean, UnitAttr:$fix_lse, UnitAttr:$add_value_mean,
                       OptionalAttr<ArrayAttr>:$folding);
  let results = (outs KVQ_RowsType:$result);
  let assemblyFormat = [{
    $query `,` $cache `scale` `(` $scale `)` (`causal` $causal^)? (`softcap` `(` $softcap^ `)`)?
    (`window` `(` $window^ `)`)? (`sinks` `(` $sinks^ `)`)? (`q_len` `(` $q_len^ `)`)?
    (`add_key_mean` $add_key_mean^)? (`fix_lse` $fix_lse^)? (`add_value_mean` $add_value_mean^)?
    (`folding` $folding^)? attr-dict `:` qualified(type($query)) `->` qualified(type($result))
  }];
}

#endif // KVQ_ATTENTION_OPS
