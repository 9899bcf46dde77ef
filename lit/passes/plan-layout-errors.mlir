// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: not kvq-opt %s --kvq-plan-layout=page=24 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not kvq-opt %s --kvq-plan-layout=page=-16 2>&1 | FileCheck %s --check-prefix=NEGATIVE

!rows = !kvq.rows<?x64xbf16>
kvq.pipeline @key {
  %x = kvq.rows : !rows
  %g = kvq.group %x along channel size 64 : !rows
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!rows, 64>
  kvq.pack %q native : !kvq.codes<!rows, 64, 2, min_form, f16>
}
// ODD: [[@LINE+2]]:1: error: 'kvq.cache' op has no legal record for a page of 24 tokens: {{.*}}24
// NEGATIVE: [[@LINE+1]]:1: error: 'kvq.cache' op expects a page of at least one tile, got option page = -16
kvq.cache @cache {key = @key, value = @key, q_heads = 9, kv_heads = 3, layers = 2, page = 64}
