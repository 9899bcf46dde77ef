// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes and types of level 3; dialect/KVQTileOps.td says what a row, a tile and a fragment are.
#ifndef KVQ_TILE_TYPES
#define KVQ_TILE_TYPES

include "dialect/KVQDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def KVQ_TileSideKind : I32EnumAttr<"TileSideKind", "the key or the value side of a record",
    [I32EnumAttrCase<"key", 0>, I32EnumAttrCase<"value", 1>]> {
  let cppNamespace = "::mlir::kvq";
  let genSpecializedAttr = 0;
}
def KVQ_TileSideKindAttr : EnumAttr<KVQ_Dialect, KVQ_TileSideKind, "side"> {
  let assemblyFormat = "`<` $value `>`";
}

def KVQ_TileClipKind : I32EnumAttr<"TileClipKind", "how a clip finds its threshold",
    [I32EnumAttrCase<"order_statistic", 0>, I32EnumAttrCase<"ratio", 1>, I32EnumAttrCase<"constant", 2>]> {
  let cppNamespace = "::mlir::kvq";
  let genSpecializedAttr = 0;
}
def KVQ_TileClipKindAttr : EnumAttr<KVQ_Dialect, KVQ_TileClipKind, "tile_clip"> {
  let assemblyFormat = "`<` $value `>`";
}

def KVQ_FragmentKind : I32EnumAttr<"FragmentKind", "what a fragment holds",
    [I32EnumAttrCase<"codes", 0>, I32EnumAttrCase<"params", 1>, I32EnumAttrCase<"query", 2>,
     I32EnumAttrCase<"dots", 3>, I32EnumAttrCase<"scores", 4>, I32EnumAttrCase<"probs", 5>,
     I32EnumAttrCase<"factors", 6>, I32EnumAttrCase<"weights", 7>, I32EnumAttrCase<"softmax", 8>,
     I32EnumAttrCase<"output", 9>, I32EnumAttrCase<"bounds", 10>, I32EnumAttrCase<"window_softmax", 11>,
     I32EnumAttrCase<"window_output", 12>, I32EnumAttrCase<"window_weights", 13>]> {
  let cppNamespace = "::mlir::kvq";
  let genSpecializedAttr = 0;
}

def KVQ_TileSideAttr : AttrDef<KVQ_Dialect, "TileSide"> {
  let mnemonic = "tile_side";
  let summary = "how one side of a record is coded: what layout.h needs to place it";
  let description = [{
    `group` is in channels (the whole head is `group = dim`); `form` is `"min"`, `"zero"` or `"sym"`; `params` is the
    element type of the parameters.

    ```mlir
    #kvq.tile_side<dim = 128, bits = 2, group = 128, form = "min", params = f16>
    ```
  }];
  let parameters = (ins "int64_t":$dim, "int64_t":$bits, "int64_t":$group, StringRefParameter<>:$form,
                        "::mlir::Type":$params);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def KVQ_TileRecordAttr : AttrDef<KVQ_Dialect, "TileRecord"> {
  let mnemonic = "tile_record";
  let summary = "the record that a tile belongs to; fixes every byte of a tile";
  let parameters = (ins "::mlir::kvq::TileSideAttr":$k, "::mlir::kvq::TileSideAttr":$v);
  let assemblyFormat = "`<` struct(params) `>`";
  let genMnemonicAlias = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The specification that layout.h builds the record from, for a page of one tile.
    ::kvq::RecordSpec getSpec() const;
    /// The side named by `kind`.
    ::mlir::kvq::TileSideAttr getSide(::mlir::kvq::TileSideKind kind) const;
  }];
}

def KVQ_TileRowType : TypeDef<KVQ_Dialect, "TileRow"> {
  let mnemonic = "tile_row";
  let summary = "one row of `dim` channels, held in fp32";
  let parameters = (ins "int64_t":$dim);
  let assemblyFormat = "`<` $dim `>`";
}

def KVQ_FragmentType : TypeDef<KVQ_Dialect, "Fragment"> {
  let mnemonic = "fragment";
  let summary = "what a work item holds between two tile ops";
  let parameters = (ins EnumParameter<KVQ_FragmentKind>:$kind);
  let assemblyFormat = "`<` $kind `>`";
}

class KVQ_Fragment<string kind>
    : Type<CPred<"::llvm::isa<::mlir::kvq::FragmentType>($_self) && "
                 "::llvm::cast<::mlir::kvq::FragmentType>($_self).getKind() == "
                 "::mlir::kvq::FragmentKind::" # kind>,
           "fragment of " # kind, "::mlir::kvq::FragmentType">,
      BuildableType<"$_builder.getType<::mlir::kvq::FragmentType>(::mlir::kvq::FragmentKind::" # kind # ")">;

def KVQ_Address : Type<CPred<"::llvm::isa<::mlir::LLVM::LLVMPointerType>($_self)">, "address of bytes">;

#endif // KVQ_TILE_TYPES
