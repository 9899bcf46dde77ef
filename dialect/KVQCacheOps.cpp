// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQOps.h"
#include "dialect/KVQRecord.h"

#include "mlir/IR/BuiltinOps.h"

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

SmallVector<int64_t> CacheOp::getModelLayers() {
  if (getAt())
    return SmallVector<int64_t>(*getAt());
  return llvm::to_vector(llvm::seq<int64_t>(0, getLayers()));
}

static constexpr int64_t kMaxHeads = 65536; ///< also layers
static constexpr int64_t kMaxTokens = 1 << 20;

/// An attribute within bounds. Accessors read signless attributes as unsigned: a negative number
/// would be a huge one.
static LogicalResult verifyCount(CacheOp op, StringRef name, IntegerAttr attr, int64_t low,
                                 int64_t high) {
  if (attr.getInt() >= low && attr.getInt() <= high)
    return success();
  return op.emitOpError("expects ")
         << name << " of " << low << " to " << high << ", got " << attr.getInt();
}

/// The layers of the model that the cache names.
static LogicalResult verifyModelLayers(CacheOp op) {
  if (!op.getAt())
    return success();
  ArrayRef<int64_t> at = *op.getAt();
  if (static_cast<int64_t>(at.size()) != op.getLayersAttr().getInt())
    return op.emitOpError("expects at to name ")
           << op.getLayersAttr().getInt() << " layers of the model, got " << at.size();
  llvm::SmallDenseSet<int64_t> seen;
  for (int64_t layer : at) {
    if (layer < 0 || layer >= kMaxHeads)
      return op.emitOpError("expects at to name layers of 0 to ")
             << kMaxHeads - 1 << ", got " << layer;
    if (!seen.insert(layer).second)
      return op.emitOpError("expects at to name each layer once, got ") << layer << " twice";
  }
  return success();
}

LogicalResult CacheOp::verify() {
  if (failed(verifyCount(*this, "q_heads", getQHeadsAttr(), 1, kMaxHeads)) ||
      failed(verifyCount(*this, "kv_heads", getKvHeadsAttr(), 1, kMaxHeads)) ||
      failed(verifyCount(*this, "layers", getLayersAttr(), 1, kMaxHeads)) ||
      failed(verifyCount(*this, "page", getPageAttr(), ::kvq::kTileTokens, kMaxTokens)) ||
      failed(verifyCount(*this, "sink", getSinkAttr(), 0, kMaxTokens)) ||
      failed(verifyCount(*this, "recent", getRecentAttr(), 0, kMaxTokens)))
    return failure();
  if (getQHeads() % getKvHeads())
    return emitOpError("expects q_heads to be a multiple of kv_heads, got q_heads = ")
           << getQHeads() << " and kv_heads = " << getKvHeads();
  if (getPage() % ::kvq::kTileTokens)
    return emitOpError("expects a page that is a multiple of ")
           << ::kvq::kTileTokens << " tokens, got page = " << getPage();
  return verifyModelLayers(*this);
}

/// The layers must be ones of the model.
static LogicalResult verifyWithinModel(CacheOp cache) {
  auto module = cache->getParentOfType<ModuleOp>();
  auto layers = module ? module->getAttrOfType<IntegerAttr>("kvq.layers") : nullptr;
  if (!layers)
    return success();
  for (int64_t layer : cache.getModelLayers())
    if (layer >= layers.getInt()) {
      InFlightDiagnostic diag = cache.emitOpError("expects layers below the ")
                                << layers.getInt() << " of the model, got " << layer;
      diag.attachNote(module.getLoc()) << "the model is here";
      return diag;
    }
  return success();
}

/// The leading extents of a constant that a pipeline uses must be 1 or the cache's layers and KV
/// heads.
static LogicalResult verifyExtents(CacheOp cache, PipelineOp pipeline,
                                   SymbolTableCollection &symbols, SymbolRefAttr ref) {
  auto constant = symbols.lookupNearestSymbolFrom<ConstantOp>(pipeline, ref);
  if (!constant)
    return success(); // the stage that uses it says so
  RankedTensorType type = constant.getTensorType();
  auto fits = [](int64_t extent, int64_t want) { return extent == 1 || extent == want; };
  if (fits(type.getDimSize(0), cache.getLayers()) && fits(type.getDimSize(1), cache.getKvHeads()))
    return success();
  InFlightDiagnostic diag = cache.emitOpError("expects constant ")
                            << ref << " for " << cache.getLayers() << " layers and "
                            << cache.getKvHeads() << " KV heads (or 1), got " << type;
  diag.attachNote(constant.getLoc()) << "the constant is here";
  return diag;
}

static LogicalResult verifyConstants(CacheOp cache, PipelineOp pipeline,
                                     SymbolTableCollection &symbols) {
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

/// A planned record is the one that pipelines and page lead to today.
static LogicalResult verifyPlan(CacheOp cache) {
  RecordAttr record = cache.getRecordAttr();
  if (!record)
    return success();
  ::kvq::RecordLayout layout = ::kvq::buildRecord(recordSpecOf(cache));
  auto bits = FloatAttr::get(Float64Type::get(cache.getContext()), ::kvq::bitsPerElement(layout));
  auto planned = RecordAttr::get(cache.getContext(), layout.bytes, layout.stride, bits);
  if (record == planned)
    return success();
  return cache.emitOpError("expects ") << planned << " for its pipelines and page, got " << record
                                       << "; leave it out and kvq-plan-layout plans it";
}

LogicalResult CacheOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr ref : {getKeyAttr(), getValueAttr()}) {
    auto pipeline = symbols.lookupNearestSymbolFrom<PipelineOp>(*this, ref);
    if (!pipeline)
      return emitOpError("expects ") << ref << " to name a kvq.pipeline, found none";
    // A pipeline without all its stages is refused by its own verifier.
    if (!pipeline.getRowsOp() || !pipeline.getGroupOp() || !pipeline.getRoundOp() ||
        !pipeline.getPackOp())
      return failure();
    if (failed(verifyConstants(*this, pipeline, symbols)))
      return failure();
  }
  Type key = getKeyPipeline().getRowsOp().getType().getElement();
  Type value = getValuePipeline().getRowsOp().getType().getElement();
  if (key != value)
    return emitOpError("expects key and value rows of one element type, got ")
           << key << " and " << value;
  if (std::string rule = ::kvq::verifyRecord(recordSpecOf(*this)); !rule.empty())
    return emitOpError("has no legal record: ") << rule;
  if (failed(verifyWithinModel(*this)))
    return failure();
  return verifyPlan(*this);
}
