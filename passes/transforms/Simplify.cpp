// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Passes.h"
#include "passes/analysis/ReadMethod.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"

#include "llvm/Support/FormatVariadic.h"

namespace mlir::kvq {

#define GEN_PASS_DEF_SIMPLIFY
#include "passes/Passes.h.inc"

namespace {

/// What a matrix does to the channels of a row.
enum class MatrixKind : uint8_t { identity, permutation, general };

MatrixKind kindOfMatrix(ArrayRef<float> matrix, int64_t dim) {
  MatrixKind kind = MatrixKind::identity;
  SmallVector<bool> taken(dim, false);
  for (int64_t row = 0; row < dim; ++row) {
    ArrayRef<float> entries = matrix.slice(row * dim, dim);
    const float *one = llvm::find(entries, 1.0f);
    if (one == entries.end() || llvm::count(entries, 0.0f) != dim - 1 ||
        taken[one - entries.begin()])
      return MatrixKind::general;
    taken[one - entries.begin()] = true;
    if (one - entries.begin() != row)
      kind = MatrixKind::permutation;
  }
  return kind;
}

/// The most general kind among the matrices of all layers and heads; general without a value.
MatrixKind kindOfConstant(ConstantOp constant) {
  if (!constant.getValue())
    return MatrixKind::general;
  FailureOr<SmallVector<float>> values = constantValues(constant);
  int64_t dim = constant.getTensorType().getShape().back();
  MatrixKind kind = MatrixKind::identity;
  for (size_t at = 0; succeeded(values) && at < values->size(); at += dim * dim)
    kind = std::max(kind, kindOfMatrix(ArrayRef<float>(*values).slice(at, dim * dim), dim));
  return succeeded(values) ? kind : MatrixKind::general;
}

/// Simplifies one pipeline. The chain of stages stays linear: each rewrite replaces a stage by its
/// operand or edits it in place, and the types behind it are inferred again.
class PipelineSimplifier {
public:
  explicit PipelineSimplifier(PipelineOp pipeline) : pipeline(pipeline) {}

  void run() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (Operation &stage : llvm::make_early_inc_range(pipeline.getBody().front()))
        changed |= simplify(stage);
      if (changed)
        inferTypes();
    }
    for (RotateOp op : pipeline.getBody().front().getOps<RotateOp>())
      explainKept(op);
  }

private:
  PipelineOp pipeline;

  bool simplify(Operation &stage) {
    if (auto rotate = dyn_cast<RotateOp>(stage))
      return simplifyFactors(rotate) || dropEmpty(rotate) || mergeIntoBefore(rotate);
    if (auto center = dyn_cast<CenterOp>(stage))
      return isZero(center) && center.getType().getElement() == elementBefore(center) &&
             drop(&stage);
    if (auto clip = dyn_cast<ClipOp>(stage))
      return clip.getKind() != ClipKind::constant && clip.getValue().convertToDouble() == 1.0 &&
             drop(&stage);
    return false;
  }

  static bool drop(Operation *stage) {
    stage->getResult(0).replaceAllUsesWith(stage->getOperand(0));
    stage->erase();
    return true;
  }

  static Type elementBefore(Operation *stage) {
    return cast<RowsType>(stage->getOperand(0).getType()).getElement();
  }

  static bool isZero(CenterOp op) {
    auto constant = SymbolTable::lookupNearestSymbolFrom<ConstantOp>(op, op.getMean());
    if (!constant || !constant.getValue())
      return false;
    FailureOr<SmallVector<float>> values = constantValues(constant);
    return succeeded(values) && llvm::all_of(*values, [](float value) { return value == 0; });
  }

  /// Cancels neighbours and drops inert factors.
  bool simplifyFactors(RotateOp op) {
    ArrayAttr none = ArrayAttr::get(op.getContext(), {});
    SmallVector<Attribute> kept;
    ArrayAttr reduced = composeBasis(none, op.getFactors());
    for (auto [i, factor] : llvm::enumerate(reduced))
      if (!isInert(op, factor, i + 1 == reduced.size()))
        kept.push_back(factor);
    // A drop can make two factors neighbours.
    reduced = composeBasis(none, ArrayAttr::get(op.getContext(), kept));
    if (reduced == op.getFactors())
      return false;
    op.setFactorsAttr(reduced);
    return true;
  }

  bool isInert(RotateOp op, Attribute factor, bool last) {
    auto dense = dyn_cast<DenseAttr>(factor);
    if (!dense)
      return false;
    MatrixKind kind =
        kindOfConstant(SymbolTable::lookupNearestSymbolFrom<ConstantOp>(op, dense.getMatrix()));
    if (kind == MatrixKind::permutation)
      return last && nothingButClipFollows(op);
    return kind == MatrixKind::identity;
  }

  /// With one group per row, the order of the channels reaches nothing but the order of the codes.
  bool nothingButClipFollows(RotateOp op) {
    Operation *next = op->getNextNode();
    if (isa<ClipOp>(next))
      next = next->getNextNode();
    auto group = dyn_cast<GroupOp>(next);
    return group && static_cast<int64_t>(group.getSize()) == op.getType().getDim();
  }

  /// A rotation by nothing only rounds. A stage before it that did not round can round instead.
  bool dropEmpty(RotateOp op) {
    if (!op.getFactors().empty())
      return false;
    Type element = op.getType().getElement();
    if (element == elementBefore(op))
      return drop(op);
    Operation *before = op.getInput().getDefiningOp();
    if (!elementBefore(op).isF32() || !isa<CenterOp, RotateOp>(before))
      return false;
    setElement(before, element);
    return drop(op);
  }

  /// x R S, without a rounding between R and S.
  bool mergeIntoBefore(RotateOp op) {
    auto before = op.getInput().getDefiningOp<RotateOp>();
    if (!before || !before.getType().getElement().isF32())
      return false;
    op.setFactorsAttr(composeBasis(before.getFactors(), op.getFactors()));
    Type element = op.getType().getElement();
    op.getInputMutable().assign(before.getInput());
    before.erase();
    setElement(op, element);
    return true;
  }

  /// Sets the element type of a stage's result; it is spelled out only where it differs from the
  /// operand's.
  static void setElement(Operation *stage, Type element) {
    TypeAttr attr = element == elementBefore(stage) ? TypeAttr() : TypeAttr::get(element);
    if (auto center = dyn_cast<CenterOp>(stage))
      center.setElementAttr(attr);
    else
      cast<RotateOp>(stage).setElementAttr(attr);
  }

  void inferTypes() {
    for (Operation &stage : pipeline.getBody().front()) {
      auto infer = dyn_cast<InferTypeOpInterface>(stage);
      SmallVector<Type> types;
      if (infer &&
          succeeded(infer.inferReturnTypes(stage.getContext(), stage.getLoc(), stage.getOperands(),
                                           stage.getAttrDictionary(), stage.getPropertiesStorage(),
                                           stage.getRegions(), types)))
        stage.getResult(0).setType(types.front());
    }
  }

  static void explainKept(RotateOp op) {
    auto before = op.getInput().getDefiningOp<RotateOp>();
    if (!before)
      return;
    remark::missed(op.getLoc(), remark::RemarkOpts::name("rotate").category("kvq-simplify"))
        << llvm::formatv("not merged with the rotation before it, which rounds to {0}; 'as f32' "
                         "there would allow it",
                         before.getType().getElement())
               .str();
  }
};

struct Simplify : impl::SimplifyBase<Simplify> {
  void runOnOperation() override {
    DenseSet<Operation *> placed;
    getOperation().walk([&](FusedAttentionOp op) {
      auto cache = SymbolTable::lookupNearestSymbolFrom<CacheOp>(op, op.getCacheAttr());
      placed.insert(cache.getKeyPipeline());
      placed.insert(cache.getValuePipeline());
    });
    getOperation().walk([&](PipelineOp pipeline) {
      if (!placed.contains(pipeline))
        PipelineSimplifier(pipeline).run();
    });
  }
};

} // namespace
} // namespace mlir::kvq
