// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef KVQ_TYPES
#define KVQ_TYPES

include "dialect/KVQAttrs.td"

class KVQ_Type<string name, string typeMnemonic> : TypeDef<KVQ_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def KVQ_RowsType : KVQ_Type<"Rows", "rows"> {
  let summary = "rows of one KV head (or of the query heads on it), with the basis they stand in";
  let description = [{
    `rows` tokens (or `?`) of `dim` channels of `element` (bf16, f16 or f32). `basis` is the
    rotation that leads from the model's own basis to this one, a list of factors in normal form,
    applied from left to right; adjacent inverses cancel. `center` lists the means that were
    subtracted, each with the basis in which it was (written after `in`, left out for the model's
    own).

    ```mlir
    !kvq.rows<?x64xbf16>
    !kvq.rows<?x64xf32, basis = [hadamard<64>], center = [@calib::@key_mean]>
    ```
  }];
  let parameters = (ins "int64_t":$rows, "int64_t":$dim, "::mlir::Type":$element,
                        "::mlir::ArrayAttr":$basis, "::mlir::ArrayAttr":$center);
  let builders = [TypeBuilderWithInferredContext<(ins "int64_t":$rows, "int64_t":$dim,
                                                       "::mlir::Type":$element), [{
    ArrayAttr none = ArrayAttr::get(element.getContext(), {});
    return $_get(element.getContext(), rows, dim, element, none, none);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// True for rows as the model makes them: no rotation, no mean subtracted.
    bool isModelRows() const { return getBasis().empty() && getCenter().empty(); }
    /// The same rows with another element type, basis or center.
    RowsType withElement(::mlir::Type element) const;
    RowsType withBasis(::mlir::ArrayAttr basis) const;
    RowsType withCenter(::mlir::ArrayAttr center) const;
  }];
}

def KVQ_GroupedType : KVQ_Type<"Grouped", "grouped"> {
  let summary = "rows whose channels are cut into groups that share parameters";
  let description = [{
    ```mlir
    !kvq.grouped<!kvq.rows<?x128xbf16>, 32>
    ```
  }];
  let parameters = (ins "::mlir::kvq::RowsType":$rows, "int64_t":$size);
  let assemblyFormat = "`<` qualified($rows) `,` $size `>`";
  let genVerifyDecl = 1;
}

def KVQ_CodesType : KVQ_Type<"Codes", "codes"> {
  let summary = "codes and parameters of rounded groups";
  let description = [{
    ```mlir
    !kvq.codes<!kvq.rows<?x128xbf16>, 32, 2, min_form, f16>
    ```
    The rows that were rounded, channels of a group, bits of a code (1 to 8; `kvq.pack native` takes
    2, 3, 4 and 8), parameter form, element type of the parameters.
  }];
  let parameters = (ins "::mlir::kvq::RowsType":$rows, "int64_t":$group, "int64_t":$bits,
                        EnumParameter<KVQ_Form>:$form, "::mlir::Type":$params);
  let assemblyFormat = "`<` qualified($rows) `,` $group `,` $bits `,` $form `,` $params `>`";
  let genVerifyDecl = 1;
}

#endif // KVQ_TYPES
