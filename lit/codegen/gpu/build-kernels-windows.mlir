// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cache with sink and recent windows: what attends rows, and what moves them.
// RUN: kvq-opt %s --kvq-optimize --kvq-build-kernels=target=sm_90a --canonicalize | FileCheck %s

// Rows of windows come first, in a state of their own that then enters the state of the records. Tokens that a query
// does not attend are masked, then rows that do not count.
// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_decode(
// CHECK:         kvq.tile.load_query
// CHECK:         %[[SOFTMAX:.*]] = kvq.tile.init_softmax
// CHECK:         %[[OUTPUT:.*]] = kvq.tile.init_output
// CHECK:         %[[BOUNDS:.*]] = kvq.tile.row_bounds {{.*}}queries = 4 : i64
// CHECK:         %[[STATE:[0-9a-z_]+]], %[[SUMS:[0-9a-z_]+]] = kvq.tile.init_window
// CHECK:         %[[ROWS:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %[[STATE]], %{{.*}} = %[[SUMS]])
// CHECK:           %[[S:[0-9a-z_]+]] = kvq.tile.dot_rows %{{.*}}, %[[B:[0-9a-z_]+]], %[[E:[0-9a-z_]+]], %{{.*}} {element = bf16, queries = 4 : i64
// CHECK-NEXT:      %[[M:[0-9a-z_]+]] = kvq.tile.mask_scores %[[S]], %[[BOUNDS]],
// CHECK-NEXT:      %[[R:[0-9a-z_]+]] = kvq.tile.mask_rows %[[M]], %[[B]], %[[E]]
// CHECK-NEXT:      %{{.*}}, %[[T:[0-9a-z_]+]], %[[W:[0-9a-z_]+]] = kvq.tile.weigh_window %{{.*}}, %{{.*}}, %[[R]]
// CHECK-NEXT:      kvq.tile.accumulate_window %[[T]], %{{.*}}, %[[B]], %[[E]], %[[W]]
// CHECK:         %[[NEXT:[0-9a-z_]+]], %[[RESULT:[0-9a-z_]+]] = kvq.tile.enter_window %[[SOFTMAX]], %[[OUTPUT]], %[[ROWS]]#0, %[[ROWS]]#1
// Units of records that not all rows attend as a whole, and rows of units that are no longer in records.
// CHECK:         scf.for {{.*}} iter_args(%{{.*}} = %[[NEXT]], %{{.*}} = %[[RESULT]])
// CHECK:           kvq.tile.load_params %{{.*}}, %[[VALID:[0-9a-z_]+]] {{.*}}side = #kvq.side<key>
// CHECK:           %[[S1:[0-9a-z_]+]] = kvq.tile.score
// CHECK:           %[[M1:[0-9a-z_]+]] = kvq.tile.mask_scores %[[S1]], %[[BOUNDS]], {{.*}}tiles = 4 : i64
// CHECK-NEXT:      %[[R1:[0-9a-z_]+]] = kvq.tile.mask_rows %[[M1]], %{{.*}}, %[[VALID]] {{.*}}tiles = 4 : i64
// CHECK:           kvq.tile.weigh_integer %{{.*}}, %{{.*}}, %[[R1]],
// Units in between: every token counts.
// CHECK:           kvq.tile.load_params %{{[0-9a-z_]+}} {{.*}}side = #kvq.side<key>
// CHECK-NEXT:      kvq.tile.dot
// CHECK-NEXT:      %[[S2:[0-9a-z_]+]] = kvq.tile.score
// CHECK-NEXT:      kvq.tile.load_params %{{[0-9a-z_]+}} {{.*}}side = #kvq.side<value>
// CHECK-NEXT:      kvq.tile.weigh_integer %{{.*}}, %{{.*}}, %[[S2]],
// CHECK-NOT:     kvq.tile.dot_rows
// CHECK:         kvq.tile.flush

// Rows of windows are stored as they are before quantization.
// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_append_window(
// CHECK-COUNT-2: kvq.tile.store_row %{{.*}} {element = bf16}
// CHECK-NOT:     kvq.tile.quantize

// Rows that leave the recent window become codes, without the steps of append: they are already in that basis.
// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_demote(
// CHECK:         %[[K:[0-9a-z_]+]] = kvq.tile.load_row %{{.*}} {element = bf16}
// CHECK-NEXT:    kvq.tile.quantize %[[K]]
// CHECK-NEXT:    kvq.tile.store_codes {{.*}}side = #kvq.side<key>
// CHECK:         %[[V:[0-9a-z_]+]] = kvq.tile.load_row %{{.*}} {element = bf16}
// CHECK-NEXT:    kvq.tile.quantize %[[V]]
// CHECK-NEXT:    kvq.tile.store_codes {{.*}}side = #kvq.side<value>

// The lengths of what is in records follow on the device.
// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_commit(
// CHECK-NOT:     kvq.tile.

kvq.pipeline @p {
  %x = kvq.rows : !kvq.rows<?x64xbf16>
  %g = kvq.group %x along channel size 64 : !kvq.rows<?x64xbf16>
  %q = kvq.round %g to i2 half_up min_form params f16 stored : !kvq.grouped<!kvq.rows<?x64xbf16>, 64>
  kvq.pack %q native : !kvq.codes<!kvq.rows<?x64xbf16>, 64, 2, min_form, f16>
}
kvq.cache @c {key = @p, value = @p, q_heads = 8, kv_heads = 2, layers = 1, page = 64, sink = 64, recent = 256}
