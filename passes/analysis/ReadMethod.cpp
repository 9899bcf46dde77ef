// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/analysis/ReadMethod.h"

#include "dialect/KVQRecord.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include <cstring>

namespace mlir::kvq {

static constexpr int64_t kConstantAlign = 64; ///< bytes

int ConstantTable::indexOf(Operation *from, SymbolRefAttr ref) {
  auto op = SymbolTable::lookupNearestSymbolFrom<ConstantOp>(from, ref);
  auto *found = llvm::find(operations, op);
  if (found != operations.end())
    return static_cast<int>(found - operations.begin());
  ::kvq::Constant constant;
  constant.name = ref.getRootReference().str();
  for (FlatSymbolRefAttr nested : ref.getNestedReferences())
    constant.name += "." + nested.getValue().str();
  ArrayRef<int64_t> shape = op.getTensorType().getShape();
  constant.shape.assign(shape.begin(), shape.end());
  list.push_back(std::move(constant));
  operations.push_back(op);
  return static_cast<int>(list.size()) - 1;
}

static ::kvq::RotationFactor readFactor(Operation *op, Attribute attr, ConstantTable &table) {
  ::kvq::RotationFactor factor;
  if (auto hadamard = dyn_cast<HadamardAttr>(attr)) {
    factor.order = static_cast<int>(hadamard.getOrder());
  } else if (auto block = dyn_cast<BlockHadamardAttr>(attr)) {
    factor.kind = ::kvq::RotationFactor::Kind::block_hadamard;
    factor.order = static_cast<int>(block.getOrder());
  } else {
    auto dense = cast<DenseAttr>(attr);
    factor.kind = ::kvq::RotationFactor::Kind::dense;
    factor.inverse = dense.getInverse();
    factor.constant = table.indexOf(op, dense.getMatrix());
  }
  return factor;
}

static ::kvq::Step readClip(ClipOp op) {
  ::kvq::Step step;
  step.kind = ::kvq::Step::Kind::clip;
  step.clip = op.getKind() == ClipKind::order_statistic ? ::kvq::Step::Clip::order_statistic
              : op.getKind() == ClipKind::ratio         ? ::kvq::Step::Clip::ratio
                                                        : ::kvq::Step::Clip::constant;
  step.value = op.getValue().convertToDouble();
  step.per_group = op.getScope() == ClipScope::group;
  return step;
}

/// The step of a stage between rows and group.
static ::kvq::Step readStep(Operation &op, ConstantTable &table) {
  if (auto clip = dyn_cast<ClipOp>(op))
    return readClip(clip);
  ::kvq::Step step;
  step.result = elementTypeOf(cast<RowsType>(op.getResult(0).getType()).getElement());
  if (auto center = dyn_cast<CenterOp>(op)) {
    step.constant = table.indexOf(&op, center.getMean());
    return step;
  }
  step.kind = ::kvq::Step::Kind::rotate;
  for (Attribute factor : cast<RotateOp>(op).getFactors())
    step.factors.push_back(readFactor(&op, factor, table));
  return step;
}

::kvq::SideMethod readSide(PipelineOp pipeline, ConstantTable &table) {
  ::kvq::SideMethod side;
  side.record = recordSideOf(pipeline);
  side.rows = elementTypeOf(pipeline.getRowsOp().getType().getElement());
  for (Operation &op : pipeline.getBody().front())
    if (isa<CenterOp, RotateOp, ClipOp>(op))
      side.steps.push_back(readStep(op, table));
  RoundOp round = pipeline.getRoundOp();
  side.round.tie = round.getTie() == Tie::half_up ? ::kvq::RoundRule::Tie::half_up
                                                  : ::kvq::RoundRule::Tie::half_even;
  side.round.source = round.getSource() == ParamSource::stored ? ::kvq::RoundRule::Source::stored
                                                               : ::kvq::RoundRule::Source::exact;
  return side;
}

bool rotatesOutputBack(FusedAttentionOp attention) {
  return attention.getType().isModelRows() ||
         llvm::any_of(attention.getResult().getUsers(), [](Operation *user) {
           auto rotate = dyn_cast<RotateOp>(user);
           return rotate && rotate.getType().isModelRows();
         });
}

static ::kvq::AttentionMethod readAttention(CacheOp cache, FusedAttentionOp attention) {
  ::kvq::AttentionMethod method;
  method.scale = static_cast<float>(attention.getScale().convertToDouble());
  method.causal = attention.getCausal();
  auto rotate = attention.getQuery().getDefiningOp<RotateOp>();
  bool rotatedKeys = !cache.getKeyPipeline().getStoredRows().getBasis().empty();
  method.rotate_query = !rotatedKeys || rotate;
  method.unrotate_output = rotatesOutputBack(attention);
  RowsType rows = rotate ? rotate.getInput().getType() : attention.getQuery().getType();
  method.rows = elementTypeOf(rows.getElement());
  if (std::optional<APFloat> softcap = attention.getSoftcap())
    method.softcap = static_cast<float>(softcap->convertToDouble());
  if (std::optional<uint64_t> window = attention.getWindow())
    method.window = static_cast<int>(std::min<uint64_t>(*window, INT32_MAX));
  return method;
}

/// What a method holds of constants: those of the sides, then the learned sinks.
static void readConstants(::kvq::CacheMethod &method, CacheOp cache, FusedAttentionOp attention,
                          ConstantTable &table) {
  method.key = readSide(cache.getKeyPipeline(), table);
  method.value = readSide(cache.getValuePipeline(), table);
  if (SymbolRefAttr sinks = attention.getSinksAttr())
    method.attention.sinks = table.indexOf(attention, sinks);
  method.constants = table.constants();
}

/// Layers and heads in full, and offsets one after the other.
static void layOutConstants(::kvq::CacheMethod &method) {
  int64_t offset = 0;
  for (auto [index, constant] : llvm::enumerate(method.constants)) {
    const bool sinks = static_cast<int>(index) == method.attention.sinks;
    constant.shape[0] = method.layers;
    constant.shape[1] = sinks ? method.q_heads : method.kv_heads;
    constant.offset = offset;
    int64_t bytes = sizeof(float);
    for (int64_t extent : constant.shape)
      bytes *= extent;
    offset += ::kvq::layout_detail::roundUp(bytes, kConstantAlign);
  }
}

FailureOr<::kvq::CacheMethod> readMethod(CacheOp cache, FusedAttentionOp attention) {
  if (attention.getQLen() > 16)
    return attention.emitOpError("expects q_len of 1 to 16, got ") << attention.getQLen();
  ::kvq::CacheMethod method;
  method.name = cache.getSymName().str();
  method.q_heads = static_cast<int>(cache.getQHeads());
  method.kv_heads = static_cast<int>(cache.getKvHeads());
  method.layers = static_cast<int>(cache.getLayers());
  method.page = static_cast<int>(cache.getPage());
  method.sink = static_cast<int>(cache.getSink());
  method.recent = static_cast<int>(cache.getRecent());
  method.attention = readAttention(cache, attention);
  ConstantTable table;
  readConstants(method, cache, attention, table);
  layOutConstants(method);
  return method;
}

FailureOr<SmallVector<float>> constantValues(ConstantOp constant) {
  if (!constant.getValue())
    return constant.emitOpError("has no value; read a calibration file with "
                                "kvq-import-calibration, or give a value");
  if (auto dense = dyn_cast<DenseElementsAttr>(*constant.getValue()))
    return llvm::to_vector(dense.getValues<float>());
  // The verifier of kvq.constant has seen to the form and the size.
  auto resource = cast<DenseResourceElementsAttr>(*constant.getValue());
  return llvm::to_vector(resource.getRawHandle().getBlob()->getDataAs<float>());
}

/// Copies `values` of shape `from` to shape `to`, which differs in leading extents of 1.
static void broadcast(ArrayRef<float> values, ArrayRef<int64_t> from, ArrayRef<int64_t> to,
                      char *out) {
  int64_t inner = 1;
  for (int64_t extent : to.drop_front(2))
    inner *= extent;
  for (int64_t layer = 0; layer < to[0]; ++layer)
    for (int64_t head = 0; head < to[1]; ++head) {
      int64_t source = (from[0] == 1 ? 0 : layer) * from[1] + (from[1] == 1 ? 0 : head);
      std::memcpy(out + (layer * to[1] + head) * inner * sizeof(float),
                  values.data() + source * inner, inner * sizeof(float));
    }
}

LogicalResult packConstants(const ::kvq::CacheMethod &method, CacheOp cache,
                            FusedAttentionOp attention, std::vector<char> &blob) {
  ::kvq::CacheMethod again;
  ConstantTable table;
  readConstants(again, cache, attention, table);
  blob.clear();
  for (auto [constant, entry] : llvm::zip_equal(method.constants, table.ops())) {
    ConstantOp op = entry;
    FailureOr<SmallVector<float>> values = constantValues(op);
    if (failed(values))
      return failure();
    int64_t count = 1;
    for (int64_t extent : constant.shape)
      count *= extent;
    blob.resize(constant.offset +
                ::kvq::layout_detail::roundUp(count * sizeof(float), kConstantAlign));
    broadcast(*values, op.getTensorType().getShape(), constant.shape,
              blob.data() + constant.offset);
  }
  return success();
}

} // namespace mlir::kvq
