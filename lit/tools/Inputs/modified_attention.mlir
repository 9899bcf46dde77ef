// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Behind one of the examples: its attention with a sliding window and learned sinks.
kvq.constants @model {
  kvq.constant @sinks : tensor<1x9x1xf32> =
    dense<[[[0.5], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [1.0], [0.0]]]> : tensor<1x9x1xf32>
}
func.func @decode(%q: !kvq.rows<?x64xbf16>) -> !kvq.rows<?x64xbf16> {
  %o = kvq.attention %q, @cache scale(0.125) causal window(300) sinks(@model::@sinks)
    : !kvq.rows<?x64xbf16> -> !kvq.rows<?x64xbf16>
  return %o : !kvq.rows<?x64xbf16>
}
