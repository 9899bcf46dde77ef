// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: kvq-opt %s --kvq-lower-tiles-cpu --canonicalize | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

#zero = #kvq.tile_side<dim = 64, bits = 4, group = 32, form = "zero", params = bf16>
#sym = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "sym", params = f32>

// Codes come from the stored parameters: the fp32 scale is narrowed and widened before it divides.
// CHECK-LABEL: func.func @min
// CHECK-DAG:     %[[TOP:.*]] = arith.constant 3.000000e+00 : f32
// CHECK:         %[[WIDTH:.*]] = arith.subf
// CHECK:         arith.divf %[[WIDTH]], %[[TOP]] : f32
// CHECK:         arith.truncf %{{.*}} : f32 to f16
// CHECK:         arith.extf %{{.*}} : f16 to f32
// CHECK:         %[[D:.*]] = arith.subf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK:         arith.divf %[[D]], %{{.*}} : vector<16xf32>
// CHECK:         arith.fptosi
// CHECK:         llvm.store %{{.*}} : vector<16xi8>
func.func @min(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #side}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  return
}

// CHECK-LABEL: func.func @exact
// CHECK:         %[[SCALE:.*]] = arith.divf %{{.*}} : f32
// CHECK:         %[[SCALES:.*]] = vector.broadcast %{{.*}} : f32 to vector<16xf32>
// CHECK:         arith.divf %{{.*}}, %[[SCALES]] : vector<16xf32>
// CHECK:         return
func.func @exact(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #side, exact}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  return
}

// CHECK-LABEL: func.func @zero
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant 9.99999993E-9 : f32
// CHECK:         arith.cmpf ogt, %{{.*}}, %[[LEAST]] : f32
// CHECK:         %[[Q:.*]] = arith.divf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK:         arith.addf %[[Q]], %{{.*}} : vector<16xf32>
func.func @zero(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #zero, half_even}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  return
}

// Ties to even by an addition that leaves no bit below the unit.
// CHECK-LABEL: func.func @sym
// CHECK-DAG:     %[[MAGIC:.*]] = arith.constant dense<0x4B400000> : vector<16xf32>
// CHECK-DAG:     %[[MID:.*]] = arith.constant 1.500000e+00 : f32
// CHECK:         arith.divf %{{.*}}, %[[MID]] : f32
// CHECK:         %[[S:.*]] = arith.addf %{{.*}}, %[[MAGIC]]
// CHECK:         arith.subf %[[S]], %[[MAGIC]]
func.func @sym(%a: !llvm.ptr) {
  %r = kvq.tile.load_row %a {element = f32} : (!llvm.ptr) -> !kvq.tile_row<64>
  %c, %p = kvq.tile.quantize %r {side = #sym, half_even}
    : (!kvq.tile_row<64>) -> (!kvq.fragment<codes>, !kvq.fragment<params>)
  return
}
