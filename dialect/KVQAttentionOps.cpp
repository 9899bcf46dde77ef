// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialect/KVQBasis.h"
#include "dialect/KVQOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::kvq;

/// What both attention ops ask of their attributes.
template <typename OpTy> static LogicalResult verifyModifiers(OpTy op) {
  double scale = op.getScale().convertToDouble();
  if (!(scale > 0) || std::isinf(scale))
    return op.emitOpError("expects a scale that is positive and finite, got ") << scale;
  if (op.getSoftcap() && !(op.getSoftcap()->convertToDouble() > 0))
    return op.emitOpError("expects a positive softcap, got ") << op.getSoftcap()->convertToDouble();
  if (op.getWindow() && int64_t(*op.getWindow()) < 1)
    return op.emitOpError("expects a window of at least 1 token, got ") << int64_t(*op.getWindow());
  if (int64_t(op.getQLen()) < 1)
    return op.emitOpError("expects q_len of at least 1, got ") << int64_t(op.getQLen());
  return success();
}

/// The cache, its key and value pipelines; a diagnostic when the cache is missing.
template <typename OpTy> static FailureOr<CacheOp> lookupCache(OpTy op, SymbolTableCollection &symbols) {
  auto cache = symbols.lookupNearestSymbolFrom<CacheOp>(op, op.getCacheAttr());
  if (!cache)
    return op.emitOpError("expects ") << op.getCacheAttr() << " to name a kvq.cache, found none";
  if (!cache.getKeyPipeline() || !cache.getValuePipeline() || !cache.getKeyPipeline().getGroupOp() ||
      !cache.getValuePipeline().getGroupOp())
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

/// Learned sinks: a constant [layers, q_heads, 1].
template <typename OpTy> static LogicalResult verifySinks(OpTy op, SymbolTableCollection &symbols) {
  if (op.getSinksAttr() && !symbols.lookupNearestSymbolFrom<ConstantOp>(op, op.getSinksAttr()))
    return op.emitOpError("expects sinks ") << op.getSinksAttr() << " to name a kvq.constant, found none";
  return success();
}

LogicalResult AttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<CacheOp> cache = lookupCache(*this, symbols);
  if (failed(cache) || failed(verifySinks(*this, symbols)))
    return failure();
  return verifyDims(*this, *cache);
}

LogicalResult FusedAttentionOp::verify() {
  if (ArrayAttr folding = getFoldingAttr())
    for (Attribute entry : folding)
      if (!isa<FoldAttr>(entry))
        return emitOpError("expects #kvq.fold entries in folding, got ") << entry;
  return verifyModifiers(*this);
}

/// One side of the basis proof: rows beside the rows that a pipeline stores.
static LogicalResult verifyBasis(FusedAttentionOp op, PipelineOp pipeline, RowsType rows, StringRef what,
                                 StringRef side) {
  ArrayAttr stored = pipeline.getStoredRows().getBasis();
  if (rows.getBasis() == stored)
    return success();
  InFlightDiagnostic diag = op.emitOpError("expects its ")
                            << what << " in the basis of the " << side << " rows, " << pipeline.getStoredRows()
                            << ", got " << rows;
  diag.attachNote(pipeline.getLoc()) << "the " << side << " rows are stored here";
  return diag;
}

LogicalResult FusedAttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<CacheOp> cache = lookupCache(*this, symbols);
  if (failed(cache) || failed(verifySinks(*this, symbols)) || failed(verifyDims(*this, *cache)))
    return failure();
  PipelineOp key = cache->getKeyPipeline(), value = cache->getValuePipeline();
  if (failed(verifyBasis(*this, key, getQuery().getType(), "query", "key")) ||
      failed(verifyBasis(*this, value, getType(), "result", "value")))
    return failure();
  if (!key.getStoredRows().getCenter().empty() && getSoftcap() && !getAddKeyMean()) {
    InFlightDiagnostic diag = emitOpError("expects add_key_mean: a softcap is not invariant to the key mean");
    diag.attachNote(key.getLoc()) << "the key rows are centred here";
    return diag;
  }
  if (!value.getStoredRows().getCenter().empty() && !getAddValueMean()) {
    InFlightDiagnostic diag = emitOpError("expects add_value_mean: the value rows are centred");
    diag.attachNote(value.getLoc()) << "the value rows are centred here";
    return diag;
  }
  return success();
}

