// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of a method, apart from those of its record. A method that passes can be compiled,
// interpreted and indexed without further checks.
#include "runtime/format/method.h"

#include <cfloat>
#include <cmath>

namespace kvq {
namespace {

constexpr int64_t kMaxCount = 65536; ///< heads, layers, tokens of a page

class Verifier {
public:
  explicit Verifier(const CacheMethod &method) : method(method) {}

  std::string run() {
    name("name", method.name);
    range("kv_heads", method.kv_heads, 1, kMaxCount);
    range("q_heads", method.q_heads, 1, kMaxCount);
    range("layers", method.layers, 1, kMaxCount);
    range("page", method.page, 1, kMaxCount);
    if (ok() && method.q_heads % method.kv_heads)
      fail("q_heads", "a multiple of " + std::to_string(method.kv_heads) + " (kv_heads)",
           std::to_string(method.q_heads));
    range("sink", method.sink, 0, kMaxCount);
    range("recent", method.recent, 0, kMaxCount);
    range("attention.window", method.attention.window, 0, INT32_MAX);
    if (!(method.attention.softcap >= 0 && method.attention.softcap <= FLT_MAX))
      fail("attention.softcap", "0 or a finite number above it",
           std::to_string(method.attention.softcap));
    if (!std::isfinite(method.attention.scale))
      fail("attention.scale", "a finite number", std::to_string(method.attention.scale));
    if (ok())
      error = verifyRecord(method.record());
    for (size_t i = 0; i < method.constants.size(); ++i)
      constant("constants[" + std::to_string(i) + "]", method.constants[i]);
    side("key", method.key);
    side("value", method.value);
    if (ok() && method.attention.sinks != -1)
      sinks("attention.sinks", method.attention.sinks);
    return error;
  }

private:
  bool ok() const { return error.empty(); }

  void fail(const std::string &where, const std::string &expected, const std::string &got) {
    if (ok())
      error = where + ": expected " + expected + ", got " + got;
  }

  void range(const std::string &where, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high)
      fail(where, std::to_string(low) + " to " + std::to_string(high), std::to_string(value));
  }

  /// Names are written into manifests and symbols, where nothing is escaped.
  void name(const std::string &where, const std::string &value) {
    const char *const allowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-";
    if (value.empty() || value.size() > 200)
      fail(where, "a name of 1 to 200 characters", std::to_string(value.size()));
    else if (size_t bad = value.find_first_not_of(allowed); bad != std::string::npos)
      fail(where, "letters, digits, '_', '.', '$' and '-'",
           "byte " + std::to_string(uint8_t(value[bad])) + " at position " + std::to_string(bad));
  }

  void constant(const std::string &where, const Constant &constant) {
    name(where + ".name", constant.name);
    range(where + ".offset", constant.offset, 0, INT64_MAX / 2);
    if (constant.offset % 64)
      fail(where + ".offset", "a multiple of 64", std::to_string(constant.offset));
    if (constant.shape.size() > 4)
      fail(where + ".shape", "at most 4 dims", std::to_string(constant.shape.size()));
    constexpr int64_t limit = int64_t(1) << 44;
    int64_t elements = 1;
    for (int64_t extent : constant.shape) {
      range(where + ".shape", extent, 1, kMaxCount);
      if (!ok())
        return;
      elements *= extent; // no overflow: at most 2^44 times 2^16
      if (elements > limit)
        fail(where + ".shape", "at most 2^44 elements", "more");
    }
  }

  /// One logit for each query head, of each layer or of all.
  void sinks(const std::string &where, int index) {
    if (index < 0 || index >= int64_t(method.constants.size()))
      return noConstant(where, index);
    const Constant &constant = method.constants[index];
    const std::vector<int64_t> own = {method.layers, method.q_heads, 1};
    const std::vector<int64_t> shared = {1, method.q_heads, 1};
    if (constant.shape != own && constant.shape != shared)
      fail(where, "a constant of shape " + text(own) + " or " + text(shared),
           text(constant.shape) + " of " + constant.name);
  }

  void noConstant(const std::string &where, int index) {
    fail(where, "an index of the " + std::to_string(method.constants.size()) + " constants",
         std::to_string(index));
  }

  /// A step's reference to a constant of `rank` head dims beside layers and heads.
  void reference(const std::string &where, int index, int rank, int dim) {
    if (index < 0 || index >= int64_t(method.constants.size()))
      return noConstant(where, index);
    std::vector<int64_t> shape = {method.layers, method.kv_heads};
    shape.resize(2 + rank, dim);
    const Constant &constant = method.constants[index];
    if (constant.shape != shape)
      fail(where, "a constant of shape " + text(shape),
           text(constant.shape) + " of " + constant.name);
  }

  static std::string text(const std::vector<int64_t> &shape) {
    std::string out;
    for (int64_t extent : shape)
      out += (out.empty() ? "[" : ", ") + std::to_string(extent);
    return out.empty() ? "[]" : out + "]";
  }

  void factor(const std::string &where, const RotationFactor &factor, int dim) {
    if (factor.kind == RotationFactor::Kind::dense)
      return reference(where + ".constant", factor.constant, 2, dim);
    const int order = factor.order;
    range(where + ".order", order, 1, kMaxHeadDim);
    if (ok() && order & (order - 1))
      fail(where + ".order", "a power of two", std::to_string(order));
    if (ok() && factor.kind == RotationFactor::Kind::hadamard && order != dim)
      fail(where + ".order", std::to_string(dim) + " (the head dim)", std::to_string(order));
    if (ok() && dim % order)
      fail(where + ".order", "a divisor of the head dim " + std::to_string(dim),
           std::to_string(order));
  }

  void clip(const std::string &where, const Step &step) {
    const bool relative = step.clip != Step::Clip::constant;
    const double high = relative ? 1 : FLT_MAX;
    if (!(step.value > 0 && step.value <= high))
      fail(where + ".value", relative ? "a ratio above 0, at most 1" : "a finite threshold above 0",
           std::to_string(step.value));
  }

  void side(const std::string &where, const SideMethod &side) {
    bool clipped = false;
    for (size_t i = 0; i < side.steps.size() && ok(); ++i) {
      const Step &step = side.steps[i];
      const std::string at = where + ".steps[" + std::to_string(i) + "]";
      if (step.kind == Step::Kind::clip)
        clip(at, step);
      else if (clipped)
        fail(at, "clips after all other steps", "a clip before it");
      else if (step.kind == Step::Kind::center)
        reference(at + ".mean", step.constant, 1, side.record.dim);
      else if (step.factors.empty())
        fail(at + ".factors", "at least one factor", "none");
      clipped = clipped || step.kind == Step::Kind::clip;
      for (size_t j = 0; step.kind == Step::Kind::rotate && j < step.factors.size(); ++j)
        factor(at + ".factors[" + std::to_string(j) + "]", step.factors[j], side.record.dim);
    }
  }

  const CacheMethod &method;
  std::string error;
};

} // namespace

std::string verifyMethod(const CacheMethod &method) { return Verifier(method).run(); }

} // namespace kvq
