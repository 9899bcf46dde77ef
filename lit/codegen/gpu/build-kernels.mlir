// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %examples/hadamard_clip_int2.mlir --kvq-optimize --kvq-build-kernels=target=sm_90a --canonicalize \
// RUN:   | FileCheck %s --implicit-check-not=cp.async.cg
// The chip without bulk copies, transaction barriers and programmatic launch takes its own path.
// RUN: kvq-opt %examples/hadamard_clip_int2.mlir --kvq-optimize --kvq-build-kernels=target=sm_80 --canonicalize \
// RUN:   | FileCheck %s --check-prefix=SM80 --implicit-check-not=mbarrier --implicit-check-not=cp.async.bulk \
// RUN:     --implicit-check-not=griddepcontrol

// CHECK-NOT: kvq.pipeline
// CHECK-NOT: kvq.fused_attention

// Arguments come by value. A warp appends one token of one head: a block of four. Each side in the order of its pipeline.
// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_append(
// CHECK-SAME:    llvm.byval = !llvm.array<20 x i64>
// CHECK-SAME:    ["nvvm.maxntid", "128"], ["nvvm.minctasm", "1"]
// CHECK:           kvq.tile.load_row %{{.*}} {element = bf16}
// CHECK-NEXT:      kvq.tile.hadamard
// CHECK-NEXT:      kvq.tile.round_row
// CHECK-NEXT:      kvq.tile.sanitize
// CHECK-NEXT:      kvq.tile.clip %{{.*}} {index = 61 : i64
// CHECK-NEXT:      kvq.tile.quantize
// CHECK-NEXT:      kvq.tile.store_codes {{.*}}side = #kvq.side<key>
// CHECK-NEXT:      kvq.tile.store_params {{.*}}side = #kvq.side<key>
// CHECK:           kvq.tile.store_params {{.*}}side = #kvq.side<value>

// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_plan(
// CHECK-SAME:    ["nvvm.maxntid", "1024"]
// CHECK-NOT:     kvq.tile.

// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_prepare(
// CHECK:         griddepcontrol.wait
// CHECK-NEXT:    griddepcontrol.launch_dependents
// CHECK:           kvq.tile.load_row
// CHECK-NEXT:      kvq.tile.hadamard
// CHECK-NEXT:      kvq.tile.scale_row
// CHECK:           kvq.tile.store_query %{{.*}} {queries = 4 : i64
// CHECK:           kvq.tile.clear_query %{{.*}} {queries = 4 : i64

// The first copies start before the queries are waited for.
// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_decode(
// CHECK-SAME:    ["nvvm.maxntid", "256"]
// CHECK:         mbarrier.init
// CHECK:         mbarrier.arrive.expect_tx
// CHECK:         cp.async.bulk.shared::cluster.global.mbarrier
// CHECK:         griddepcontrol.wait
// CHECK:         kvq.tile.load_query
// CHECK:         kvq.tile.init_softmax {{.*}}record =
// CHECK:         kvq.tile.init_output %{{.*}} {queries = 4 : i64
// CHECK:         kvq.tile.row_bounds
// Units that not all rows attend as a whole, at either end: the tokens in records, and the tokens of each row.
// CHECK:           mbarrier.try_wait
// CHECK:           kvq.tile.load_params %{{.*}}, %{{[0-9a-z_]+}} {{.*}}side = #kvq.side<key>
// CHECK:           kvq.tile.score
// CHECK-NEXT:      kvq.tile.mask_scores
// Units in between: every token counts.
// CHECK:           mbarrier.try_wait
// CHECK:           kvq.tile.load_params %{{[0-9a-z_]+}} {{.*}}side = #kvq.side<key>, tiles = 4 : i64}
// CHECK-NEXT:      kvq.tile.dot {{.*}}tiles = 4 : i64
// CHECK-NEXT:      kvq.tile.score
// CHECK-NEXT:      kvq.tile.load_params %{{[0-9a-z_]+}} {{.*}}side = #kvq.side<value>
// CHECK-NEXT:      kvq.tile.weigh_integer
// CHECK-NEXT:      kvq.tile.accumulate
// CHECK:         kvq.tile.flush
// The warps of a team, then the teams of a sequence; the output is brought back to the basis of the model.
// CHECK:         kvq.tile.merge_warps
// CHECK:           kvq.tile.store_partial
// CHECK:           kvq.tile.merge_partials {{.*}}stride = {{[0-9]+}} : i64
// CHECK:         kvq.tile.query_shift
// CHECK:         kvq.tile.normalize
// CHECK-NEXT:    kvq.tile.hadamard
// CHECK:         kvq.tile.store_row

// CHECK-LABEL: llvm.func ptx_kernelcc @kvq_dequantize(
// CHECK:         kvq.tile.load_codes

// SM80-LABEL: llvm.func ptx_kernelcc @kvq_append(
// SM80-LABEL: llvm.func ptx_kernelcc @kvq_plan(
// SM80-LABEL: llvm.func ptx_kernelcc @kvq_prepare(
// SM80-LABEL: llvm.func ptx_kernelcc @kvq_decode(
// SM80:         cp.async.cg.shared.global [$0], [$1], 16;
// SM80:         cp.async.commit_group
// SM80:         kvq.tile.load_query
// SM80:         cp.async.wait_group 1
// SM80:         kvq.tile.dot
// SM80:         kvq.tile.merge_partials
