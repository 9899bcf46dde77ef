// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Subject.h"

#include "runtime/reference/QuantizeRow.h"

#include <stdexcept>

namespace kvq {
namespace {

FileBytes readFile(const std::string &path) {
  FileBytes bytes;
  if (std::string error = FileBytes::read(path, bytes); !error.empty())
    throw std::runtime_error(error);
  return bytes;
}

std::string stemOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
  return file.substr(0, file.rfind('.'));
}

} // namespace

void require(const char *call, kvq_status status) {
  if (status != KVQ_OK)
    throw std::runtime_error(std::string(call) + ": " + kvq_status_name(status) + ": " +
                             kvq_last_error());
}

Subject::Subject(const std::string &path, Device &device)
    : Subject(stemOf(path), readFile(path), device) {}

Subject::Subject(const std::string &name, FileBytes file, Device &device)
    : device(device), name(name), bytes(std::move(file)), constants(method, nullptr), layer(0) {
  kvq_open_options options = {};
  options.size = sizeof options;
  options.target = device.target();
  options.flags = device.target() == KVQ_TARGET_CPU ? KVQ_ALLOW_HOST_CODE : 0;
  kvq_library *opened = nullptr;
  require("open", kvq_open_memory(bytes.span().data, bytes.span().size, &options, &opened));
  library.reset(opened);
  require("supports", kvq_supports(opened, nullptr, nullptr, 0, nullptr));
  std::string error = parseLibrary(bytes.span(), view);
  if (error.empty())
    error = parseMethod(kvq_method_text(opened, 0), method);
  for (const SideMethod *side : {&method.key, &method.value})
    if (error.empty())
      error = refuseSide(*side);
  if (!error.empty())
    throw std::runtime_error(error);
  constants = Constants(method, view.formats.front().constants.data);
  layer = method.layers - 1;
}

int Subject::rowClass() const {
  const bool cpu = device.target() == KVQ_TARGET_CPU;
  for (const LibraryKernel &kernel : view.kernels)
    if (kernel.role == KernelRole::decode && (kernel.target == "cpu") == cpu)
      return kernel.rows;
  throw std::runtime_error("the library has no decode kernel for the target");
}

RecordLayout Subject::layout(int64_t page) const {
  RecordSpec spec = method.record();
  spec.page = int(page);
  return buildRecord(spec);
}

Buffer makeWorkspace(const Subject &subject, kvq_decode_args &args) {
  kvq_library *library = subject.library.get();
  require("workspace size", kvq_workspace_size(library, &args, &args.workspace_bytes));
  Buffer workspace(subject.device, args.workspace_bytes);
  args.workspace = workspace.data();
  workspace.fill(0xff);
  require("workspace",
          kvq_workspace_init(library, args.workspace, args.workspace_bytes, &args.execution));
  return workspace;
}

} // namespace kvq
