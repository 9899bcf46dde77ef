// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQOps.h"
#include "dialect/KVQRecord.h"

using namespace mlir;
using namespace mlir::kvq;

::kvq::ElementType mlir::kvq::elementTypeOf(Type type) {
  return type.isF16()    ? ::kvq::ElementType::f16
         : type.isBF16() ? ::kvq::ElementType::bf16
                         : ::kvq::ElementType::f32;
}

static ::kvq::ParameterForm recordForm(Form form) {
  return form == Form::min_form    ? ::kvq::ParameterForm::min
         : form == Form::zero_form ? ::kvq::ParameterForm::zero
                                   : ::kvq::ParameterForm::sym;
}

::kvq::RecordSide mlir::kvq::recordSideOf(PipelineOp pipeline) {
  CodesType codes = pipeline.getPackOp().getInput().getType();
  ::kvq::RecordSide side;
  side.dim = static_cast<int>(codes.getRows().getDim());
  side.bits = static_cast<int>(codes.getBits());
  side.form = recordForm(codes.getForm());
  side.group = codes.getGroup() == side.dim ? 0 : static_cast<int>(codes.getGroup());
  side.element = elementTypeOf(codes.getParams());
  return side;
}

::kvq::RecordSpec mlir::kvq::recordSpecOf(CacheOp cache) {
  ::kvq::RecordSpec spec;
  spec.page = static_cast<int>(cache.getPage());
  spec.k = recordSideOf(cache.getKeyPipeline());
  spec.v = recordSideOf(cache.getValuePipeline());
  return spec;
}

PipelineOp CacheOp::getKeyPipeline() {
  return SymbolTable::lookupNearestSymbolFrom<PipelineOp>(*this, getKeyAttr());
}
PipelineOp CacheOp::getValuePipeline() {
  return SymbolTable::lookupNearestSymbolFrom<PipelineOp>(*this, getValueAttr());
}

LogicalResult CacheOp::verify() {
  if (getKvHeads() < 1 || getQHeads() < 1 || getQHeads() % getKvHeads())
    return emitOpError("expects q_heads to be a positive multiple of kv_heads, got q_heads = ")
           << getQHeads() << " and kv_heads = " << getKvHeads();
  if (getLayers() < 1)
    return emitOpError("expects at least one layer, got layers = ") << getLayers();
  if (getPage() < ::kvq::kTileTokens || getPage() % ::kvq::kTileTokens || getPage() > (1 << 20))
    return emitOpError("expects a page that is a multiple of 16 tokens, at most 1048576, got page = ") << getPage();
  if (int64_t(getSink()) < 0 || int64_t(getRecent()) < 0)
    return emitOpError("expects windows of 0 or more tokens, got sink = ")
           << int64_t(getSink()) << " and recent = " << int64_t(getRecent());
  return success();
}

/// The leading extents of a constant that a pipeline uses must be 1 or the cache's layers and KV heads.
static LogicalResult verifyExtents(CacheOp cache, PipelineOp pipeline, SymbolTableCollection &symbols,
                                   SymbolRefAttr ref) {
  auto constant = symbols.lookupNearestSymbolFrom<ConstantOp>(pipeline, ref);
  if (!constant)
    return success(); // the stage that uses it says so
  RankedTensorType type = constant.getTensorType();
  auto fits = [](int64_t extent, int64_t want) { return extent == 1 || extent == want; };
  if (fits(type.getDimSize(0), cache.getLayers()) && fits(type.getDimSize(1), cache.getKvHeads()))
    return success();
  InFlightDiagnostic diag = cache.emitOpError("expects constant ")
                            << ref << " for " << cache.getLayers() << " layers and " << cache.getKvHeads()
                            << " KV heads (or 1), got " << type;
  diag.attachNote(constant.getLoc()) << "the constant is here";
  return diag;
}

static LogicalResult verifyConstants(CacheOp cache, PipelineOp pipeline, SymbolTableCollection &symbols) {
  for (CenterOp op : pipeline.getBody().front().getOps<CenterOp>())
    if (failed(verifyExtents(cache, pipeline, symbols, op.getMean())))
      return failure();
  for (RotateOp op : pipeline.getBody().front().getOps<RotateOp>())
    for (Attribute factor : op.getFactors())
      if (auto dense = dyn_cast<DenseAttr>(factor))
        if (failed(verifyExtents(cache, pipeline, symbols, dense.getMatrix())))
          return failure();
  return success();
}

LogicalResult CacheOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr ref : {getKeyAttr(), getValueAttr()}) {
    auto pipeline = symbols.lookupNearestSymbolFrom<PipelineOp>(*this, ref);
    if (!pipeline)
      return emitOpError("expects ") << ref << " to name a kvq.pipeline, found none";
    // A pipeline without all its stages is refused by its own verifier.
    if (!pipeline.getRowsOp() || !pipeline.getGroupOp() || !pipeline.getRoundOp() || !pipeline.getPackOp())
      return failure();
    if (failed(verifyConstants(*this, pipeline, symbols)))
      return failure();
  }
  Type key = getKeyPipeline().getRowsOp().getType().getElement();
  Type value = getValuePipeline().getRowsOp().getType().getElement();
  if (key != value)
    return emitOpError("expects key and value rows of one element type, got ") << key << " and " << value;
  if (std::string rule = ::kvq::verifyRecord(recordSpecOf(*this)); !rule.empty())
    return emitOpError("has no legal record: ") << rule;
  return success();
}
