// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %examples/hadamard_clip_int2.mlir --kvq-optimize --kvq-build-kernels --canonicalize | FileCheck %s

// CHECK:     #[[RECORD:.*]] = #kvq.tile_record<k = <dim = 64, bits = 2, group = 64, form = "min", params = f16>
// CHECK-NOT: kvq.pipeline
// CHECK-NOT: kvq.fused_attention

// One token: page and tile from the slot; then each side in the order of its pipeline.
// CHECK-LABEL: func.func @kvq_append(%{{.*}}: !llvm.ptr, %{{.*}}: i64)
// CHECK:         scf.if
// CHECK:           %[[K0:.*]] = kvq.tile.load_row %{{.*}} {element = bf16}
// CHECK-NEXT:      %[[K1:.*]] = kvq.tile.hadamard %[[K0]] {order = 64 : i64}
// CHECK-NEXT:      %[[K2:.*]] = kvq.tile.round_row %[[K1]] {element = bf16}
// CHECK-NEXT:      %[[K3:.*]] = kvq.tile.sanitize %[[K2]] {element = bf16}
// CHECK-NEXT:      %[[K4:.*]] = kvq.tile.clip %[[K3]] {index = 61 : i64, kind = #kvq.tile_clip<order_statistic>
// CHECK-NEXT:      %[[CODES:.*]], %[[PARAMS:.*]] = kvq.tile.quantize %[[K4]]
// CHECK-NEXT:      kvq.tile.store_codes %[[CODES]]
// CHECK-NEXT:      kvq.tile.store_params %[[PARAMS]]
// CHECK:           kvq.tile.clip {{.*}}index = 58 : i64
// CHECK:           kvq.tile.store_params {{.*}}side = #kvq.side<value>

// The query is rotated like the key, but not rounded. A row of the block that does not exist is marked.
// CHECK-LABEL: func.func @kvq_prepare
// CHECK:         scf.for
// CHECK:           kvq.tile.load_row
// CHECK-NEXT:      kvq.tile.hadamard
// CHECK-NEXT:      kvq.tile.scale_row
// CHECK-NOT:       kvq.tile.round_row
// CHECK:           kvq.tile.store_query
// CHECK:           kvq.tile.clear_query

// CHECK-LABEL: func.func @kvq_decode
// CHECK:         kvq.tile.init_softmax
// CHECK:         kvq.tile.init_output
// CHECK:         kvq.tile.row_bounds
// CHECK:         scf.for
// CHECK:           kvq.tile.load_params {{.*}}side = #kvq.side<key>
// CHECK-NEXT:      kvq.tile.dot
// CHECK-NEXT:      kvq.tile.score
// CHECK-NEXT:      kvq.tile.mask_scores
// CHECK-NEXT:      kvq.tile.softmax
// CHECK-NEXT:      kvq.tile.rescale
// CHECK-NEXT:      kvq.tile.load_params {{.*}}side = #kvq.side<value>
// CHECK-NEXT:      kvq.tile.weigh
// CHECK-NEXT:      kvq.tile.add_offsets
// CHECK-NEXT:      kvq.tile.accumulate
// CHECK:         kvq.tile.flush

// CHECK-LABEL: func.func @kvq_merge
// What centering took from the logits comes off the sink.
// CHECK:         kvq.tile.query_shift
// CHECK:         kvq.tile.combine
// CHECK-NEXT:    kvq.tile.hadamard
// CHECK:         kvq.tile.query_shift
// CHECK:         kvq.tile.store_row

// A record back in the basis in which it is stored, or in the model's, in f32 or as rows are.
// CHECK-LABEL: func.func @kvq_dequantize
// CHECK:         %[[STORED:.*]] = kvq.tile.load_codes {{.*}}side = #kvq.side<key>
// CHECK:         kvq.tile.store_row %[[STORED]], %{{.*}} {element = f32}
// CHECK:         kvq.tile.store_row %[[STORED]], %{{.*}} {element = bf16}
// CHECK:         %[[CODES:.*]] = kvq.tile.load_codes {{.*}}side = #kvq.side<key>
// CHECK:         kvq.tile.hadamard %[[CODES]]
// CHECK-NOT:     @kvq_append_window
// CHECK-NOT:     @kvq_demote
