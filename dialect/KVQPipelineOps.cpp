// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQBasis.h"
#include "dialect/KVQOps.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;
using namespace mlir::kvq;

//===-- Constants -----------------------------------------------------------------------------===//

LogicalResult ConstantsOp::verifyRegions() {
  for (Operation &op : getBody().front())
    if (!isa<ConstantOp>(op))
      return op.emitOpError("does not belong in a kvq.constants; expects kvq.constant only")
                 .attachNote(getLoc())
             << "the table is here";
  return success();
}

/// True for [layers, kv_heads, D] and [layers, kv_heads, D, D] of f32, without empty extents.
static bool isConstantType(RankedTensorType type) {
  if (!type || !type.getElementType().isF32() || llvm::is_contained(type.getShape(), 0))
    return false;
  return type.getRank() == 3 || (type.getRank() == 4 && type.getDimSize(2) == type.getDimSize(3));
}

/// Every value is there and finite. A resource hands out no elements through ElementsAttr, only its
/// bytes.
template <typename RangeTy> static LogicalResult verifyFinite(ConstantOp op, RangeTy &&elements) {
  for (float element : elements)
    if (!std::isfinite(element))
      return op.emitOpError("expects finite values, got a NaN or an infinity");
  return success();
}

static LogicalResult verifyElements(ConstantOp op, ElementsAttr value) {
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    size_t bytes = blob ? blob->getData().size() : 0, want = value.getNumElements() * sizeof(float);
    if (bytes != want)
      return op.emitOpError("expects ") << want << " bytes in resource '"
                                        << resource.getRawHandle().getKey() << "', got " << bytes;
    return verifyFinite(op, blob->getDataAs<float>());
  }
  if (auto dense = dyn_cast<DenseElementsAttr>(value))
    return verifyFinite(op, dense.getValues<float>());
  return op.emitOpError("expects a value given as dense or dense_resource elements, got ") << value;
}

LogicalResult ConstantOp::verify() {
  if (!isConstantType(dyn_cast<RankedTensorType>(getType())))
    return emitOpError("expects a tensor of f32 [layers, kv_heads, D] or [layers, kv_heads, D, D], "
                       "got ")
           << getType();
  if (!getSource() && !getValue())
    return emitOpError("expects a source or a value, got neither");
  if (!getValue())
    return success();
  if (getValue()->getType() != getType())
    return emitOpError("expects a value of type ")
           << getType() << ", got " << getValue()->getType();
  return verifyElements(*this, *getValue());
}

/// The constant that `ref` names, of `rank`, indexed [layers, kv_heads] and with all further
/// extents equal to `dim`.
static LogicalResult verifyConstantRef(Operation *op, SymbolTableCollection &symbols,
                                       SymbolRefAttr ref, int64_t rank, int64_t dim,
                                       StringRef what) {
  auto constant = symbols.lookupNearestSymbolFrom<ConstantOp>(op, ref);
  if (!constant)
    return op->emitOpError() << "expects " << what << " " << ref
                             << " to name a kvq.constant, found none";
  RankedTensorType type = constant.getTensorType();
  bool fits = type.getRank() == rank;
  for (int64_t i = 2; fits && i < rank; ++i)
    fits = type.getDimSize(i) == dim;
  if (fits)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << "expects " << what << " " << ref << " of shape [layers, kv_heads"
                            << (rank == 4 ? ", " : "") << (rank == 4 ? std::to_string(dim) : "")
                            << ", " << dim << "], got " << type;
  diag.attachNote(constant.getLoc()) << "the constant is here";
  return diag;
}

//===-- Pipeline ------------------------------------------------------------------------------===//

/// Place of a stage in the order of a pipeline; -1 for an op that is no stage.
static int rankOf(Operation &op) {
  return llvm::TypeSwitch<Operation *, int>(&op)
      .Case<RowsOp>([](auto) { return 0; })
      .Case<CenterOp, RotateOp>([](auto) { return 1; })
      .Case<ClipOp>([](auto) { return 2; })
      .Case<GroupOp>([](auto) { return 3; })
      .Case<RoundOp>([](auto) { return 4; })
      .Case<PackOp>([](auto) { return 5; })
      .Default([](Operation *) { return -1; });
}

LogicalResult PipelineOp::verifyRegions() {
  Operation *last = nullptr;
  for (Operation &op : getBody().front()) {
    int rank = rankOf(op), before = last ? rankOf(*last) : -1;
    if (rank < 0)
      return op.emitOpError(
          "is no stage of a pipeline; expects rows, center, rotate, clip, group, round or pack");
    bool repeats = rank == 1 && before == 1;
    if (!last && rank != 0)
      return op.emitOpError("expects kvq.rows as the first stage of a pipeline");
    if (last && rank <= before && !repeats) {
      InFlightDiagnostic diag =
          op.emitOpError("stands too late: the order of stages is rows, center or rotate, clip, "
                         "group, round, pack");
      diag.attachNote(last->getLoc()) << "the stage before it is here";
      return diag;
    }
    if (last && (last->getNumResults() != 1 || op.getOperand(0) != last->getResult(0))) {
      InFlightDiagnostic diag =
          op.emitOpError("expects the result of the stage before it as operand");
      diag.attachNote(last->getLoc()) << "the stage before it is here";
      return diag;
    }
    last = &op;
  }
  if (!isa_and_nonnull<PackOp>(last))
    return emitOpError("expects kvq.pack as the last stage");
  return success();
}

template <typename OpTy> static OpTy onlyOp(PipelineOp pipeline) {
  auto ops = pipeline.getBody().front().getOps<OpTy>();
  return ops.empty() ? OpTy() : *ops.begin();
}
RowsOp PipelineOp::getRowsOp() { return onlyOp<RowsOp>(*this); }
GroupOp PipelineOp::getGroupOp() { return onlyOp<GroupOp>(*this); }
RoundOp PipelineOp::getRoundOp() { return onlyOp<RoundOp>(*this); }
PackOp PipelineOp::getPackOp() { return onlyOp<PackOp>(*this); }
RowsType PipelineOp::getStoredRows() { return getGroupOp().getInput().getType(); }

LogicalResult RowsOp::verify() {
  if (!getType().isModelRows())
    return emitOpError("expects rows in the model's own basis, without center, got ") << getType();
  return success();
}

/// An error of an op whose result type cannot be inferred; a note names the rows it was given.
template <typename OpTy>
static InFlightDiagnostic emitStageError(MLIRContext *context, std::optional<Location> loc,
                                         Value input, RowsType rows) {
  Location where = loc.value_or(UnknownLoc::get(context));
  InFlightDiagnostic diag = mlir::emitError(where) << "'" << OpTy::getOperationName() << "' op ";
  diag.attachNote(input.getLoc()) << "the rows have type " << rows << " here";
  return diag;
}

/// Rows in the element type that a center or rotate rounds to; null with an error for a bad one.
static RowsType roundedRows(function_ref<InFlightDiagnostic()> emitError, RowsType rows,
                            std::optional<Type> element) {
  return RowsType::getChecked(emitError, rows.getContext(), rows.getRows(), rows.getDim(),
                              element.value_or(rows.getElement()), rows.getBasis(),
                              rows.getCenter());
}

LogicalResult CenterOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RowsType>(adaptor.getInput().getType());
  if (!input)
    return emitOptionalError(loc, "expects an operand of type !kvq.rows");
  SmallVector<Attribute> center(input.getCenter().begin(), input.getCenter().end());
  center.push_back(CenterEntryAttr::get(context, adaptor.getMean(), input.getBasis()));
  auto emitError = [&] {
    return emitStageError<CenterOp>(context, loc, adaptor.getInput(), input);
  };
  RowsType centred = input.withCenter(ArrayAttr::get(context, center));
  RowsType result = roundedRows(emitError, centred, adaptor.getElement());
  types.push_back(result);
  return success(result != nullptr);
}

LogicalResult CenterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyConstantRef(*this, symbols, getMean(), 3, getInput().getType().getDim(), "mean");
}

LogicalResult RotateOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                         Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RowsType>(adaptor.getInput().getType());
  if (!input)
    return emitOptionalError(loc, "expects an operand of type !kvq.rows");
  auto emitError = [&] {
    return emitStageError<RotateOp>(context, loc, adaptor.getInput(), input);
  };
  if (failed(verifyFactors(adaptor.getFactors(), input.getDim(), emitError)))
    return failure();
  RowsType rotated = input.withBasis(composeBasis(input.getBasis(), adaptor.getFactors()));
  RowsType result = roundedRows(emitError, rotated, adaptor.getElement());
  types.push_back(result);
  return success(result != nullptr);
}

LogicalResult RotateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (Attribute factor : getFactors())
    if (auto dense = dyn_cast<DenseAttr>(factor))
      if (failed(verifyConstantRef(*this, symbols, dense.getMatrix(), 4,
                                   getInput().getType().getDim(), "rotation")))
        return failure();
  return success();
}

OpFoldResult RotateOp::fold(FoldAdaptor) {
  if (getFactors().empty() && getType() == getInput().getType())
    return getInput();
  return {};
}

LogicalResult ClipOp::inferReturnTypes(MLIRContext *, std::optional<Location>, Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return success();
}

LogicalResult ClipOp::verify() {
  double value = getValue().convertToDouble();
  if (getKind() == ClipKind::constant) {
    if (!(value > 0) || std::isinf(value))
      return emitOpError("expects a constant threshold that is positive and finite, got ") << value;
    return success();
  }
  if (!(value > 0 && value <= 1))
    return emitOpError("expects a ratio in (0, 1], got ") << value;
  return success();
}

LogicalResult GroupOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                        Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<RowsType>(adaptor.getInput().getType());
  if (!input)
    return emitOptionalError(loc, "expects an operand of type !kvq.rows");
  auto emitError = [&] { return emitStageError<GroupOp>(context, loc, adaptor.getInput(), input); };
  GroupedType type = GroupedType::getChecked(emitError, context, input, int64_t(adaptor.getSize()));
  types.push_back(type);
  return success(type != nullptr);
}

LogicalResult RoundOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,
                                        Adaptor adaptor, SmallVectorImpl<Type> &types) {
  auto input = dyn_cast<GroupedType>(adaptor.getInput().getType());
  if (!input)
    return emitOptionalError(loc, "expects an operand of type !kvq.grouped");
  int64_t bits = adaptor.getBits();
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return emitOptionalError(loc, "'kvq.round' op expects 2, 3, 4 or 8 bits, got ", bits);
  Type params = adaptor.getParams();
  if (!params.isF16() && !params.isBF16() && !params.isF32())
    return emitOptionalError(loc, "'kvq.round' op expects parameters of f16, bf16 or f32, got ",
                             params);
  types.push_back(
      CodesType::get(context, input.getRows(), input.getSize(), bits, adaptor.getForm(), params));
  return success();
}

LogicalResult PackOp::verify() {
  int64_t bits = getInput().getType().getBits();
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    return emitOpError("expects codes of 2, 3, 4 or 8 bits for the native layout, got ") << bits;
  return success();
}
