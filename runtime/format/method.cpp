// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The JSON text of a method. Reading is strict: every key must be there, none may be unknown.
#include "runtime/format/method.h"

#include <nlohmann/json.hpp>

#include <cfloat>
#include <cmath>

namespace kvq {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchema = 0;

/// Text of each value of an enum, in the order of the enum.
using Names = std::vector<const char *>;
const Names elements = {"f16", "bf16", "f32"};
const Names forms = {"min", "zero", "sym", "norm"};
const Names axes = {"token", "channel"};
const Names outers = {"none", "token", "channel"};
const Names packings = {"byte", "nibble"};
const Names factorKinds = {"hadamard", "block_hadamard", "dense"};
const Names stepKinds = {"center", "rotate", "clip"};
const Names clipKinds = {"order_statistic", "ratio", "constant"};
const Names scopes = {"row", "group"};
const Names ties = {"half_up", "half_even"};
const Names sources = {"stored", "exact"};

template <typename Enum> const char *text(const Names &names, Enum value) {
  return names[size_t(value)];
}

Json factorJson(const RotationFactor &factor) {
  Json out = {{"factor", text(factorKinds, factor.kind)}};
  if (factor.kind == RotationFactor::Kind::dense) {
    out["constant"] = factor.constant;
    out["inverse"] = factor.inverse;
  } else {
    out["order"] = factor.order;
  }
  return out;
}

Json stepJson(const Step &step) {
  Json out = {{"step", text(stepKinds, step.kind)}};
  if (step.kind == Step::Kind::clip) {
    out["clip"] = text(clipKinds, step.clip);
    out["value"] = step.value;
    out["scope"] = text(scopes, step.per_group);
    return out;
  }
  if (step.kind == Step::Kind::center) {
    out["mean"] = step.constant;
  } else {
    out["factors"] = Json::array();
    for (const RotationFactor &factor : step.factors)
      out["factors"].push_back(factorJson(factor));
  }
  out["result"] = text(elements, step.result);
  return out;
}

Json sideJson(const SideMethod &side) {
  const RecordSide &record = side.record;
  Json out = {{"dim", record.dim},
              {"bits", record.bits},
              {"form", formName(record.form)},
              {"group", record.group},
              {"parameters", text(elements, record.element)},
              {"axis", text(axes, record.axis)},
              {"outer", text(outers, record.outer)},
              {"packing", text(packings, record.packing)},
              {"rows", text(elements, side.rows)},
              {"tie", text(ties, side.round.tie)},
              {"codes_from", text(sources, side.round.source)},
              {"steps", Json::array()}};
  for (const Step &step : side.steps)
    out["steps"].push_back(stepJson(step));
  return out;
}

Json attentionJson(const AttentionMethod &attention) {
  Json out = {{"scale", attention.scale},
              {"causal", attention.causal},
              {"rotate_query", attention.rotate_query},
              {"unrotate_output", attention.unrotate_output},
              {"rows", text(elements, attention.rows)}};
  if (attention.softcap != 0)
    out["softcap"] = attention.softcap;
  if (attention.window)
    out["window"] = attention.window;
  if (attention.sinks != -1)
    out["sinks"] = attention.sinks;
  return out;
}

/// Takes an object of the text apart. The first error of a text is kept; after it nothing is read.
class Reader {
public:
  Reader(const Json &json, std::string path, std::string &error)
      : json(json), path(std::move(path)), error(error) {
    if (!json.is_object())
      fail(here(), "an object", json);
  }

  /// Refuses what the rest of the text cannot make good.
  void refuse(const std::string &where, const std::string &expected, const std::string &got) {
    if (error.empty())
      error = where + ": expected " + expected + ", got " + got;
  }

  bool has(const char *key) const { return error.empty() && json.contains(key); }

  template <typename Integer> void integer(const char *key, Integer &out) {
    const Json *value = take(key);
    if (!value)
      return;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() || value->get<uint64_t>() <= INT64_MAX) &&
                      value->get<int64_t>() == int64_t(Integer(value->get<int64_t>()));
    if (!fits)
      return fail(at(key), "an integer of " + std::to_string(8 * sizeof(Integer)) + " bits",
                  *value);
    out = Integer(value->get<int64_t>());
  }

  void number(const char *key, double &out) {
    const Json *value = take(key);
    if (value && !value->is_number())
      return fail(at(key), "a number", *value);
    if (value)
      out = value->get<double>();
  }

  void number(const char *key, float &out) {
    double wide = out;
    number(key, wide);
    if (std::fabs(wide) > FLT_MAX)
      return refuse(at(key), "a number that fits in 32 bits", std::to_string(wide));
    out = float(wide);
  }

  void flag(const char *key, bool &out) {
    const Json *value = take(key);
    if (value && !value->is_boolean())
      return fail(at(key), "true or false", *value);
    if (value)
      out = value->get<bool>();
  }

  void string(const char *key, std::string &out) {
    const Json *value = take(key);
    if (value && !value->is_string())
      return fail(at(key), "a string", *value);
    if (value)
      out = value->get<std::string>();
  }

  template <typename Enum> void choice(const char *key, const Names &names, Enum &out) {
    const Json *value = take(key);
    if (!value)
      return;
    std::string expected;
    for (size_t i = 0; i < names.size(); ++i) {
      if (value->is_string() && value->get_ref<const std::string &>() == names[i]) {
        out = Enum(i);
        return;
      }
      expected += std::string(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
    }
    fail(at(key), expected, *value);
  }

  void integers(const char *key, std::vector<int64_t> &out) {
    const Json *value = take(key);
    if (value && !value->is_array())
      return fail(at(key), "an array", *value);
    for (size_t i = 0; value && i < value->size(); ++i) {
      if (!(*value)[i].is_number_integer())
        return fail(at(key) + at(i), "an integer", (*value)[i]);
      out.push_back((*value)[i].get<int64_t>());
    }
  }

  /// An object, taken apart by `read`.
  template <typename T> void object(const char *key, T (*read)(Reader &), T &out) {
    if (const Json *value = take(key))
      out = readAll(*value, at(key), error, read);
  }

  /// An array of such objects.
  template <typename T> void objects(const char *key, T (*read)(Reader &), std::vector<T> &out) {
    const Json *value = take(key);
    if (value && !value->is_array())
      return fail(at(key), "an array", *value);
    for (size_t i = 0; value && i < value->size(); ++i)
      out.push_back(readAll((*value)[i], at(key) + at(i), error, read));
  }

  /// Calls `read` and then refuses keys that it did not ask for.
  template <typename T>
  static T readAll(const Json &json, const std::string &path, std::string &error,
                   T (*read)(Reader &)) {
    Reader reader(json, path, error);
    T out = read(reader);
    reader.finish();
    return out;
  }

private:
  void finish() {
    for (auto item = json.begin(); error.empty() && item != json.end(); ++item)
      if (std::find(taken.begin(), taken.end(), item.key()) == taken.end())
        refuse(here(), "known keys", "'" + shorten(item.key()) + "'");
  }

  const Json *take(const char *key) {
    if (!error.empty())
      return nullptr;
    taken.push_back(key);
    auto item = json.find(key);
    if (item != json.end())
      return &*item;
    refuse(here(), "the key '" + std::string(key) + "'", "none");
    return nullptr;
  }

  std::string here() const { return path.empty() ? "the text" : path; }
  std::string at(const char *key) const { return path.empty() ? key : path + "." + key; }
  static std::string at(size_t index) { return "[" + std::to_string(index) + "]"; }

  void fail(const std::string &where, const std::string &expected, const Json &got) {
    refuse(where, expected,
           got.is_primitive() ? shorten(got.dump(-1, ' ', true, Json::error_handler_t::replace))
                              : std::string("an ") + got.type_name());
  }

  static std::string shorten(const std::string &text) {
    return text.size() > 60 ? text.substr(0, 57) + "..." : text;
  }

  const Json &json;
  std::string path;
  std::string &error;
  std::vector<std::string> taken;
};

RotationFactor readFactor(Reader &reader) {
  RotationFactor factor;
  reader.choice("factor", factorKinds, factor.kind);
  if (factor.kind == RotationFactor::Kind::dense) {
    reader.integer("constant", factor.constant);
    reader.flag("inverse", factor.inverse);
  } else {
    reader.integer("order", factor.order);
  }
  return factor;
}

Step readStep(Reader &reader) {
  Step step;
  reader.choice("step", stepKinds, step.kind);
  if (step.kind == Step::Kind::clip) {
    reader.choice("clip", clipKinds, step.clip);
    reader.number("value", step.value);
    reader.choice("scope", scopes, step.per_group);
    return step;
  }
  if (step.kind == Step::Kind::center)
    reader.integer("mean", step.constant);
  else
    reader.objects("factors", readFactor, step.factors);
  reader.choice("result", elements, step.result);
  return step;
}

SideMethod readSide(Reader &reader) {
  SideMethod side;
  reader.integer("dim", side.record.dim);
  reader.integer("bits", side.record.bits);
  reader.choice("form", forms, side.record.form);
  reader.integer("group", side.record.group);
  reader.choice("parameters", elements, side.record.element);
  reader.choice("axis", axes, side.record.axis);
  reader.choice("outer", outers, side.record.outer);
  reader.choice("packing", packings, side.record.packing);
  reader.choice("rows", elements, side.rows);
  reader.choice("tie", ties, side.round.tie);
  reader.choice("codes_from", sources, side.round.source);
  reader.objects("steps", readStep, side.steps);
  return side;
}

AttentionMethod readAttention(Reader &reader) {
  AttentionMethod attention;
  reader.number("scale", attention.scale);
  reader.flag("causal", attention.causal);
  reader.flag("rotate_query", attention.rotate_query);
  reader.flag("unrotate_output", attention.unrotate_output);
  reader.choice("rows", elements, attention.rows);
  // Left out where there is none.
  if (reader.has("softcap"))
    reader.number("softcap", attention.softcap);
  if (reader.has("window"))
    reader.integer("window", attention.window);
  if (reader.has("sinks"))
    reader.integer("sinks", attention.sinks);
  return attention;
}

Constant readConstant(Reader &reader) {
  Constant constant;
  reader.string("name", constant.name);
  reader.integer("offset", constant.offset);
  reader.integers("shape", constant.shape);
  return constant;
}

CacheMethod readMethod(Reader &reader) {
  CacheMethod method;
  int schema = kSchema;
  reader.integer("schema", schema);
  if (schema != kSchema)
    reader.refuse("schema", std::to_string(kSchema), std::to_string(schema));
  reader.string("name", method.name);
  reader.integer("q_heads", method.q_heads);
  reader.integer("kv_heads", method.kv_heads);
  reader.integer("layers", method.layers);
  reader.integer("page", method.page);
  reader.integer("sink", method.sink);
  reader.integer("recent", method.recent);
  reader.object("key", readSide, method.key);
  reader.object("value", readSide, method.value);
  reader.object("attention", readAttention, method.attention);
  reader.objects("constants", readConstant, method.constants);
  return method;
}

} // namespace

const char *formName(ParameterForm form) { return text(forms, form); }

ElementType SideMethod::storedRows() const {
  ElementType type = rows;
  for (const Step &step : steps)
    if (step.kind != Step::Kind::clip)
      type = step.result;
  return type;
}

int64_t CacheMethod::windowRowBytes() const {
  return int64_t(elementBytes(key.storedRows())) * (key.record.dim + value.record.dim);
}

int64_t CacheMethod::sinksOffset(int64_t layer) const {
  if (attention.sinks < 0)
    return -1;
  const Constant &constant = constants[size_t(attention.sinks)];
  return constant.offset + (constant.shape[0] == 1 ? 0 : layer) * q_heads * int64_t(sizeof(float));
}

RecordSpec CacheMethod::record() const {
  RecordSpec spec;
  spec.page = page;
  spec.k = key.record;
  spec.v = value.record;
  return spec;
}

std::string methodText(const CacheMethod &method) {
  Json out = {{"schema", kSchema},
              {"name", method.name},
              {"q_heads", method.q_heads},
              {"kv_heads", method.kv_heads},
              {"layers", method.layers},
              {"page", method.page},
              {"sink", method.sink},
              {"recent", method.recent},
              {"key", sideJson(method.key)},
              {"value", sideJson(method.value)},
              {"attention", attentionJson(method.attention)},
              {"constants", Json::array()}};
  for (const Constant &constant : method.constants)
    out["constants"].push_back(
        {{"name", constant.name}, {"offset", constant.offset}, {"shape", constant.shape}});
  return out.dump(1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

std::string parseMethod(const std::string &text, CacheMethod &out) {
  std::string error;
  try {
    const Json json = Json::parse(text);
    CacheMethod method = Reader::readAll(json, "", error, readMethod);
    if (error.empty())
      error = verifyMethod(method);
    if (error.empty())
      out = std::move(method);
  } catch (const Json::parse_error &parse) {
    error =
        "expected the JSON text of a method, got an error at byte " + std::to_string(parse.byte);
  } catch (const std::exception &other) {
    error = std::string("expected the JSON text of a method, got an error: ") + other.what();
  }
  return error;
}

} // namespace kvq
