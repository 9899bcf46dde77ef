// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_ENUMS
#define KVQ_ENUMS

include "dialect/KVQDialect.td"
include "mlir/IR/EnumAttr.td"

/// The summary of an enum that a user writes lists its words: the parser says "expected <summary>".
class KVQ_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::kvq";
  let genSpecializedAttr = 0;
}

def KVQ_ClipKind : KVQ_Enum<"ClipKind", "order_statistic, ratio or constant",
    [I32EnumAttrCase<"order_statistic", 0>, I32EnumAttrCase<"ratio", 1>,
     I32EnumAttrCase<"constant", 2>]>;

def KVQ_ClipScope : KVQ_Enum<"ClipScope", "row or group",
    [I32EnumAttrCase<"row", 0>, I32EnumAttrCase<"group", 1>]>;

def KVQ_Tie : KVQ_Enum<"Tie", "half_up or half_even",
    [I32EnumAttrCase<"half_up", 0>, I32EnumAttrCase<"half_even", 1>]>;

def KVQ_Form : KVQ_Enum<"Form", "min_form, zero_form or sym_form",
    [I32EnumAttrCase<"min_form", 0>, I32EnumAttrCase<"zero_form", 1>,
     I32EnumAttrCase<"sym_form", 2>]>;

def KVQ_ParamSource : KVQ_Enum<"ParamSource", "stored or exact",
    [I32EnumAttrCase<"stored", 0>, I32EnumAttrCase<"exact", 1>]>;

def KVQ_FoldPlace : KVQ_Enum<"FoldPlace", "where a factor of the dequantization went",
    [I32EnumAttrCase<"query", 0>, I32EnumAttrCase<"query_per_tile", 1>, I32EnumAttrCase<"score", 2>,
     I32EnumAttrCase<"score_per_group", 3>, I32EnumAttrCase<"bias_per_token", 4>,
     I32EnumAttrCase<"bias_per_tile", 5>, I32EnumAttrCase<"bias_constant", 6>,
     I32EnumAttrCase<"probability", 7>, I32EnumAttrCase<"probability_per_group", 8>,
     I32EnumAttrCase<"accumulator", 9>, I32EnumAttrCase<"accumulator_per_tile", 10>,
     I32EnumAttrCase<"output", 11>, I32EnumAttrCase<"dropped", 12>,
     I32EnumAttrCase<"log_sum_exp", 13>, I32EnumAttrCase<"elementwise", 14>]>;

#endif // KVQ_ENUMS
