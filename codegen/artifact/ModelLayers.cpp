// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/ModelLayers.h"

namespace mlir::kvq {

FailureOr<std::vector<::kvq::LibraryLayer>> modelLayers(ModuleOp module,
                                                        ArrayRef<CacheAttention> caches) {
  std::vector<::kvq::LibraryLayer> layers;
  if (auto count = module->getAttrOfType<IntegerAttr>("kvq.layers"))
    layers.resize(count.getInt());
  for (auto [format, found] : llvm::enumerate(caches)) {
    CacheOp cache = found.cache;
    for (auto [index, layer] : llvm::enumerate(cache.getModelLayers())) {
      if (static_cast<size_t>(layer) >= layers.size())
        layers.resize(layer + 1);
      ::kvq::LibraryLayer &entry = layers[layer];
      if (entry.format >= 0) {
        CacheOp other = caches[entry.format].cache;
        InFlightDiagnostic diag = cache.emitOpError("serves layer ")
                                  << layer << " of the model, which @" << other.getSymName()
                                  << " serves too; say with at which layers each cache serves";
        diag.attachNote(other.getLoc()) << "@" << other.getSymName() << " is here";
        return diag;
      }
      entry.format = static_cast<int32_t>(format);
      entry.constant_layer = static_cast<uint32_t>(index);
    }
  }
  return layers;
}

} // namespace mlir::kvq
