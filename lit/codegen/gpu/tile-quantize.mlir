// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-gpu --canonicalize | FileCheck %s

#two = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#eight = #kvq.tile_side<dim = 64, bits = 8, group = 32, form = "min", params = bf16>
#sym = #kvq.tile_side<dim = 64, bits = 8, group = 64, form = "sym", params = f32>

// The range over the warp; codes come from the stored parameters, and are clamped to 0..3.
// CHECK-LABEL: llvm.func @two
// CHECK-DAG:     %[[TOP:.*]] = arith.constant 3.000000e+00 : f32
// CHECK-COUNT-10: shfl.sync.bfly.f32
// CHECK:         arith.divf %{{.*}}, %[[TOP]] : f32
// CHECK:         arith.truncf %{{.*}} : f32 to f16
// CHECK-COUNT-2: arith.fptosi
// CHECK-NOT:     arith.fptosi
llvm.func @two(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #two}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  llvm.return
}

// Two groups; 8-bit codes are stored less 128.
// CHECK-LABEL: llvm.func @eight
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant -1.280000e+02 : f32
// CHECK-DAG:     %[[TOP:.*]] = arith.constant 2.550000e+02 : f32
// CHECK-COUNT-10: shfl.sync.bfly.f32
// CHECK:         arith.divf %{{.*}}, %[[TOP]] : f32
// CHECK:         arith.cmpf ogt, %{{.*}}, %[[LEAST]] : f32
// CHECK-COUNT-10: shfl.sync.bfly.f32
// CHECK-NOT:     shfl
llvm.func @eight(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #eight}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  llvm.return
}

// CHECK-LABEL: llvm.func @sym
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant -1.270000e+02 : f32
// CHECK-DAG:     %[[MOST:.*]] = arith.constant 1.270000e+02 : f32
// CHECK:         arith.divf %{{.*}}, %[[MOST]] : f32
// CHECK:         arith.cmpf ogt, %{{.*}}, %[[LEAST]] : f32
// CHECK:         arith.cmpf olt, %{{.*}}, %[[MOST]] : f32
llvm.func @sym(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #sym, half_even}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  llvm.return
}
