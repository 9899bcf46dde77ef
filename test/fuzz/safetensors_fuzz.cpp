// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The safetensors reader. Each input is read as it is, and as the header of a file: behind its
// length, in front of some bytes of tensors.
#include "runtime/format/safetensors.h"

#include <cstdlib>

using namespace kvq;

namespace {

void parse(const std::string &input) {
  FileBytes bytes;
  Safetensors file;
  if (!FileBytes::copy({input.data(), input.size()}, bytes).empty() ||
      !Safetensors::parse(std::move(bytes), file).empty())
    return;
  size_t total = 0;
  for (const TensorView &tensor : file.tensors()) {
    if (file.find(tensor.name) != &tensor || tensorText(tensor.type, tensor.shape).empty())
      std::abort();
    total += size_t(tensor.elements()) * size_t(tensorBytes(tensor.type));
  }
  if (total > input.size() || tensorDigest(file.tensors()).size() != 64)
    std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string input(reinterpret_cast<const char *>(data), size);
  parse(input);
  std::string whole;
  for (int i = 0; i < 8; ++i)
    whole += char(uint64_t(size) >> (8 * i));
  for (const char *tensors : {"", "0123456789abcdef"})
    parse(whole + input + tensors);
  return 0;
}
