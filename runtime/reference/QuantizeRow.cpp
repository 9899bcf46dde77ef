// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/reference/QuantizeRow.h"

#include "runtime/reference/Rotation.h"
#include "runtime/reference/convert.h"

namespace kvq {
namespace {

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Center and rotate steps. Returns the element type of the result.
ElementType moveRow(const SideMethod &side, const Constants &constants, RowPlace place,
                    std::vector<float> &row) {
  ElementType type = side.rows;
  for (const Step &step : side.steps) {
    if (step.kind == Step::Kind::clip)
      continue;
    if (step.kind == Step::Kind::center) {
      const float *mean = constants.slice(step.constant, place.layer, place.head);
      for (size_t i = 0; i < row.size(); ++i)
        row[i] -= mean[i];
    } else {
      rotateRow(step.factors, constants, place, row);
    }
    type = step.result;
    for (float &x : row)
      x = roundToElement(type, x);
  }
  return type;
}

/// NaN becomes 0 and an infinity the largest number, so that every row has codes and finite
/// parameters.
void makeFinite(std::vector<float> &row, ElementType type) {
  const float limit = largestFinite(type);
  for (float &x : row)
    x = std::isnan(x) ? 0 : x < -limit ? -limit : x > limit ? limit : x;
}

struct Range {
  float low, high;
};

/// Least and largest of `size` numbers.
Range rangeOf(const float *x, int size) {
  Range range = {x[0], x[0]};
  for (int i = 1; i < size; ++i) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
  }
  return range;
}

Range clipRange(const Step &step, const float *x, int size) {
  if (step.clip == Step::Clip::ratio) {
    const Range range = rangeOf(x, size);
    return {float(step.value) * range.low, float(step.value) * range.high};
  }
  float threshold = float(step.value);
  if (step.clip == Step::Clip::order_statistic) {
    std::vector<float> magnitudes(size);
    for (int i = 0; i < size; ++i)
      magnitudes[i] = std::fabs(x[i]);
    std::sort(magnitudes.begin(), magnitudes.end());
    threshold = magnitudes[std::min(int(step.value * size), size - 1)];
  }
  return {-threshold, threshold};
}

void clipRow(const SideMethod &side, const Step &step, std::vector<float> &row) {
  const int dim = int(row.size());
  const int size = step.per_group && side.record.group ? side.record.group : dim;
  for (int first = 0; first < dim; first += size) {
    const Range range = clipRange(step, &row[first], size);
    for (int i = first; i < first + size; ++i)
      row[i] = row[i] < range.low ? range.low : row[i] > range.high ? range.high : row[i];
  }
}

//===----------------------------------------------------------------------===//
// The writer's rule
//===----------------------------------------------------------------------===//

/// Codes and parameters of one group; the names are those of record.md section 4.
class GroupWriter {
public:
  GroupWriter(const SideMethod &side, QuantizedRow &out)
      : side(side), type(side.record.element), top(float((1 << side.record.bits) - 1)),
        shift(side.record.bits == 8 ? 128 : 0), out(out) {}

  void write(const float *x, int size) {
    const Range range = rangeOf(x, size);
    switch (side.record.form) {
    case ParameterForm::min:
      return writeMin(x, size, range);
    case ParameterForm::zero:
      return writeZero(x, size, range);
    default:
      return writeSym(x, size, std::max(std::fabs(range.low), std::fabs(range.high)));
    }
  }

private:
  void writeMin(const float *x, int size, Range range) {
    const float s = finite((range.high - range.low) / top);
    const float stored = putScale(s);
    if (stored == 0) {
      putZero(range.low);
      return putConstant(size);
    }
    const float step = exact() ? s : stored;
    const float m = finite(range.low + shift * step);
    const float storedMin = putZero(m);
    const float low = exact() ? m : storedMin;
    for (int i = 0; i < size; ++i)
      putCode((x[i] - low) / step, -shift, top - shift);
  }

  void writeZero(const float *x, int size, Range range) {
    const float s = finite(std::max(range.high - range.low, 1e-8f) / top);
    const float stored = value(bits(s));
    const float step = exact() ? s : stored;
    const float z = -range.low / step - shift;
    if (stored == 0 || !(std::fabs(z) <= largestFinite(type))) {
      const float v = value(bits((range.low + range.high) / 2));
      putScale(std::fabs(v));
      putZero(v > 0 ? -1.0f : v < 0 ? 1.0f : 0.0f);
      return putConstant(size);
    }
    putScale(s);
    const float storedZero = putZero(z);
    const float zero = exact() ? z : storedZero;
    for (int i = 0; i < size; ++i)
      putCode(x[i] / step + zero, -shift, top - shift);
  }

  void writeSym(const float *x, int size, float largest) {
    const bool wide = side.record.bits == 8; // codes -127..127 around 0
    const float mid = wide ? 0 : top / 2;
    const float s = finite(largest / (wide ? 127 : mid));
    const float stored = putScale(s);
    if (stored == 0)
      return putConstant(size);
    const float step = exact() ? s : stored;
    for (int i = 0; i < size; ++i)
      putCode(x[i] / step + mid, wide ? -127 : 0, wide ? 127 : top);
  }

  bool exact() const { return side.round.source == RoundRule::Source::exact; }

  static float finite(float x) { return std::min(std::max(x, -FLT_MAX), FLT_MAX); }
  uint32_t bits(float x) const { return storedBits(type, x); }
  float value(uint32_t bits) const { return decodeElement(type, bits); }

  float putScale(float scale) {
    out.scaleBits.push_back(bits(scale));
    out.scale.push_back(value(out.scaleBits.back()));
    return out.scale.back();
  }
  float putZero(float zero) {
    out.zeroBits.push_back(bits(zero));
    out.zero.push_back(value(out.zeroBits.back()));
    return out.zero.back();
  }

  void putConstant(int size) { out.codes.insert(out.codes.end(), size, 0); }

  void putCode(float position, float least, float largest) {
    const float code = side.round.tie == RoundRule::Tie::half_up ? std::floor(position + 0.5f)
                                                                 : std::nearbyint(position);
    out.codes.push_back(uint8_t(int(code < least ? least : code > largest ? largest : code)));
  }

  const SideMethod &side;
  const ElementType type; ///< of the parameters
  const float top;        ///< 2^bits - 1
  const float shift;      ///< code 0 of 8 bits is stored as -128
  QuantizedRow &out;
};

} // namespace

std::string refuseSide(const SideMethod &side) {
  const RecordSide &record = side.record;
  if (record.form == ParameterForm::norm)
    return "expected parameters of the form min, zero or sym, got norm";
  if (record.axis == ParameterAxis::channel)
    return "expected parameters along the axis token, got channel";
  if (record.outer != OuterScale::none)
    return std::string("expected no outer scale, got one along the axis ") +
           (record.outer == OuterScale::token ? "token" : "channel");
  return "";
}

QuantizedRow quantizeRow(const SideMethod &side, const Constants &constants, RowPlace place,
                         const float *row) {
  const int dim = side.record.dim, group = side.record.group ? side.record.group : dim;
  QuantizedRow out;
  out.rotated.assign(row, row + dim);
  makeFinite(out.rotated, moveRow(side, constants, place, out.rotated));
  out.clipped = out.rotated;
  for (const Step &step : side.steps)
    if (step.kind == Step::Kind::clip)
      clipRow(side, step, out.clipped);
  GroupWriter writer(side, out);
  for (int first = 0; first < dim; first += group)
    writer.write(&out.clipped[first], group);
  return out;
}

} // namespace kvq
