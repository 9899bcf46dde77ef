// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/lib/Use.h"

#include "runtime/lib/Checks.h"

#include <algorithm>
#include <cstring>

namespace kvq {
namespace {

const char *nameOf(kvq_element element) {
  static const char *const names[] = {"none", "f16", "bf16", "f32"};
  return element >= 0 && element <= KVQ_F32 ? names[element] : "unknown";
}

/// Compares a use with one format.
class FormatCheck {
public:
  FormatCheck(const kvq_library &library, const Format &format, int32_t layer, const kvq_use &use,
              std::vector<kvq_reason> &reasons)
      : format(format), layer(layer), use(use), have(geometryOf(library, format)),
        reasons(reasons) {}

  void run() {
    if (!format.codeStatus.ok())
      add(KVQ_REASON_NO_CODE, format.codeStatus.message);
    heads();
    same(KVQ_REASON_HEAD_DIM, "key_dim", use.key_dim, have.key_dim);
    same(KVQ_REASON_HEAD_DIM, "value_dim", use.value_dim, have.value_dim);
    sameType("key_rows", use.key_rows, have.key_rows);
    sameType("value_rows", use.value_rows, have.value_rows);
    sameType("query_rows", use.query_rows, have.query_rows);
    page();
    if (use.q_length < 0 || use.q_length > KVQ_MAX_Q_LENGTH)
      differs(KVQ_REASON_Q_LENGTH, "q_length", "at most " + std::to_string(KVQ_MAX_Q_LENGTH),
              std::to_string(use.q_length));
    windows();
    softcap();
    kernels();
  }

private:
  void add(kvq_reason_code code, const std::string &text) {
    kvq_reason reason = {};
    reason.code = code;
    reason.layer = layer;
    const size_t length = std::min(text.size(), sizeof reason.text - 1);
    std::memcpy(reason.text, text.data(), length);
    reasons.push_back(reason);
  }
  void differs(kvq_reason_code code, const std::string &name, const std::string &got,
               const std::string &asked) {
    add(code, name + ": the library has " + got + ", asked for " + asked);
  }
  void same(kvq_reason_code code, const char *name, int32_t asked, int32_t got) {
    if (asked && asked != got)
      differs(code, name, std::to_string(got), std::to_string(asked));
  }
  void sameType(const char *name, kvq_element asked, kvq_element got) {
    if (asked && asked != got)
      differs(KVQ_REASON_ELEMENT, name, nameOf(got), nameOf(asked));
  }

  /// Query heads may be any multiple of the KV heads, unless each has something in the library.
  void heads() {
    same(KVQ_REASON_HEADS, "kv_heads", use.kv_heads, have.kv_heads);
    if (use.q_heads < 0 || use.q_heads % have.kv_heads)
      differs(KVQ_REASON_HEADS, "q_heads", "a multiple of " + std::to_string(have.kv_heads),
              std::to_string(use.q_heads));
    else if (use.q_heads > kMaxQHeads)
      differs(KVQ_REASON_HEADS, "q_heads", "at most " + std::to_string(kMaxQHeads),
              std::to_string(use.q_heads));
    else if (have.sinks)
      same(KVQ_REASON_HEADS, "q_heads", use.q_heads, have.q_heads);
  }
  void page() {
    RecordLayout layout;
    if (Status status = pageLayout(format, use.page_tokens, layout); !status.ok())
      add(KVQ_REASON_PAGE, status.message);
    if (format.layout.append != 1)
      add(KVQ_REASON_APPEND_STEP, checkAppendStep(format).message);
  }
  void windows() {
    for (auto [name, asked, got] :
         {std::tuple("sink", use.sink, have.sink), std::tuple("recent", use.recent, have.recent)})
      if (asked && std::max(asked, 0) != got)
        differs(KVQ_REASON_WINDOWS, name, std::to_string(got), std::to_string(std::max(asked, 0)));
  }
  void softcap() {
    const float asked = std::max(use.softcap, 0.0f);
    if (use.softcap != 0 && asked != have.softcap)
      differs(KVQ_REASON_SOFTCAP, "softcap", std::to_string(have.softcap), std::to_string(asked));
  }
  void need(KernelRole role) {
    if (!format.codeStatus.ok())
      return; // has been said
    if (Status status = needKernel(format, role); !status.ok())
      add(KVQ_REASON_KERNEL, status.message);
  }
  void kernels() {
    const uint32_t known = KVQ_USE_CAPTURE | KVQ_USE_DEMOTE | KVQ_USE_DEQUANTIZE;
    if (use.flags & ~known)
      differs(KVQ_REASON_KERNEL, "flags", "only those of " + std::to_string(known),
              std::to_string(use.flags));
    if ((use.flags & KVQ_USE_CAPTURE) && !format.device)
      add(KVQ_REASON_CAPTURE, "capture: expected a library that was opened for a CUDA device");
    if (use.flags & KVQ_USE_DEMOTE) {
      if (Status status = needWindows(format); !status.ok())
        add(KVQ_REASON_WINDOWS, status.message);
      else
        for (KernelRole role : {KernelRole::append_window, KernelRole::commit, KernelRole::demote})
          need(role);
    }
    if (use.flags & KVQ_USE_DEQUANTIZE)
      need(KernelRole::dequantize);
  }

  const Format &format;
  int32_t layer;
  const kvq_use &use;
  kvq_geometry have;
  std::vector<kvq_reason> &reasons;
};

} // namespace

std::vector<kvq_reason> reasonsAgainst(const kvq_library &library, const kvq_use &use) {
  std::vector<kvq_reason> reasons;
  const int32_t layers = int32_t(library.layers().size());
  if (use.layers && use.layers != layers) {
    kvq_reason reason = {KVQ_REASON_LAYERS, -1, ""};
    std::snprintf(reason.text, sizeof reason.text, "layers: the library has %d, asked for %d",
                  int(layers), int(use.layers));
    reasons.push_back(reason);
  }
  for (size_t i = 0; i < library.formats.size(); ++i)
    for (int32_t layer = 0; layer < layers; ++layer)
      if (library.layers()[size_t(layer)].format == int32_t(i)) {
        FormatCheck(library, library.formats[i], layer, use, reasons).run();
        break;
      }
  return reasons;
}

} // namespace kvq
