// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQTile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::kvq;

#define GET_OP_CLASSES
#include "dialect/KVQTileOps.cpp.inc"

namespace {

::kvq::ParameterForm formOf(StringRef name) {
  return name == "min"    ? ::kvq::ParameterForm::min
         : name == "zero" ? ::kvq::ParameterForm::zero
                          : ::kvq::ParameterForm::sym;
}

::kvq::RecordSide sideOf(TileSideAttr attr) {
  ::kvq::RecordSide side;
  side.dim = static_cast<int>(attr.getDim());
  side.bits = static_cast<int>(attr.getBits());
  side.form = formOf(attr.getForm());
  side.group = attr.getGroup() == attr.getDim() ? 0 : static_cast<int>(attr.getGroup());
  side.element = attr.getParams().isF16()    ? ::kvq::ElementType::f16
                 : attr.getParams().isBF16() ? ::kvq::ElementType::bf16
                                             : ::kvq::ElementType::f32;
  return side;
}

} // namespace

static bool isElement(Type type) { return type.isF16() || type.isBF16() || type.isF32(); }

LogicalResult TileSideAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t dim,
                                   int64_t bits, int64_t group, StringRef form, Type params) {
  if (form != "min" && form != "zero" && form != "sym")
    return emitError() << "expects form \"min\", \"zero\" or \"sym\", got \"" << form << "\"";
  if (!isElement(params))
    return emitError() << "expects params of type f16, bf16 or f32, got " << params;
  if (dim < 1 || dim > ::kvq::kMaxHeadDim)
    return emitError() << "expects dim in 1.." << ::kvq::kMaxHeadDim << ", got " << dim;
  if (bits < 1 || bits > 8)
    return emitError() << "expects bits in 1..8, got " << bits;
  if (group < 1 || dim % group)
    return emitError() << "expects a group that divides dim = " << dim << ", got " << group;
  return success();
}

LogicalResult TileRecordAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                     TileSideAttr k, TileSideAttr v) {
  ::kvq::RecordSpec spec;
  spec.page = ::kvq::kTileTokens;
  spec.k = sideOf(k);
  spec.v = sideOf(v);
  if (std::string rule = ::kvq::verifyRecord(spec); !rule.empty())
    return emitError() << rule;
  return success();
}

::kvq::RecordSpec TileRecordAttr::getSpec() const {
  ::kvq::RecordSpec spec;
  spec.page = ::kvq::kTileTokens;
  spec.k = sideOf(getK());
  spec.v = sideOf(getV());
  return spec;
}

TileSideAttr TileRecordAttr::getSide(TileSideKind kind) const {
  return kind == TileSideKind::key ? getK() : getV();
}

LogicalResult mlir::kvq::verifyTileOp(Operation *op) {
  for (StringRef name : {"queries", "tiles"})
    if (auto count = op->getAttrOfType<IntegerAttr>(name); count && count.getInt() < 1)
      return op->emitOpError("expects ") << name << " of at least 1, got " << count.getInt();
  auto element = op->getAttrOfType<TypeAttr>("element");
  if (element && !isElement(element.getValue()))
    return op->emitOpError("expects element f16, bf16 or f32, got ") << element.getValue();
  return success();
}

static LogicalResult verifyRow(Operation *op, int64_t channels, TileRecordAttr record,
                               TileSideKind side) {
  int64_t dim = record.getSide(side).getDim();
  if (channels == dim)
    return success();
  return op->emitOpError("expects a row of ")
         << dim << " channels as the " << stringifyTileSideKind(side) << " of its record, got "
         << channels;
}

/// Partial results lie apart: outputs, maximum and sum of each query, in f32.
static LogicalResult verifyStride(Operation *op, int64_t stride, int64_t queries, int64_t dim) {
  int64_t least = 4 * queries * (dim + 2);
  if (stride % 4 == 0 && stride >= least)
    return success();
  return op->emitOpError("expects a stride that is a multiple of 4 and at least ")
         << least << " bytes, got " << stride;
}

LogicalResult TileClipOp::verify() {
  int64_t dim = getRow().getType().getDim(), scope = getScope(), index = getIndex();
  if (scope < 1 || dim % scope)
    return emitOpError("expects a scope that divides the row's ")
           << dim << " channels, got " << scope;
  if (getKind() == TileClipKind::order_statistic && (index < 0 || index >= scope))
    return emitOpError("expects an index below its scope of ") << scope << ", got " << index;
  return success();
}

LogicalResult TileStoreQueryOp::verify() {
  return verifyRow(*this, getRow().getType().getDim(), getRecord(), TileSideKind::key);
}

LogicalResult TileMergeWarpsOp::verify() {
  return verifyRow(*this, getRow().getType().getDim(), getRecord(), TileSideKind::value);
}

LogicalResult TileMergePartialsOp::verify() {
  return verifyStride(*this, getStride(), getQueries(), getRow().getType().getDim());
}

LogicalResult TileCombineOp::verify() {
  return verifyStride(*this, getStride(), getQueries(), getRow().getType().getDim());
}

LogicalResult TileHadamardOp::verify() {
  int64_t dim = getRow().getType().getDim(), order = getOrder();
  if (order < 1 || (order & (order - 1)) || dim % order)
    return emitOpError("expects an order that is a power of two and divides the row's ")
           << dim << " channels, got " << order;
  return success();
}

LogicalResult TileQuantizeOp::verify() {
  if (getSide().getDim() != getRow().getType().getDim())
    return emitOpError("expects a row of ")
           << getSide().getDim() << " channels as its side says, got "
           << getRow().getType().getDim();
  return success();
}

/// Rows of a window are stored in a type that a matrix instruction takes.
static LogicalResult verifyWindowElement(Operation *op, Type element) {
  if (element.isF16() || element.isBF16())
    return success();
  return op->emitOpError("expects window rows of f16 or bf16, got ") << element;
}

LogicalResult TileDotRowsOp::verify() { return verifyWindowElement(*this, getElement()); }
LogicalResult TileAccumulateRowsOp::verify() { return verifyWindowElement(*this, getElement()); }
LogicalResult TileWeighWindowOp::verify() { return verifyWindowElement(*this, getElement()); }
LogicalResult TileAccumulateWindowOp::verify() { return verifyWindowElement(*this, getElement()); }

void KVQDialect::registerTileOps() {
  addOperations<
#define GET_OP_LIST
#include "dialect/KVQTileOps.cpp.inc"
      >();
}
