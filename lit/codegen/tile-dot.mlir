// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

#eight = #kvq.tile_side<dim = 64, bits = 8, group = 64, form = "min", params = f16>
#bytes = #kvq.tile_record<k = #eight, v = #eight>

// A row g of D = 64 at 2 bits has 32 bytes, brought into two units of [token half][8 channels]; four slots.
// CHECK-LABEL: func.func @dot
// CHECK:         scf.for
// CHECK:           llvm.load %{{.*}} {alignment = 32 : i64} : !llvm.ptr -> vector<32xi8>
// CHECK:           vector.shuffle %{{.*}} [0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15,
// CHECK:           arith.andi %{{.*}} : vector<32xi8>
// CHECK:           arith.uitofp %{{.*}} : vector<16xi8> to vector<16xf32>
// CHECK:           math.fma
// CHECK:           arith.shrui %{{.*}} : vector<32xi8>
// CHECK:         vector.shuffle %{{.*}} [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]
func.func @dot(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #record, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #record, queries = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  return
}

// 8 bits: two cuts of 32 channels, whose bytes are signed codes as they stand.
// CHECK-LABEL: func.func @signed
// CHECK:         scf.for
// CHECK-NOT:       arith.andi
// CHECK-NOT:       arith.uitofp
// CHECK-COUNT-8:   arith.sitofp %{{.*}} : vector<16xi8> to vector<16xf32>
// CHECK-NOT:       arith.sitofp
func.func @signed(%tile: !llvm.ptr, %w: !llvm.ptr) {
  %q = kvq.tile.load_query %w {record = #bytes, queries = 2 : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %d = kvq.tile.dot %tile, %q {record = #bytes, queries = 2 : i64}
    : (!llvm.ptr, !kvq.fragment<query>) -> !kvq.fragment<dots>
  return
}
