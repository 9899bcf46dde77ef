// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layouts that tests walk through, by name.
#pragma once

#include "kvq/layout.h"

namespace kvq::test {

struct NamedRecord {
  std::string name;
  RecordSpec spec;
  int tokenBytes; ///< bytes of K and V per token, parameters included
};

inline RecordSide side(int dim, int bits = 2, int group = 0,
                       ParameterForm form = ParameterForm::min,
                       ElementType element = ElementType::f16) {
  RecordSide out;
  out.dim = dim, out.bits = bits, out.group = group, out.form = form, out.element = element;
  return out;
}

inline RecordSpec record(int page, const RecordSide &k, const RecordSide &v,
                         int block = kTileTokens) {
  RecordSpec spec;
  spec.page = page, spec.k = k, spec.v = v, spec.block = block;
  return spec;
}
inline RecordSpec record(int page, const RecordSide &both) { return record(page, both, both); }

/// Every form, width, group, parameter type, axis and head dim at least once.
inline std::vector<NamedRecord> goldenRecords() {
  std::vector<NamedRecord> out;
  for (int page : {16, 32, 64, 128})
    out.push_back({"d128_b2_g128_p" + std::to_string(page), record(page, side(128)), 72});
  RecordSide nibble = side(128, 2, 0, ParameterForm::norm);
  nibble.packing = CodePacking::nibble;
  RecordSide kiviKey = side(128);
  kiviKey.axis = ParameterAxis::channel;
  RecordSide kvarnKey = side(128, 4), kvarnValue = side(128);
  kvarnKey.axis = ParameterAxis::channel;
  kvarnKey.outer = OuterScale::token;
  kvarnValue.outer = OuterScale::channel;
  out.push_back({"d128_b2_sym_p64", record(64, side(128, 2, 0, ParameterForm::sym)), 68});
  out.push_back({"d128_b2_g32_p64", record(64, side(128, 2, 32)), 96});
  out.push_back({"d128_b4_g128_p64", record(64, side(128, 4)), 136});
  out.push_back({"d128_b8_p64", record(64, side(128, 8)), 264});
  out.push_back({"d128_b3_p64", record(64, side(128, 3)), 104});
  out.push_back({"d128_k4v2_p64", record(64, side(128, 4), side(128)), 104});
  out.push_back({"d128_b2_norm_nibble_p64", record(64, nibble), 68});
  out.push_back({"d128_b2_zero_f32_p64",
                 record(64, side(128, 2, 0, ParameterForm::zero, ElementType::f32)), 80});
  out.push_back({"d128_b2_g64_bf16_p16",
                 record(16, side(128, 2, 64, ParameterForm::min, ElementType::bf16)), 80});
  out.push_back({"kivi_d128_b2_g32_p64", record(64, kiviKey, side(128, 2, 32), 32), 96});
  out.push_back({"kvarn_d128_k4v2_p128", record(128, kvarnKey, kvarnValue, 128), 108});
  out.push_back({"k192_v128_b2_p64", record(64, side(192), side(128)), 88});
  for (int dim : {32, 64, 80, 96, 112, 160, 192, 224, 256, 512, 576})
    out.push_back(
        {"d" + std::to_string(dim) + "_b2_p64", record(64, side(dim)), (dim + 31) / 32 * 16 + 8});
  return out;
}

} // namespace kvq::test
