// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/numeric/Methods.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace kvq::test {
namespace {

template <typename T> T pick(std::mt19937_64 &random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

const char *formText(ParameterForm form) {
  return form == ParameterForm::min ? "min" : form == ParameterForm::zero ? "zero" : "sym";
}

void describeSide(std::ostringstream &out, const char *name, const SideMethod &side) {
  const RecordSide &record = side.record;
  out << name << " dim " << record.dim << " bits " << record.bits << " group " << record.group
      << " " << formText(record.form) << " params " << elementName(record.element) << " rows "
      << elementName(side.rows)
      << (side.round.tie == RoundRule::Tie::half_even ? " half_even" : " half_up")
      << (side.round.source == RoundRule::Source::exact ? " exact" : " stored") << " steps";
  for (const Step &step : side.steps) {
    if (step.kind == Step::Kind::center)
      out << " center:" << elementName(step.result);
    if (step.kind == Step::Kind::clip)
      out << " clip" << int(step.clip) << ":" << step.value << (step.per_group ? ":group" : ":row");
    if (step.kind == Step::Kind::rotate) {
      out << " rotate:" << elementName(step.result) << "[";
      for (const RotationFactor &factor : step.factors)
        out << int(factor.kind) << "," << factor.order << "," << factor.inverse << " ";
      out << "]";
    }
  }
  out << "; ";
}

int addConstant(MethodCase &c, const std::string &name, std::vector<int64_t> shape,
                const std::vector<float> &data) {
  Constant constant;
  constant.name = name + std::to_string(c.method.constants.size());
  constant.shape = std::move(shape);
  c.constants.resize((c.constants.size() + 15) / 16 * 16);
  constant.offset = static_cast<int64_t>(c.constants.size()) * 4;
  c.constants.insert(c.constants.end(), data.begin(), data.end());
  c.method.constants.push_back(constant);
  return static_cast<int>(c.method.constants.size()) - 1;
}

/// Rows of a random matrix, orthonormalised twice.
std::vector<float> orthogonal(int dim, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  std::vector<double> m(dim * dim);
  for (double &x : m)
    x = normal(random);
  for (int i = 0; i < dim; ++i) {
    for (int pass = 0; pass < 2; ++pass)
      for (int j = 0; j < i; ++j) {
        double dot = 0;
        for (int c = 0; c < dim; ++c)
          dot += m[i * dim + c] * m[j * dim + c];
        for (int c = 0; c < dim; ++c)
          m[i * dim + c] -= dot * m[j * dim + c];
      }
    double norm = 0;
    for (int c = 0; c < dim; ++c)
      norm += m[i * dim + c] * m[i * dim + c];
    for (int c = 0; c < dim; ++c)
      m[i * dim + c] /= std::sqrt(norm);
  }
  return {m.begin(), m.end()};
}

SideMethod &sideOf(MethodCase &c, bool key) { return key ? c.method.key : c.method.value; }

/// An element type for the result of a step: usually that of the rows.
ElementType resultType(const SideMethod &side, std::mt19937_64 &random) {
  return random() % 3 ? side.rows
                      : pick(random, {ElementType::f16, ElementType::bf16, ElementType::f32});
}

void drawSide(MethodCase &c, bool key, int dim, std::mt19937_64 &random) {
  SideMethod &side = sideOf(c, key);
  side.record.dim = dim;
  side.record.bits = pick(random, {2, 4, 8});
  side.record.form = pick(random, {ParameterForm::min, ParameterForm::zero, ParameterForm::sym});
  side.record.element = pick(random, {ElementType::f16, ElementType::bf16, ElementType::f32});
  side.record.group = pick(random, {0, 0, 32, 64, 128});
  if (side.record.group && (dim % side.record.group || dim == side.record.group))
    side.record.group = 0;
  side.rows = pick(random, {ElementType::f16, ElementType::bf16, ElementType::f32});
  side.round.tie = pick(random, {RoundRule::Tie::half_up, RoundRule::Tie::half_even});
  side.round.source = pick(random, {RoundRule::Source::stored, RoundRule::Source::exact});
  if (random() % 3 == 0)
    addCenter(c, key, resultType(side, random), random);
  if (random() % 3) {
    bool powerOfTwo = (dim & (dim - 1)) == 0;
    Rotation rotation = pick(random, {Rotation::hadamard, Rotation::blockHadamard, Rotation::dense,
                                      Rotation::inverseDense, Rotation::product});
    if (rotation == Rotation::hadamard && !powerOfTwo)
      rotation = Rotation::blockHadamard;
    addRotation(c, key, rotation, resultType(side, random), random);
  }
  if (random() % 4 == 0)
    addCenter(c, key, resultType(side, random), random);
  bool perGroup = random() % 2;
  switch (random() % 4) {
  case 0:
    addClip(c, key, Step::Clip::order_statistic, pick(random, {0.5, 0.9, 0.96, 1.0}), perGroup);
    break;
  case 1:
    addClip(c, key, Step::Clip::ratio, pick(random, {0.7, 0.95}), perGroup);
    break;
  case 2:
    addClip(c, key, Step::Clip::constant, pick(random, {0.8, 2.5}), perGroup);
    break;
  }
}

} // namespace

std::string describe(const CacheMethod &method) {
  std::ostringstream out;
  describeSide(out, "key", method.key);
  describeSide(out, "value", method.value);
  out << "heads " << method.q_heads << "/" << method.kv_heads << " page " << method.page
      << " layers " << method.layers << " rotate_query " << method.attention.rotate_query
      << " unrotate_output " << method.attention.unrotate_output << " rows "
      << elementName(method.attention.rows);
  return out.str();
}

MethodCase plainMethod(int keyDim, int valueDim, int queriesPerHead) {
  MethodCase c;
  c.method.name = "plain";
  c.method.key.record.dim = keyDim;
  c.method.value.record.dim = valueDim;
  c.method.kv_heads = 2;
  c.method.q_heads = 2 * queriesPerHead;
  c.method.attention.scale = 1 / std::sqrt(float(keyDim));
  return c;
}

void addCenter(MethodCase &c, bool key, ElementType result, std::mt19937_64 &random) {
  SideMethod &side = sideOf(c, key);
  std::normal_distribution<float> normal(0.5f, 0.5f);
  std::vector<float> mean(c.method.layers * c.method.kv_heads * side.record.dim);
  for (float &x : mean)
    x = normal(random);
  Step step;
  step.kind = Step::Kind::center;
  step.result = result;
  step.constant =
      addConstant(c, "mean", {c.method.layers, c.method.kv_heads, side.record.dim}, mean);
  side.steps.push_back(step);
}

void addRotation(MethodCase &c, bool key, Rotation rotation, ElementType result,
                 std::mt19937_64 &random) {
  SideMethod &side = sideOf(c, key);
  int dim = side.record.dim;
  auto hadamard = [&](bool block) {
    RotationFactor factor;
    factor.kind = block ? RotationFactor::Kind::block_hadamard : RotationFactor::Kind::hadamard;
    factor.order = dim;
    if (block)
      factor.order = std::min(dim & -dim, 1 << (1 + random() % 7));
    return factor;
  };
  auto dense = [&](bool inverse) {
    std::vector<float> all;
    for (int i = 0; i < c.method.layers * c.method.kv_heads; ++i) {
      std::vector<float> matrix = orthogonal(dim, random);
      all.insert(all.end(), matrix.begin(), matrix.end());
    }
    RotationFactor factor;
    factor.kind = RotationFactor::Kind::dense;
    factor.inverse = inverse;
    factor.constant =
        addConstant(c, "rotation", {c.method.layers, c.method.kv_heads, dim, dim}, all);
    return factor;
  };
  Step step;
  step.kind = Step::Kind::rotate;
  step.result = result;
  if (rotation == Rotation::product)
    step.factors = {dense(false), hadamard(true)};
  else if (rotation == Rotation::dense || rotation == Rotation::inverseDense)
    step.factors = {dense(rotation == Rotation::inverseDense)};
  else
    step.factors = {hadamard(rotation == Rotation::blockHadamard)};
  side.steps.push_back(step);
}

void addClip(MethodCase &c, bool key, Step::Clip clip, double value, bool perGroup) {
  Step step;
  step.kind = Step::Kind::clip;
  step.clip = clip;
  step.value = value;
  step.per_group = perGroup;
  sideOf(c, key).steps.push_back(step);
}

MethodCase randomMethod(uint64_t seed) {
  std::mt19937_64 random(seed);
  MethodCase c;
  c.method.name = "random";
  c.method.kv_heads = pick(random, {1, 2, 3});
  c.method.q_heads = c.method.kv_heads * pick(random, {1, 2, 3, 4, 5, 7, 8, 11, 16});
  c.method.layers = pick(random, {1, 2});
  int keyDim = pick(random, {32, 64, 64, 96, 128, 128, 160, 192, 224, 256});
  int valueDim = random() % 3 ? keyDim : pick(random, {32, 64, 96, 128, 256});
  drawSide(c, true, keyDim, random);
  drawSide(c, false, valueDim, random);
  c.method.page = pick(random, {16, 32, 48, 64, 128});
  c.method.attention.scale = 1 / std::sqrt(float(keyDim));
  c.method.attention.rotate_query = random() % 4 != 0;
  c.method.attention.unrotate_output = random() % 4 != 0;
  c.method.attention.rows = pick(random, {ElementType::f16, ElementType::bf16, ElementType::f32});
  c.text = describe(c.method);
  return c;
}

std::vector<MethodCase> eightBitMethods() {
  const ParameterForm forms[] = {ParameterForm::min, ParameterForm::zero, ParameterForm::sym};
  const int bits[][2] = {{8, 8}, {8, 2}, {4, 8}};
  std::vector<MethodCase> cases;
  for (size_t i = 0; i < std::size(bits); ++i)
    for (size_t j = 0; j < std::size(forms); ++j) {
      MethodCase c = plainMethod(cases.size() % 2 ? 96 : 128, 64, 3);
      c.method.key.record.bits = bits[i][0], c.method.value.record.bits = bits[i][1];
      c.method.key.record.form = forms[j];
      c.method.value.record.form = forms[(i + j) % 3];
      c.method.key.record.group = cases.size() % 3 ? 32 : 0;
      c.method.attention.rows = ElementType::f32;
      c.text = describe(c.method);
      cases.push_back(c);
    }
  return cases;
}

Inputs makeInputs(const CacheMethod &method, int64_t tokens, int64_t batch, Data data,
                  uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> tailed(3);
  auto draw = [&] {
    return data == Data::heavyTailed ? std::clamp(tailed(random), -60.0f, 60.0f) : normal(random);
  };
  Inputs inputs;
  int keyDim = method.key.record.dim;
  inputs.k.resize(tokens * method.kv_heads * keyDim);
  inputs.v.resize(tokens * method.kv_heads * method.value.record.dim);
  inputs.q.resize(batch * method.q_heads * keyDim);
  std::generate(inputs.k.begin(), inputs.k.end(), draw);
  std::generate(inputs.v.begin(), inputs.v.end(), [&] { return draw() + 1.5f; });
  std::generate(inputs.q.begin(), inputs.q.end(), draw);
  if (data == Data::dominant && tokens) {
    // A flat tail: small keys. One key along the first query of its head, ln(tokens) + 6 above the
    // rest.
    for (float &x : inputs.k)
      x *= 0.05f;
    int64_t chosen = tokens / 3, ratio = method.q_heads / method.kv_heads;
    for (int head = 0; head < method.kv_heads; ++head) {
      const float *q = &inputs.q[head * ratio * keyDim];
      float norm = 0;
      for (int c = 0; c < keyDim; ++c)
        norm += q[c] * q[c];
      float gain = (std::log(float(tokens)) + 6) / (norm * method.attention.scale);
      for (int c = 0; c < keyDim; ++c)
        inputs.k[(chosen * method.kv_heads + head) * keyDim + c] = gain * q[c];
    }
  }
  return inputs;
}

} // namespace kvq::test
