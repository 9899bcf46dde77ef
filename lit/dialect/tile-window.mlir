// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %roundtrip | FileCheck %s

#side = #kvq.tile_side<dim = 64, bits = 2, group = 64, form = "min", params = f16>
#record = #kvq.tile_record<k = #side, v = #side>

// CHECK:       #[[RECORD:.*]] = #kvq.tile_record<

// Between the fragments of the codes.
// CHECK-LABEL: func.func @rows
func.func @rows(%k: !llvm.ptr, %v: !llvm.ptr, %begin: i64, %end: i64, %q: !kvq.fragment<query>,
                %o: !kvq.fragment<output>, %p: !kvq.fragment<probs>) -> !kvq.fragment<output> {
  // CHECK: kvq.tile.dot_rows %{{.*}} {element = bf16, queries = 3 : i64, record = #[[RECORD]]}
  // CHECK-SAME: (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  %s = kvq.tile.dot_rows %k, %begin, %end, %q {record = #record, queries = 3 : i64, element = bf16}
    : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
  // CHECK: kvq.tile.mask_rows %{{.*}} {queries = 3 : i64} : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
  %m = kvq.tile.mask_rows %s, %begin, %end {queries = 3 : i64}
    : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
  // CHECK: kvq.tile.accumulate_rows %{{.*}} {element = f16, queries = 3 : i64, record = #[[RECORD]]}
  // CHECK-SAME: (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
  %r = kvq.tile.accumulate_rows %o, %v, %begin, %end, %p {record = #record, queries = 3 : i64, element = f16}
    : (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
  return %r : !kvq.fragment<output>
}

// With fragments of their own, before the codes.
// CHECK-LABEL: func.func @window
func.func @window(%v: !llvm.ptr, %begin: i64, %end: i64, %s: !kvq.fragment<scores>, %codes: !kvq.fragment<softmax>,
                  %sums: !kvq.fragment<output>) -> (!kvq.fragment<softmax>, !kvq.fragment<output>) {
  // CHECK: kvq.tile.init_window {queries = 3 : i64, record = #[[RECORD]]}
  // CHECK-SAME: () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  %t, %o = kvq.tile.init_window {record = #record, queries = 3 : i64}
    : () -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
  // CHECK: kvq.tile.weigh_window %{{.*}} {element = f16, queries = 3 : i64, record = #[[RECORD]]}
  // CHECK-SAME: -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
  %t1, %o1, %w = kvq.tile.weigh_window %t, %o, %s {record = #record, queries = 3 : i64, element = f16}
    : (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<scores>)
    -> (!kvq.fragment<window_softmax>, !kvq.fragment<window_output>, !kvq.fragment<window_weights>)
  // CHECK: kvq.tile.accumulate_window %{{.*}} {element = f16, queries = 3 : i64, record = #[[RECORD]]}
  // CHECK-SAME: -> !kvq.fragment<window_output>
  %o2 = kvq.tile.accumulate_window %o1, %v, %begin, %end, %w {record = #record, queries = 3 : i64, element = f16}
    : (!kvq.fragment<window_output>, !llvm.ptr, i64, i64, !kvq.fragment<window_weights>)
    -> !kvq.fragment<window_output>
  // CHECK: kvq.tile.enter_window %{{.*}} {queries = 3 : i64, record = #[[RECORD]]}
  // CHECK-SAME: -> (!kvq.fragment<softmax>, !kvq.fragment<output>)
  %a, %b = kvq.tile.enter_window %codes, %sums, %t1, %o2 {record = #record, queries = 3 : i64}
    : (!kvq.fragment<softmax>, !kvq.fragment<output>, !kvq.fragment<window_softmax>, !kvq.fragment<window_output>)
    -> (!kvq.fragment<softmax>, !kvq.fragment<output>)
  return %a, %b : !kvq.fragment<softmax>, !kvq.fragment<output>
}
