// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/conversion/Refusal.h"

namespace mlir::kvq {

std::string Refusal::ofSide(const char *name, const ::kvq::RecordSide &side) const {
  const Refusal &refuse = *this;
  const std::string of = std::string(" for the ") + name;
  if (side.dim <= 0 || side.dim > maxDim || side.dim % 32)
    return refuse("a head dim that is a multiple of 32 up to " + std::to_string(maxDim) + of,
                  std::to_string(side.dim));
  if (side.bits != 2 && side.bits != 4 && side.bits != 8)
    return refuse("2, 4 or 8 bits" + of, std::to_string(side.bits));
  if (side.form == ::kvq::ParameterForm::norm)
    return refuse("parameters of the min, zero or sym form" + of, "the norm form");
  if (side.axis == ::kvq::ParameterAxis::channel)
    return refuse("parameters per token" + of, "parameters per channel");
  if (side.outer != ::kvq::OuterScale::none)
    return refuse("no outer scale" + of, "one");
  if (side.packing != ::kvq::CodePacking::byte)
    return refuse("byte packing" + of, "nibble packing");
  return "";
}

std::string Refusal::ofMethod(const ::kvq::CacheMethod &method) const {
  const Refusal &refuse = *this;
  if (std::string reason = ofSide("key", method.key.record); !reason.empty())
    return reason;
  if (std::string reason = ofSide("value", method.value.record); !reason.empty())
    return reason;
  if (method.windowed()) {
    const ::kvq::ElementType key = method.key.storedRows(), value = method.value.storedRows();
    if (key != value || key == ::kvq::ElementType::f32)
      return refuse("rotated rows of f16 or of bf16 for high-precision windows, for K as for V",
                    std::string(::kvq::elementName(key)) + " and " + ::kvq::elementName(value));
  }
  if (method.kv_heads <= 0 || method.q_heads % method.kv_heads ||
      method.q_heads / method.kv_heads < 1 || method.q_heads / method.kv_heads > 64)
    return refuse("1 to 64 query heads per KV head",
                  "q_heads = " + std::to_string(method.q_heads) +
                      " and kv_heads = " + std::to_string(method.kv_heads));
  return "";
}

} // namespace mlir::kvq
