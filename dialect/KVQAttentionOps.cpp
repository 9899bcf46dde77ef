// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQBasis.h"
#include "dialect/KVQOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::kvq;

/// What both attention ops ask of their attributes. Comparisons are written so that a NaN fails.
template <typename OpTy> static LogicalResult verifyModifiers(OpTy op) {
  double scale = op.getScale().convertToDouble();
  if (!(scale > 0) || std::isinf(scale))
    return op.emitOpError("expects a scale that is positive and finite, got ") << scale;
  double softcap = op.getSoftcap() ? op.getSoftcap()->convertToDouble() : 1;
  if (!(softcap > 0) || std::isinf(softcap))
    return op.emitOpError("expects a softcap that is positive and finite, got ") << softcap;
  if (op.getWindowAttr() && op.getWindowAttr().getInt() < 1)
    return op.emitOpError("expects a window of at least 1 token, got ")
           << op.getWindowAttr().getInt();
  if (op.getQLenAttr().getInt() < 1)
    return op.emitOpError("expects q_len of at least 1, got ") << op.getQLenAttr().getInt();
  return success();
}

/// The cache, its key and value pipelines; a diagnostic when the cache is missing.
template <typename OpTy>
static FailureOr<CacheOp> lookupCache(OpTy op, SymbolTableCollection &symbols) {
  auto cache = symbols.lookupNearestSymbolFrom<CacheOp>(op, op.getCacheAttr());
  if (!cache)
    return op.emitOpError("expects ") << op.getCacheAttr() << " to name a kvq.cache, found none";
  if (!cache.getKeyPipeline() || !cache.getValuePipeline() ||
      !cache.getKeyPipeline().getGroupOp() || !cache.getValuePipeline().getGroupOp())
    return failure(); // the cache or the pipeline says what is wrong
  return cache;
}

template <typename OpTy> static LogicalResult verifyDims(OpTy op, CacheOp cache) {
  int64_t key = cache.getKeyPipeline().getStoredRows().getDim();
  int64_t value = cache.getValuePipeline().getStoredRows().getDim();
  if (op.getQuery().getType().getDim() == key && op.getType().getDim() == value)
    return success();
  InFlightDiagnostic diag = op.emitOpError("expects a query of head dim ")
                            << key << " and a result of head dim " << value << ", got "
                            << op.getQuery().getType().getDim() << " and " << op.getType().getDim();
  diag.attachNote(cache.getLoc()) << "the cache is here";
  return diag;
}

LogicalResult AttentionOp::verify() {
  if (!getQuery().getType().isModelRows() || !getType().isModelRows())
    return emitOpError("expects query and result in the model's own basis, got ")
           << getQuery().getType() << " and " << getType();
  return verifyModifiers(*this);
}

/// Learned sinks: a constant [layers, q_heads, 1]; one layer serves all.
template <typename OpTy>
static LogicalResult verifySinks(OpTy op, CacheOp cache, SymbolTableCollection &symbols) {
  SymbolRefAttr ref = op.getSinksAttr();
  if (!ref)
    return success();
  auto constant = symbols.lookupNearestSymbolFrom<ConstantOp>(op, ref);
  if (!constant)
    return op.emitOpError("expects sinks ") << ref << " to name a kvq.constant, found none";
  int64_t layers = cache.getLayers(), heads = cache.getQHeads();
  ArrayRef<int64_t> shape = constant.getTensorType().getShape();
  if (shape == ArrayRef<int64_t>{layers, heads, 1} || shape == ArrayRef<int64_t>{1, heads, 1})
    return success();
  InFlightDiagnostic diag = op.emitOpError("expects sinks ")
                            << ref << " of shape [" << layers << " or 1, " << heads << ", 1], got "
                            << constant.getTensorType();
  diag.attachNote(constant.getLoc()) << "the constant is here";
  return diag;
}

LogicalResult AttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<CacheOp> cache = lookupCache(*this, symbols);
  if (failed(cache) || failed(verifySinks(*this, *cache, symbols)))
    return failure();
  return verifyDims(*this, *cache);
}

LogicalResult FusedAttentionOp::verify() {
  if (!getQuery().getType().getCenter().empty() || !getType().getCenter().empty())
    return emitOpError("expects query and result without center, got ")
           << getQuery().getType() << " and " << getType();
  if (ArrayAttr folding = getFoldingAttr())
    for (Attribute entry : folding)
      if (!isa<FoldAttr>(entry))
        return emitOpError("expects #kvq.fold entries in folding, got ") << entry;
  return verifyModifiers(*this);
}

/// One side of the basis proof: rows beside the rows that a pipeline stores.
static LogicalResult verifyBasis(FusedAttentionOp op, PipelineOp pipeline, RowsType rows,
                                 StringRef what, StringRef side) {
  ArrayAttr stored = pipeline.getStoredRows().getBasis();
  if (rows.getBasis() == stored)
    return success();
  InFlightDiagnostic diag = op.emitOpError("expects its ")
                            << what << " in the basis of the " << side << " rows, "
                            << pipeline.getStoredRows() << ", got " << rows;
  diag.attachNote(pipeline.getLoc()) << "the " << side << " rows are stored here";
  return diag;
}

/// An error about a mean, with a note at the pipeline whose rows have one or not.
static LogicalResult meanError(FusedAttentionOp op, const Twine &text, PipelineOp pipeline,
                               StringRef side) {
  bool centred = !pipeline.getStoredRows().getCenter().empty();
  InFlightDiagnostic diag = op.emitOpError() << text;
  diag.attachNote(pipeline.getLoc())
      << "the " << side << " rows are " << (centred ? "" : "not ") << "centred here";
  return diag;
}

/// The logits of centred keys lack scale q.mu, which softmax alone ignores.
static LogicalResult verifyKeyMean(FusedAttentionOp op, PipelineOp key) {
  bool centred = !key.getStoredRows().getCenter().empty();
  if (!centred && (op.getAddKeyMean() || op.getFixLse()))
    return meanError(op, "expects neither add_key_mean nor fix_lse: there is no key mean", key,
                     "key");
  if (op.getAddKeyMean() && op.getFixLse())
    return meanError(op, "expects add_key_mean or fix_lse, not both: the mean would count twice",
                     key, "key");
  if (!centred || op.getAddKeyMean())
    return success();
  if (op.getSoftcap())
    return meanError(op, "expects add_key_mean: a softcap is not invariant to the key mean", key,
                     "key");
  if (op.getSinksAttr() && !op.getFixLse())
    return meanError(op, "expects fix_lse: a learned sink is not shifted by the key mean", key,
                     "key");
  return success();
}

static LogicalResult verifyValueMean(FusedAttentionOp op, PipelineOp value) {
  bool centred = !value.getStoredRows().getCenter().empty();
  if (centred && !op.getAddValueMean())
    return meanError(op, "expects add_value_mean: the output lacks the value mean", value, "value");
  if (!centred && op.getAddValueMean())
    return meanError(op, "expects no add_value_mean: there is no value mean", value, "value");
  return success();
}

LogicalResult FusedAttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<CacheOp> cache = lookupCache(*this, symbols);
  if (failed(cache) || failed(verifySinks(*this, *cache, symbols)) ||
      failed(verifyDims(*this, *cache)))
    return failure();
  PipelineOp key = cache->getKeyPipeline(), value = cache->getValuePipeline();
  if (failed(verifyBasis(*this, key, getQuery().getType(), "query", "key")) ||
      failed(verifyBasis(*this, value, getType(), "result", "value")))
    return failure();
  return failure(failed(verifyKeyMean(*this, key)) || failed(verifyValueMean(*this, value)));
}
