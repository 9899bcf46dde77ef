// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a handle points to.
#pragma once

#include "runtime/format/method.h"
#include "runtime/lib/HostCode.h"
#include "runtime/lib/ThreadPool.h"
#include "runtime/lib/cuda/DeviceCode.h"

#include <memory>
#include <mutex>

namespace kvq {

/// A method of a library, what its pages look like, and the code for it that runs here.
struct Format {
  std::string methodText;
  CacheMethod method;
  Digest methodDigest = {};                 ///< of the method and its constants
  RecordLayout layout;                      ///< of the default page
  ByteSpan constants;                       ///< into the bytes of the library
  HostCode code;                            ///< of KVQ_TARGET_CPU
  Status codeStatus;                        ///< why there is no code
  std::unique_ptr<cuda::DeviceCode> device; ///< of KVQ_TARGET_CUDA, else null
};

} // namespace kvq

/// A library in memory. After open, only `pool` changes, under `poolOnce`, and what the device code
/// of a format has loaded, under its own lock.
struct kvq_library {
  kvq::FileBytes bytes;
  kvq::LibraryView view; ///< into bytes
  std::string manifestText;
  std::unique_ptr<kvq::cuda::Device> device; ///< of KVQ_TARGET_CUDA, else null
  std::vector<kvq::Format> formats;          ///< at least one
  int threads = 0;

  /// Layers of the model; formatOf tells what serves them.
  const std::vector<kvq::LibraryLayer> &layers() const { return view.layers; }

  void parallel(kvq_parallel_for callback, void *context, int64_t items, kvq_item_fn fn,
                void *task);

private:
  std::once_flag poolOnce;
  std::unique_ptr<kvq::ThreadPool> pool;
};

namespace kvq {

/// Takes the file apart and loads its code if the options allow it.
Status openLibrary(FileBytes bytes, const kvq_open_options &options,
                   std::unique_ptr<kvq_library> &out);

/// What serves a layer of the model, and the layer's index in the constants of that format.
/// INVALID_ARGUMENT for a layer that the model does not have, UNSUPPORTED for one that the library
/// does not quantize.
Status formatOf(const kvq_library &library, int64_t layer, const Format *&format,
                int64_t &constantLayer);

kvq_element elementOf(ElementType type);
kvq_geometry geometryOf(const kvq_library &library, const Format &format);
kvq_page_geometry pageGeometryOf(const Format &format, const RecordLayout &layout);
/// SHA-256 of the canonical text of a record.
Digest recordDigest(const RecordLayout &layout);

/// Layout for a page of that many tokens, 0 for the default; INVALID_ARGUMENT if it is not legal.
Status pageLayout(const Format &format, int64_t pageTokens, RecordLayout &out);

} // namespace kvq
