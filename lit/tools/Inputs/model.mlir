// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model of 9 layers: some with 256 channels in 4 bits, one with 512 in 2 bits, some with keys wider than values and a
// mean taken off; four that no cache serves.
!local = !kvq.rows<?x256xbf16>
!global = !kvq.rows<?x512xbf16>
!key = !kvq.rows<?x96xbf16>
!centered = !kvq.rows<?x96xbf16, center = [@calib::@mean]>
!value = !kvq.rows<?x64xbf16>

module attributes {kvq.layers = 9 : i64} {
  kvq.constants @calib {
    kvq.constant @mean source("k.mean") : tensor<2x1x96xf32> = dense<0.5> : tensor<2x1x96xf32>
  }

  kvq.pipeline @local {
    %x = kvq.rows : !local
    %g = kvq.group %x along channel size 128 : !local
    %q = kvq.round %g to i4 half_up min_form params f16 stored : !kvq.grouped<!local, 128>
    kvq.pack %q native : !kvq.codes<!local, 128, 4, min_form, f16>
  }
  kvq.pipeline @global {
    %x = kvq.rows : !global
    %g = kvq.group %x along channel size 128 : !global
    %q = kvq.round %g to i2 half_up sym_form params bf16 stored : !kvq.grouped<!global, 128>
    kvq.pack %q native : !kvq.codes<!global, 128, 2, sym_form, bf16>
  }
  kvq.pipeline @key {
    %x = kvq.rows : !key
    %c = kvq.center %x by @calib::@mean : !key
    %g = kvq.group %c along channel size 96 : !centered
    %q = kvq.round %g to i4 half_up min_form params f16 stored : !kvq.grouped<!centered, 96>
    kvq.pack %q native : !kvq.codes<!centered, 96, 4, min_form, f16>
  }
  kvq.pipeline @value {
    %x = kvq.rows : !value
    %g = kvq.group %x along channel size 64 : !value
    %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!value, 64>
    kvq.pack %q native : !kvq.codes<!value, 64, 2, min_form, f16>
  }

  kvq.cache @local_layers {key = @local, value = @local, q_heads = 8, kv_heads = 4, layers = 2, page = 64, at = [4, 1]}
  kvq.cache @global_layers {key = @global, value = @global, q_heads = 8, kv_heads = 1, layers = 1, page = 32, at = [5]}
  kvq.cache @uneven_layers {key = @key, value = @value, q_heads = 4, kv_heads = 2, layers = 2, page = 64, at = [2, 7]}
}
