// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a method to the composition of its dequantization.

#include "passes/analysis/Dequantization.h"

#include <gtest/gtest.h>

using namespace mlir::kvq::folding;

namespace {

::kvq::SideMethod sideOf(::kvq::ParameterForm form, int group) {
  ::kvq::SideMethod side;
  side.record.dim = 64;
  side.record.form = form;
  side.record.group = group;
  ::kvq::Step center, rotate, clip;
  center.constant = 0;
  rotate.kind = ::kvq::Step::Kind::rotate;
  rotate.factors = {{::kvq::RotationFactor::Kind::dense, 0, false, 1},
                    {::kvq::RotationFactor::Kind::hadamard, 64, false, -1}};
  clip.kind = ::kvq::Step::Kind::clip;
  side.steps = {center, rotate, clip};
  return side;
}

std::string names(const Composition &composition) {
  std::string text;
  for (const Factor &factor : composition.factors)
    text += factor.name + "(" + axesText(factor.axes) + ") ";
  return text;
}

TEST(Dequantization, FollowsTheParameterForm) {
  std::vector<::kvq::Constant> constants = {{"mean", {}, 0}, {"rotation", {}, 0}};
  std::string steps = "hadamard(constant) rotation(constant) mean(d) ";
  using Form = ::kvq::ParameterForm;
  EXPECT_EQ(names(dequantization(sideOf(Form::min, 32), constants, 16)),
            "scale(t, g) zero(t, g) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::zero, 0), constants, 16)),
            "zero(t) scale(t) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::sym, 64), constants, 16)),
            "mid(constant) scale(t) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::norm, 0), constants, 16)),
            "book(constant) scale(t) " + steps);
  EXPECT_EQ(names(dequantization(sideOf(Form::min, 0), constants, 16, true)),
            "-mid(constant) mid(constant) scale(t) zero(t) " + steps);
}

TEST(Dequantization, EveryFormFoldsOutOfTheInnerProduct) {
  std::vector<::kvq::Constant> constants = {{"mean", {}, 0}, {"rotation", {}, 0}};
  for (auto form :
       {::kvq::ParameterForm::min, ::kvq::ParameterForm::zero, ::kvq::ParameterForm::sym})
    for (auto axis : {::kvq::ParameterAxis::token, ::kvq::ParameterAxis::channel})
      for (auto outer :
           {::kvq::OuterScale::none, ::kvq::OuterScale::token, ::kvq::OuterScale::channel}) {
        ::kvq::SideMethod side = sideOf(form, 0);
        side.record.axis = axis;
        side.record.outer = outer;
        Composition composition = dequantization(side, constants, 128, true);
        for (const Plan &plan : {placeKey(composition), placeValue(composition)})
          for (Place place : plan.places)
            EXPECT_NE(place, Place::elementwise) << names(composition);
      }
}

} // namespace
