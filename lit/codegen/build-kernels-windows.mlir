// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cache with sink and recent windows: what attends rows, and what moves them.
// RUN: kvq-opt %s --kvq-optimize --kvq-build-kernels --canonicalize | FileCheck %s

// Sink rows, then recent rows, 16 at a time. Tokens that a query does not attend are masked, then rows that do not
// count.
// CHECK-LABEL: func.func @kvq_decode
// CHECK:         kvq.tile.load_query
// CHECK:         %[[WINDOW_BOUNDS:.*]] = kvq.tile.row_bounds {{.*}}queries = 4 : i64
// CHECK:         scf.for
// CHECK:           %[[S0:[0-9a-z_]+]] = kvq.tile.dot_rows %{{.*}}, %[[B0:[0-9a-z_]+]], %[[E0:[0-9a-z_]+]], %{{.*}} {element = bf16, queries = 4 : i64
// CHECK-NEXT:      %[[M0:[0-9a-z_]+]] = kvq.tile.mask_scores %[[S0]], %[[WINDOW_BOUNDS]],
// CHECK-NEXT:      %[[R0:[0-9a-z_]+]] = kvq.tile.mask_rows %[[M0]], %[[B0]], %[[E0]]
// CHECK-NEXT:      kvq.tile.softmax %{{.*}}, %[[R0]]
// CHECK-NEXT:      kvq.tile.rescale
// CHECK-NEXT:      kvq.tile.accumulate_rows %{{.*}}, %{{.*}}, %[[B0]], %[[E0]], %{{.*}} {element = bf16
// CHECK:         scf.for
// CHECK:           %[[S1:[0-9a-z_]+]] = kvq.tile.dot_rows %{{.*}}, %[[B1:[0-9a-z_]+]], %[[E1:[0-9a-z_]+]], %{{.*}} {element = bf16, queries = 4 : i64
// CHECK-NEXT:      %[[M1:[0-9a-z_]+]] = kvq.tile.mask_scores %[[S1]], %[[WINDOW_BOUNDS]],
// CHECK-NEXT:      %[[R1:[0-9a-z_]+]] = kvq.tile.mask_rows %[[M1]], %[[B1]], %[[E1]]
// CHECK-NEXT:      kvq.tile.softmax %{{.*}}, %[[R1]]
// CHECK-NEXT:      kvq.tile.rescale
// CHECK-NEXT:      kvq.tile.accumulate_rows %{{.*}}, %{{.*}}, %[[B1]], %[[E1]], %{{.*}} {element = bf16
// CHECK:         kvq.tile.flush
// CHECK-NOT:     kvq.tile.dot_rows
// Records, in splits of their own: tokens that are not in records have no part.
// CHECK:         %[[BOUNDS:.*]] = kvq.tile.row_bounds
// CHECK:         scf.for
// CHECK:           kvq.tile.load_params %{{.*}}, %[[VALID:[0-9a-z_]+]] {{.*}}side = #kvq.side<key>
// CHECK:           %[[S2:[0-9a-z_]+]] = kvq.tile.score
// CHECK:           %[[M2:[0-9a-z_]+]] = kvq.tile.mask_scores %[[S2]], %[[BOUNDS]],
// CHECK-NEXT:      %[[R2:[0-9a-z_]+]] = kvq.tile.mask_rows %[[M2]], %{{.*}}, %[[VALID]]
// CHECK-NEXT:      kvq.tile.softmax %{{.*}}, %[[R2]]
// CHECK:         kvq.tile.flush

// Rows of windows are stored as they are before quantization.
// CHECK-LABEL: func.func @kvq_append_window
// CHECK-COUNT-2: kvq.tile.store_row %{{.*}} {element = bf16}
// CHECK-NOT:     kvq.tile.quantize

// Rows that leave the recent window become codes, without the steps of append: they are already in that basis.
// CHECK-LABEL: func.func @kvq_demote
// CHECK:         %[[K:[0-9a-z_]+]] = kvq.tile.load_row %{{.*}} {element = bf16}
// CHECK-NEXT:    kvq.tile.quantize %[[K]]
// CHECK-NEXT:    kvq.tile.store_codes {{.*}}side = #kvq.side<key>
// CHECK-NEXT:    kvq.tile.store_params {{.*}}side = #kvq.side<key>
// CHECK:         %[[V:[0-9a-z_]+]] = kvq.tile.load_row %{{.*}} {element = bf16}
// CHECK-NEXT:    kvq.tile.quantize %[[V]]
// CHECK-NEXT:    kvq.tile.store_codes {{.*}}side = #kvq.side<value>
// CHECK-NEXT:    kvq.tile.store_params {{.*}}side = #kvq.side<value>

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %x along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @p, value = @p, q_heads = 8, kv_heads = 2, layers = 1, page = 64, sink = 64, recent = 256}
