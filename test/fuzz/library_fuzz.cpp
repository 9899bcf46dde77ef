// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The library reader, and what the runtime does with a file before it runs any code of it. Each
// input is read as it is and with its digests mended, so that a mutation gets past them.
#include "runtime/lib/Library.h"
#include "test/support/Reseal.h"

#include <cstdlib>

using namespace kvq;

namespace {

/// A use of everything that was read.
size_t touch(const LibraryView &view) {
  size_t sum = view.manifest.size;
  auto add = [&](ByteSpan span) {
    for (size_t i = 0; i < span.size; ++i)
      sum += span.bytes()[i];
  };
  for (const LibraryFormatView &format : view.formats)
    add(format.method), add(format.constants);
  for (const ByteSpan &object : view.objects)
    add(object);
  for (const LibraryKernel &kernel : view.kernels)
    sum += kernel.symbol.size() + view.objects.at(kernel.object).size +
           view.formats.at(kernel.format).method.size;
  return sum;
}

void query(const kvq_library &library) {
  for (size_t layer = 0; layer < library.layers().size(); ++layer) {
    const Format *format = nullptr;
    int64_t constantLayer = 0;
    if (!formatOf(library, int64_t(layer), format, constantLayer).ok())
      continue;
    RecordLayout layout;
    if (!pageLayout(*format, 0, layout).ok() || constantLayer >= format->method.layers)
      std::abort();
  }
}

void open(const char *data, size_t size) {
  // A copy of the exact size: a read behind the end is then seen.
  FileBytes bytes;
  if (!FileBytes::copy({data, size}, bytes).empty())
    return;
  LibraryView view;
  const bool parsed = parseLibrary(bytes.span(), view).empty();
  if (parsed && touch(view) == SIZE_MAX)
    std::abort();
  kvq_open_options options = {};
  std::unique_ptr<kvq_library> library;
  const Status status = openLibrary(std::move(bytes), options, library);
  if (status.ok() != bool(library) || (status.ok() && !parsed))
    std::abort();
  if (library)
    query(*library);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string input(reinterpret_cast<const char *>(data), size);
  open(input.data(), input.size());
  test::reseal(input);
  open(input.data(), input.size());
  return 0;
}
