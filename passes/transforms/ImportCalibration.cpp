// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "dialect/KVQ.h"
#include "passes/Passes.h"
#include "runtime/format/safetensors.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include "llvm/Support/JSON.h"

#include <cmath>
#include <cstring>
#include <map>

namespace mlir::kvq {

#define GEN_PASS_DEF_IMPORTCALIBRATION
#include "passes/Passes.h.inc"

namespace {

constexpr double kOrthogonality = 1e-3; ///< largest entry of R R^T - I

/// Tensors of one source, by their layers.
std::map<unsigned, const ::kvq::TensorView *> layersOf(const ::kvq::Safetensors &file,
                                                       StringRef source) {
  std::map<unsigned, const ::kvq::TensorView *> found;
  for (const ::kvq::TensorView &tensor : file.tensors()) {
    StringRef name = tensor.name;
    unsigned layer = 0;
    if (name.consume_front("layers.") && !name.consumeInteger(10, layer) &&
        name.consume_front(".") && name == source)
      found[layer] = &tensor;
  }
  return found;
}

/// Whether a stage of `pipeline` uses `constant`.
bool uses(PipelineOp pipeline, ConstantOp constant) {
  auto names = [&](Operation &op, SymbolRefAttr ref) {
    return SymbolTable::lookupNearestSymbolFrom<ConstantOp>(&op, ref) == constant;
  };
  return llvm::any_of(pipeline.getBody().front(), [&](Operation &op) {
    if (auto center = dyn_cast<CenterOp>(op))
      return names(op, center.getMean());
    auto rotate = dyn_cast<RotateOp>(op);
    return rotate && llvm::any_of(rotate.getFactors(), [&](Attribute factor) {
             auto dense = dyn_cast<DenseAttr>(factor);
             return dense && names(op, dense.getMatrix());
           });
  });
}

/// Whether `constant` holds the learned sinks of an attention over `cache`.
bool holdsSinks(CacheOp cache, ConstantOp constant) {
  auto reads = [&](auto attention) {
    return attention && attention.getSinksAttr() &&
           SymbolTable::lookupNearestSymbolFrom(attention, attention.getCacheAttr()) == cache &&
           SymbolTable::lookupNearestSymbolFrom(attention, attention.getSinksAttr()) == constant;
  };
  WalkResult walk = cache->getParentOfType<ModuleOp>().walk([&](Operation *op) {
    const bool found = reads(dyn_cast<AttentionOp>(op)) || reads(dyn_cast<FusedAttentionOp>(op));
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return walk.wasInterrupted();
}

/// The largest entry of |R R^T - I|.
double orthogonalityError(ArrayRef<float> matrix, int64_t dim) {
  double worst = 0;
  for (int64_t i = 0; i < dim; ++i)
    for (int64_t j = i; j < dim; ++j) {
      double sum = i == j ? -1 : 0;
      for (int64_t k = 0; k < dim; ++k)
        sum += static_cast<double>(matrix[i * dim + k]) * matrix[j * dim + k];
      worst = std::max(worst, std::fabs(sum));
    }
  return worst;
}

std::string indexText(ArrayRef<int64_t> shape, int64_t flat) {
  std::string text;
  for (int64_t extent : llvm::reverse(shape)) {
    text.insert(0, std::to_string(flat % extent) + (text.empty() ? "" : ", "));
    flat /= extent;
  }
  return "[" + text + "]";
}

/// Reads one calibration file for the constants of a module.
class Importer {
public:
  Importer(ModuleOp module, StringRef file) : module(module), file(file) {}

  LogicalResult run() {
    if (failed(open()))
      return failure();
    // Read everything first: a refused module is left as it was.
    SmallVector<std::pair<ConstantOp, SmallVector<float>>> read;
    WalkResult result = module.walk([&](ConstantOp op) {
      if (!op.getSource() || op.getValue())
        return WalkResult::advance();
      FailureOr<SmallVector<float>> values = import(op);
      if (failed(values))
        return WalkResult::interrupt();
      read.push_back({op, std::move(*values)});
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return failure();
    for (auto &[op, values] : read)
      op.setValueAttr(DenseResourceElementsAttr::get(
          op.getTensorType(), blobName(op),
          HeapAsmResourceBlob::allocateAndCopyInferAlign<float>(values)));
    return success();
  }

private:
  ModuleOp module;
  StringRef file;
  ::kvq::Safetensors calibration;

  std::string blobName(ConstantOp op) {
    auto table = cast<ConstantsOp>(op->getParentOp());
    return (table.getSymName() + "." + op.getSymName()).str();
  }

  LogicalResult refuse(const Twine &reason) {
    return module.emitError("cannot read calibration '") << file << "': " << reason;
  }

  LogicalResult open() {
    if (file.empty())
      return module.emitError("kvq-import-calibration expects the option file, a calibration file");
    if (std::string error = ::kvq::Safetensors::open(file.str(), calibration); !error.empty())
      return refuse(error);
    auto entry = calibration.metadata().find("kvq_calibration");
    if (entry == calibration.metadata().end())
      return refuse("expected the metadata key kvq_calibration, found none");
    llvm::Expected<llvm::json::Value> document = llvm::json::parse(entry->second);
    if (!document)
      return refuse("metadata kvq_calibration is no JSON: " + llvm::toString(document.takeError()));
    const llvm::json::Object *object = document->getAsObject();
    std::optional<StringRef> expected;
    if (object)
      expected = object->getString("sha256");
    if (!expected)
      return refuse("metadata kvq_calibration has no string sha256, the digest of the tensors");
    std::string got = ::kvq::tensorDigest(calibration.tensors());
    if (*expected != got)
      return refuse("the digest of its tensors is " + got + ", expected " + *expected +
                    " by its metadata");
    return success();
  }

  /// The file's tensors of a constant, stacked; or a diagnostic that names both places.
  FailureOr<SmallVector<float>> import(ConstantOp op) {
    auto found = layersOf(calibration, *op.getSource());
    if (found.empty())
      return op.emitOpError("expects tensors 'layers.{i}.")
             << *op.getSource() << "' in calibration '" << file << "', found none";
    FailureOr<SmallVector<const ::kvq::TensorView *>> tensors = chooseLayers(op, found);
    if (failed(tensors))
      return failure();
    SmallVector<float> values;
    for (const ::kvq::TensorView *tensor : *tensors)
      if (failed(append(op, *tensor, values)))
        return failure();
    return values;
  }

  /// The caches whose pipelines or attention use `op` and that say at which layers of the model
  /// they serve; they must agree.
  FailureOr<CacheOp> cacheWithLayers(ConstantOp op) {
    CacheOp first;
    for (CacheOp cache : module.getOps<CacheOp>()) {
      if (!cache.getAt() || !(uses(cache.getKeyPipeline(), op) ||
                              uses(cache.getValuePipeline(), op) || holdsSinks(cache, op)))
        continue;
      if (first && first.getAtAttr() != cache.getAtAttr()) {
        InFlightDiagnostic diag = op.emitOpError("expects one list of layers in the caches that "
                                                 "use it, got two");
        diag.attachNote(first.getLoc()) << "at = " << first.getAtAttr() << " here";
        diag.attachNote(cache.getLoc()) << "at = " << cache.getAtAttr() << " here";
        return diag;
      }
      first = cache;
    }
    return first;
  }

  /// The tensors of a constant: those of the layers at which its cache serves, or all of them, in
  /// ascending order.
  FailureOr<SmallVector<const ::kvq::TensorView *>>
  chooseLayers(ConstantOp op, const std::map<unsigned, const ::kvq::TensorView *> &found) {
    FailureOr<CacheOp> cache = cacheWithLayers(op);
    if (failed(cache))
      return failure();
    SmallVector<const ::kvq::TensorView *> tensors;
    RankedTensorType type = op.getTensorType();
    const SmallVector<int64_t> at = *cache ? cache->getModelLayers() : SmallVector<int64_t>();
    if (!at.empty() && type.getDimSize(0) == static_cast<int64_t>(at.size())) {
      for (int64_t layer : at) {
        auto entry = found.find(static_cast<unsigned>(layer));
        if (entry == found.end())
          return op.emitOpError("expects tensor 'layers.")
                 << layer << "." << *op.getSource() << "' in calibration '" << file
                 << "', found none";
        tensors.push_back(entry->second);
      }
      return tensors;
    }
    for (auto [layer, tensor] : found)
      tensors.push_back(tensor);
    if (static_cast<int64_t>(tensors.size()) != type.getDimSize(0))
      return op.emitOpError("expects ") << type.getDimSize(0) << " layers of '" << *op.getSource()
                                        << "', calibration '" << file << "' has " << tensors.size();
    return tensors;
  }

  InFlightDiagnostic refuseTensor(ConstantOp op, const ::kvq::TensorView &tensor) {
    return op.emitOpError() << "cannot take tensor '" << tensor.name << "' of calibration '" << file
                            << "': ";
  }

  LogicalResult append(ConstantOp op, const ::kvq::TensorView &tensor,
                       SmallVectorImpl<float> &values) {
    ArrayRef<int64_t> shape = op.getTensorType().getShape().drop_front();
    if (tensor.type != ::kvq::TensorType::f32 || shape != ArrayRef<int64_t>(tensor.shape))
      return refuseTensor(op, tensor)
             << "expected "
             << ::kvq::tensorText(::kvq::TensorType::f32,
                                  std::vector<int64_t>(shape.begin(), shape.end()))
             << ", got " << ::kvq::tensorText(tensor.type, tensor.shape);
    size_t first = values.size();
    values.resize(first + tensor.elements());
    std::memcpy(values.data() + first, tensor.data.data, tensor.data.size);
    ArrayRef<float> added = ArrayRef<float>(values).drop_front(first);
    for (auto [i, value] : llvm::enumerate(added))
      if (!std::isfinite(value))
        return refuseTensor(op, tensor) << "expected finite values, got " << value << " at "
                                        << indexText(shape, static_cast<int64_t>(i));
    return op.getTensorType().getRank() == 4 ? checkRotation(op, tensor, added) : success();
  }

  LogicalResult checkRotation(ConstantOp op, const ::kvq::TensorView &tensor,
                              ArrayRef<float> values) {
    int64_t dim = tensor.shape.back();
    for (int64_t head = 0; head < tensor.shape.front(); ++head) {
      double error = orthogonalityError(values.slice(head * dim * dim, dim * dim), dim);
      if (error > kOrthogonality)
        return refuseTensor(op, tensor)
               << "expected an orthogonal matrix, got entries of R R^T - I up to " << error
               << " (at most 0.001 allowed) for head " << head;
    }
    return success();
  }
};

struct ImportCalibration : impl::ImportCalibrationBase<ImportCalibration> {
  using ImportCalibrationBase::ImportCalibrationBase;

  void runOnOperation() override {
    if (failed(Importer(getOperation(), file).run()))
      signalPassFailure();
  }
};

} // namespace
} // namespace mlir::kvq
