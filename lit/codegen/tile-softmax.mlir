// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// State carried by a loop is an address on this target, updated in place.
// CHECK-LABEL: func.func @softmax
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// CHECK:         llvm.store %[[LOWEST]]
// CHECK:         scf.for
// CHECK:           arith.cmpf ogt
// CHECK:           arith.subf
// CHECK:           arith.fptosi
// CHECK-NOT:     kvq.fragment
func.func @softmax(%tile: !llvm.ptr, %w: !llvm.ptr, %n: i64) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %p = kvq.tile.load_params %tile, %n {record = #record, side = #kvq.side<key>}
    : (!llvm.ptr, i64) -> !kvq.fragment<params>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  %s = kvq.tile.score %d, %p, %q {record = #record, queries = 2 : i64}
    : (!kvq.fragment<dots>, !kvq.fragment<params>, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %t = kvq.tile.init_softmax {queries = 2 : i64} : () -> !kvq.fragment<softmax>
  %u = scf.for %i = %c0 to %n step %c1 iter_args(%x = %t) -> (!kvq.fragment<softmax>) : i64 {
    %y, %probs, %factors = kvq.tile.softmax %x, %s {queries = 2 : i64}
      : (!kvq.fragment<softmax>, !kvq.fragment<scores>)
      -> (!kvq.fragment<softmax>, !kvq.fragment<probs>, !kvq.fragment<factors>)
    scf.yield %y : !kvq.fragment<softmax>
  }
  return
}
