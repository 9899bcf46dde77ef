// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/Dequantization.h"

namespace mlir::kvq::folding {

namespace {

using Kind = Factor::Kind;

Factor makeFactor(Kind kind, const char *name, Axes axes) {
  Factor factor;
  factor.kind = kind;
  factor.name = name;
  factor.axes = axes;
  return factor;
}

/// Axes of the parameters: one set per token and group, or one per channel and block of tokens.
Axes parameterAxes(const ::kvq::RecordSide &record) {
  if (record.axis == ::kvq::ParameterAxis::channel)
    return axisChannel | axisTile;
  bool grouped = record.group && record.group != record.dim;
  return grouped ? axisToken | axisGroup : axisToken;
}

void addForm(std::vector<Factor> &factors, const ::kvq::RecordSide &record, bool centredCodes) {
  Axes axes = parameterAxes(record);
  Factor mid = makeFactor(Kind::offset, "mid", 0);
  switch (record.form) {
  case ::kvq::ParameterForm::min:
  case ::kvq::ParameterForm::zero:
    if (centredCodes) {
      factors.push_back(mid);
      factors.back().name = "-mid";
      factors.push_back(mid);
      factors.back().exact = true;
    }
    break;
  case ::kvq::ParameterForm::sym:
    // 8-bit symmetric codes are stored signed, with their middle at 0.
    if (record.bits != 8)
      factors.push_back(mid);
    break;
  case ::kvq::ParameterForm::norm:
    factors.push_back(makeFactor(Kind::map, "book", 0));
    break;
  }
  if (record.form == ::kvq::ParameterForm::zero)
    factors.push_back(makeFactor(Kind::offset, "zero", axes));
  factors.push_back(makeFactor(Kind::scale, "scale", axes));
  if (record.form == ::kvq::ParameterForm::min)
    factors.push_back(makeFactor(Kind::offset, "zero", axes));
  if (record.outer == ::kvq::OuterScale::token)
    factors.push_back(makeFactor(Kind::scale, "outer", axisToken));
  if (record.outer == ::kvq::OuterScale::channel)
    factors.push_back(makeFactor(Kind::scale, "outer", axisChannel | axisTile));
}

/// The inverse of x -> x F: a Hadamard transform is its own, a dense one is transposed.
Factor inverseOf(const ::kvq::RotationFactor &forward,
                 const std::vector<::kvq::Constant> &constants) {
  Factor factor = makeFactor(Kind::rotation, "", 0);
  factor.block = forward.order;
  factor.transposed = !forward.inverse;
  switch (forward.kind) {
  case ::kvq::RotationFactor::Kind::hadamard:
    factor.name = "hadamard";
    factor.fast = true;
    break;
  case ::kvq::RotationFactor::Kind::block_hadamard:
    factor.name = "block_hadamard<" + std::to_string(forward.order) + ">";
    factor.fast = true;
    break;
  case ::kvq::RotationFactor::Kind::dense:
    factor.name = constants[forward.constant].name;
    factor.block = 0;
    break;
  }
  return factor;
}

void addInverse(std::vector<Factor> &factors, const ::kvq::Step &step,
                const std::vector<::kvq::Constant> &constants) {
  if (step.kind == ::kvq::Step::Kind::center)
    factors.push_back(makeFactor(Kind::offset, constants[step.constant].name.c_str(), axisChannel));
  if (step.kind == ::kvq::Step::Kind::rotate)
    for (auto forward = step.factors.rbegin(); forward != step.factors.rend(); ++forward)
      factors.push_back(inverseOf(*forward, constants));
}

} // namespace

Composition dequantization(const ::kvq::SideMethod &side,
                           const std::vector<::kvq::Constant> &constants, int block,
                           bool centredCodes) {
  Composition composition;
  composition.dim = side.record.dim;
  composition.group = side.record.group == side.record.dim ? 0 : side.record.group;
  composition.tile = block;
  addForm(composition.factors, side.record, centredCodes);
  for (auto step = side.steps.rbegin(); step != side.steps.rend(); ++step)
    addInverse(composition.factors, *step, constants);
  return composition;
}

} // namespace mlir::kvq::folding
