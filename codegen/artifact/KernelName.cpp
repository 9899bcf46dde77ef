// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "codegen/artifact/KernelName.h"

#include "codegen/conversion/gpu/BuildGpuKernels.h"
#include "runtime/format/sha256.h"

#include "mlir/Support/LLVM.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

namespace mlir::kvq {
namespace {

using ::kvq::ElementType;
using ::kvq::KernelRole;
using ::kvq::ParameterForm;

constexpr KernelRole kRoles[] = {KernelRole::append, KernelRole::plan,          KernelRole::prepare,
                                 KernelRole::decode, KernelRole::append_window, KernelRole::demote,
                                 KernelRole::commit, KernelRole::dequantize};
constexpr ParameterForm kForms[] = {ParameterForm::min, ParameterForm::zero, ParameterForm::sym,
                                    ParameterForm::norm};
constexpr ElementType kElements[] = {ElementType::f16, ElementType::bf16, ElementType::f32};
constexpr int kInstanceKvHeads = 4;
constexpr int kRowClasses[] = {4, 8, 12, 16};

const char *nameOf(ParameterForm form) { return ::kvq::formName(form); }
const char *nameOf(ElementType type) { return ::kvq::elementName(type); }
/// Without '_', which parts the fields of a name.
std::string nameOf(KernelRole role) {
  std::string name = ::kvq::roleName(role);
  llvm::erase(name, '_');
  return name;
}
std::string nameOf(int number) { return std::to_string(number); }

/// "K" where both are the same, else "KxV".
template <typename T> std::string pairText(T key, T value) {
  std::string text = nameOf(key);
  return key == value ? text : text + "x" + nameOf(value);
}

/// Takes a name apart, one field after the other; the first error stays.
class NameParser {
public:
  explicit NameParser(StringRef text) : text(text) { text.split(fields, '_'); }

  std::string parse(KernelName &name) {
    if (fields.size() != 9 && fields.size() != 10)
      return fail("9 or 10 fields between '_'", std::to_string(fields.size()));
    choice(kRoles,
           "a role of append, plan, prepare, decode, appendwindow, demote, commit or dequantize",
           next(), name.role);
    chip(name.chip);
    number("d", name.key.dim, name.value.dim);
    bits(name.key.bits, name.value.bits);
    number("g", name.key.group, name.value.group);
    choices(kForms, "min, zero, sym or norm", name.key.form, name.value.form);
    choices(kElements, "f16, bf16 or f32", name.key.element, name.value.element);
    rows(name.rows);
    choice(kElements, "f16, bf16 or f32", next(), name.io);
    if (fields.size() == 10)
      rest(name.rest);
    if (error.empty() && printKernelName(name) != text)
      return fail("the short spelling " + printKernelName(name), text);
    return error;
  }

private:
  StringRef next() { return fields[at++]; }

  std::string fail(const std::string &expected, StringRef got) {
    if (error.empty())
      error =
          "kernel name '" + text.str() + "': expected " + expected + ", got '" + got.str() + "'";
    return error;
  }

  template <typename T, size_t N>
  void choice(const T (&all)[N], const char *expected, StringRef got, T &out) {
    for (T value : all)
      if (got == nameOf(value)) {
        out = value;
        return;
      }
    fail(expected, got);
  }

  template <typename T, size_t N>
  void choices(const T (&all)[N], const char *expected, T &key, T &value) {
    auto [first, second] = halves(next());
    choice(all, expected, first, key);
    choice(all, expected, second, value);
  }

  static std::pair<StringRef, StringRef> halves(StringRef field) {
    size_t cross = field.find('x');
    if (cross == StringRef::npos)
      return {field, field};
    return {field.take_front(cross), field.drop_front(cross + 1)};
  }

  void chip(std::string &out) {
    StringRef field = next();
    StringRef digits = field;
    std::string chip = digits.consume_front("sm") ? "sm_" + digits.str() : "";
    if (!findChip(chip))
      fail("a chip of " + chipNames() + " without '_'", field);
    out = chip;
  }

  /// Digits that start with another one than 0.
  bool digits(StringRef got, int &out) {
    return !got.empty() && got.size() <= 4 && llvm::all_of(got, llvm::isDigit) &&
           got.front() != '0' && !got.getAsInteger(10, out);
  }

  void number(StringRef letter, int &key, int &value) {
    StringRef field = next(), numbers = field;
    bool right = numbers.consume_front(letter);
    auto [first, second] = halves(numbers);
    if (!right || !digits(first, key) || !digits(second, value))
      fail("'" + letter.str() + "' and a number, or two with an 'x' between", field);
  }

  void bits(int &key, int &value) {
    StringRef field = next(), numbers = field;
    bool right = numbers.consume_front("k");
    auto [first, second] = numbers.split('v');
    if (!right || !digits(first, key) || !digits(second, value))
      fail("the bits of K and V, as in k2v4", field);
  }

  void rows(int &out) {
    StringRef field = next(), number = field;
    if (number.consume_front("r"))
      choice(kRowClasses, "r4, r8, r12 or r16", number, out);
    else
      fail("r4, r8, r12 or r16", field);
  }

  void rest(std::string &out) {
    StringRef field = next(), hex = field;
    if (!hex.consume_front("x") || hex.size() != 8 ||
        !llvm::all_of(hex, [](char c) { return llvm::isHexDigit(c) && !llvm::isUpper(c); }))
      fail("'x' and 8 hexadecimal digits in lower case", field);
    out = hex.str();
  }

  StringRef text;
  llvm::SmallVector<StringRef> fields;
  size_t at = 0;
  std::string error;
};

KernelSide sideOf(const ::kvq::RecordSide &side) {
  return {side.dim, side.bits, side.group ? side.group : side.dim, side.form, side.element};
}

::kvq::SideMethod methodOf(const KernelSide &side, ElementType rows) {
  ::kvq::SideMethod method;
  method.record.dim = side.dim;
  method.record.bits = side.bits;
  method.record.form = side.form;
  method.record.group = side.group == side.dim ? 0 : side.group;
  method.record.element = side.element;
  method.rows = rows;
  return method;
}

/// The text of what decides the kernels of a method: what no kernel depends on is made alike.
std::string kernelText(::kvq::CacheMethod method) {
  method.name = "";
  method.q_heads = static_cast<int>(gpuRowClassOf(method));
  method.kv_heads = method.layers = 1;
  method.page = 64;
  for (::kvq::SideMethod *side : {&method.key, &method.value})
    if (side->record.group == side->record.dim)
      side->record.group = 0;
  if (method.attention.sinks >= 0) { // kernels get a pointer to them
    method.constants.erase(method.constants.begin() + method.attention.sinks);
    method.attention.sinks = -1;
  }
  for (::kvq::Constant &constant : method.constants) {
    constant.offset = 0;
    for (size_t i = 0; i < constant.shape.size() && i < 2; ++i)
      constant.shape[i] = 1;
  }
  return ::kvq::methodText(method);
}

} // namespace

bool KernelSide::operator==(const KernelSide &other) const {
  return dim == other.dim && bits == other.bits && group == other.group && form == other.form &&
         element == other.element;
}

bool KernelName::operator==(const KernelName &other) const {
  return role == other.role && chip == other.chip && key == other.key && value == other.value &&
         rows == other.rows && io == other.io && rest == other.rest;
}

std::string printKernelName(const KernelName &name) {
  std::string chip = name.chip;
  llvm::erase(chip, '_');
  const KernelSide &key = name.key, &value = name.value;
  std::string text = std::string(nameOf(name.role)) + "_" + chip + "_d" +
                     pairText(key.dim, value.dim) + "_k" + nameOf(key.bits) + "v" +
                     nameOf(value.bits) + "_g" + pairText(key.group, value.group) + "_" +
                     pairText(key.form, value.form) + "_" + pairText(key.element, value.element) +
                     "_r" + nameOf(name.rows) + "_" + nameOf(name.io);
  return name.rest.empty() ? text : text + "_x" + name.rest;
}

std::string parseKernelName(StringRef text, KernelName &out) {
  KernelName name;
  std::string error = NameParser(text).parse(name);
  if (error.empty())
    out = std::move(name);
  return error;
}

KernelName kernelNameOf(const ::kvq::CacheMethod &method, KernelRole role, StringRef chip) {
  KernelName name{role,
                  chip.str(),
                  sideOf(method.key.record),
                  sideOf(method.value.record),
                  static_cast<int>(gpuRowClassOf(method)),
                  method.attention.rows,
                  ""};
  std::string text = kernelText(method);
  if (text != kernelText(methodOf(name)))
    name.rest = ::kvq::digestText(::kvq::sha256(text.data(), text.size())).substr(0, 8);
  return name;
}

::kvq::CacheMethod methodOf(const KernelName &name) {
  ::kvq::CacheMethod method;
  method.name = printKernelName(name);
  method.key = methodOf(name.key, name.io);
  method.value = methodOf(name.value, name.io);
  method.kv_heads = kInstanceKvHeads;
  method.q_heads = kInstanceKvHeads * name.rows;
  method.attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(name.key.dim)));
  method.attention.rows = name.io;
  return method;
}

} // namespace mlir::kvq
