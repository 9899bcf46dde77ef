// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// One file for the ops on output accumulators, whose layout they share: 32 vectors [row g][slot], then one of offsets.
// CHECK-LABEL: func.func @output
// CHECK-DAG:     %[[PER_QUERY:.*]] = arith.constant 2112 : i64
// CHECK-DAG:     %[[BOTH:.*]] = arith.constant 4224 : i64
// init_softmax, init_output: cleared.
// CHECK:         scf.for {{.*}} to %[[BOTH]]
// rescale: only where the factor is not 1.
// CHECK:         arith.cmpf une, %{{.*}}, %{{.*}} : f32
// CHECK:         scf.if
// CHECK:           arith.mulf %{{.*}} : vector<16xf32>
// weigh: tokens in the order in which a row's bytes name them, 2 units of two lanes t each.
// CHECK:         vector.shuffle %{{.*}} [0, 8, 1, 9, 0, 8, 1, 9, 2, 10, 3, 11, 2, 10, 3, 11]
// CHECK:         vector.shuffle %{{.*}} [4, 12, 5, 13, 4, 12, 5, 13, 6, 14, 7, 15, 6, 14, 7, 15]
// add_offsets.
// CHECK:         math.fma
// accumulate.
// CHECK:         scf.for
// CHECK:           llvm.load %{{.*}} {alignment = 32 : i64} : !llvm.ptr -> vector<32xi8>
// CHECK:           arith.uitofp
// CHECK:           math.fma
// flush: the lanes of a word are summed, its channels written.
// CHECK:         vector.shuffle %{{.*}} [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15]
// CHECK:         llvm.store %{{.*}} : f32
func.func @output(%tile: !llvm.ptr, %w: !llvm.ptr, %n: i64) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %p = kvq.tile.load_params %tile, %n {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %p, %q {record = #record, queries = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %t = kvq.tile.init_softmax {queries = 2 : i64} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output {record = #record, queries = 2 : i64} : () -> !kvq.fragment<output>
  %y, %probs, %factors = kvq.tile.softmax %t, %s {queries = 2 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<scores>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<probs>, !kvq.fragment<factors>)
  %o1 = kvq.tile.rescale %o0, %factors {record = #record, queries = 2 : i64}
    : (!kvq.fragment<output>, !kvq.fragment<factors>) -> !kvq.fragment<output>
  %weights = kvq.tile.weigh %probs, %p {record = #record, queries = 2 : i64}
    : (!kvq.fragment<probs>, !kvq.fragment<params>) -> !kvq.fragment<weights>
  %o2 = kvq.tile.add_offsets %o1, %probs, %p {record = #record, queries = 2 : i64}
    : (!kvq.fragment<output>, !kvq.fragment<probs>, !kvq.fragment<params>) -> !kvq.fragment<output>
  %o3 = kvq.tile.accumulate %o2, %tile, %weights {record = #record, queries = 2 : i64}
    : (!kvq.fragment<output>, !llvm.ptr, !kvq.fragment<weights>) -> !kvq.fragment<output>
  kvq.tile.flush %o3, %y, %w {record = #record, queries = 2 : i64}
    : (!kvq.fragment<output>, !kvq.fragment<softmax>, !llvm.ptr) -> ()
  return
}
