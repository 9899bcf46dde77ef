// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/reference/Append.h"

#include "runtime/reference/Rotation.h"
#include "runtime/reference/convert.h"

namespace kvq {

void appendToken(const CacheMethod &method, const RecordLayout &layout, const Constants &constants,
                 RowPlace place, uint8_t *page, int64_t position, const float *key,
                 const float *value) {
  auto put = [&](char name, const SideMethod &side, const float *row) {
    const QuantizedRow quantized = quantizeRow(side, constants, place, row);
    putToken(layout, page, name, position,
             {quantized.codes, quantized.scaleBits, quantized.zeroBits});
  };
  put('k', method.key, key);
  put('v', method.value, value);
}

/// The number that a code stands for.
static double valueOf(const RecordSide &record, int code, double scale, double zero) {
  switch (record.form) {
  case ParameterForm::min:
    return scale * code + zero;
  case ParameterForm::zero:
    return (code - zero) * scale;
  default:
    return scale * (code - (record.bits == 8 ? 0 : ((1 << record.bits) - 1) / 2.0));
  }
}

void toModelBasis(const SideMethod &side, const Constants &constants, RowPlace place,
                  std::vector<double> &row) {
  for (auto step = side.steps.rbegin(); step != side.steps.rend(); ++step) {
    if (step->kind == Step::Kind::rotate)
      unrotateRow(step->factors, constants, place, row);
    if (step->kind == Step::Kind::center) {
      const float *mean = constants.slice(step->constant, place.layer, place.head);
      for (size_t i = 0; i < row.size(); ++i)
        row[i] += double(mean[i]);
    }
  }
}

std::vector<double> dequantize(const CacheMethod &method, const RecordLayout &layout,
                               const Constants &constants, RowPlace place, const uint8_t *page,
                               char side, int64_t position, RowBasis basis) {
  const SideMethod &source = side == 'k' ? method.key : method.value;
  const RecordSide &record = source.record;
  const TokenBits bits = getToken(layout, page, side, position);
  const int group = record.group ? record.group : record.dim;
  std::vector<double> row(record.dim);
  for (int i = 0; i < record.dim; ++i) {
    const int code = record.bits == 8 ? int8_t(bits.codes[i]) : bits.codes[i];
    const double scale = decodeElement(record.element, bits.scale[i / group]);
    const double zero = bits.zero.empty() ? 0 : decodeElement(record.element, bits.zero[i / group]);
    row[i] = valueOf(record, code, scale, zero);
  }
  if (basis == RowBasis::model)
    toModelBasis(source, constants, place, row);
  return row;
}

} // namespace kvq
