// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/kvq-run/Cache.h"

#include "runtime/format/sha256.h"
#include "runtime/reference/Append.h"
#include "runtime/reference/Rotation.h"
#include "runtime/reference/convert.h"

namespace kvq {
namespace {

RecordLayout layoutOf(const CacheMethod &method, int64_t page) {
  RecordSpec spec = method.record();
  spec.page = int(page);
  return buildRecord(spec);
}

std::string outcome(const char *call, kvq_status status) {
  return status == KVQ_OK
             ? ""
             : std::string(call) + ": " + kvq_status_name(status) + ": " + kvq_last_error();
}

std::vector<uint8_t> bytesOf(const TensorView &tensor) {
  const uint8_t *data = static_cast<const uint8_t *>(tensor.data.data);
  return {data, data + tensor.data.size};
}

/// A copy on the device.
template <typename T> Buffer copied(Device &device, const std::vector<T> &values) {
  Buffer buffer(device, values.size() * sizeof(T));
  device.write(buffer.data(), values.data(), values.size() * sizeof(T));
  return buffer;
}

std::string digestOf(const std::vector<uint8_t> &bytes) {
  return digestText(sha256(bytes.data(), bytes.size()));
}

std::vector<uint8_t> contents(const Buffer &buffer) {
  std::vector<uint8_t> bytes(buffer.bytes());
  buffer.read(bytes.data());
  return bytes;
}

/// Memory that is NaN until it is written.
Buffer poisoned(Device &device, size_t bytes) {
  Buffer buffer(device, bytes);
  buffer.fill(0xff);
  return buffer;
}

/// Decodes in a workspace of its own, and waits.
std::string attend(Device &device, kvq_library *library, kvq_decode_args args) {
  size_t bytes = 0;
  if (std::string error = outcome("workspace", kvq_workspace_size(library, &args, &bytes));
      !error.empty())
    return error;
  const Buffer workspace = poisoned(device, bytes);
  args.workspace = workspace.data(), args.workspace_bytes = bytes;
  if (std::string error =
          outcome("workspace", kvq_workspace_init(library, args.workspace, bytes, &args.execution));
      !error.empty())
    return error;
  std::string error = outcome("decode", kvq_decode(library, &args));
  if (error.empty())
    device.synchronize();
  return error;
}

} // namespace

LayerCache::LayerCache(Device &device, kvq_library *library, const CacheMethod &method,
                       const Trace &trace, int64_t page, int64_t layer)
    : device(device), library(library), method(method), trace(trace), layer(layer), page(page),
      pages((trace.tokens + page - 1) / page), layout(layoutOf(method, page)),
      pool(poisoned(device, size_t(pages * trace.kvHeads * layout.stride))) {
  for (int64_t i = 0; i < pages; ++i)
    table.push_back(int32_t(pages - 1 - i));
}

std::string LayerCache::append(const TraceLayer &tensors) {
  std::vector<int64_t> places;
  for (int64_t token = 0; token < trace.tokens; ++token)
    places.push_back(table[size_t(token / page)] * page + token % page);
  const Buffer keys = copied(device, bytesOf(*tensors.k)),
               values = copied(device, bytesOf(*tensors.v)), slots = copied(device, places);
  const int64_t row = trace.headDim * elementBytes(trace.element);
  kvq_token_args args = {};
  args.size = sizeof args;
  args.k = keys.data(), args.v = values.data();
  args.k_token_stride = args.v_token_stride = trace.kvHeads * row;
  args.k_head_stride = args.v_head_stride = row;
  args.slots = slots.data(), args.tokens = trace.tokens;
  args.pool = {pool.data(), trace.kvHeads * layout.stride, layout.stride, page};
  args.place.layer = layer;
  args.execution.stream = device.stream();
  std::string error = outcome("append", kvq_append(library, &args));
  if (!error.empty())
    return error;
  device.synchronize();
  records = contents(pool);
  written.cache = digestOf(records);
  return "";
}

std::vector<uint8_t> LayerCache::queries(const TraceLayer &tensors,
                                         const Constants &constants) const {
  std::vector<uint8_t> rows = bytesOf(*tensors.q);
  if (method.attention.rotate_query)
    return rows;
  // The library expects what a model with the rotation in W_Q would compute.
  const int64_t dim = trace.headDim, heads = trace.queryHeads, bytes = elementBytes(trace.element);
  for (int64_t i = 0; i < trace.queries() * heads; ++i) {
    std::vector<float> row(static_cast<size_t>(dim));
    readElements(*tensors.q, i * dim, dim, row.data());
    const RowPlace place = {layer, i % heads / (heads / trace.kvHeads)};
    for (const Step &step : method.key.steps)
      if (step.kind == Step::Kind::rotate)
        rotateRow(step.factors, constants, place, row);
    for (int64_t d = 0; d < dim; ++d) {
      const uint32_t bits = encodeElement(trace.element, row[size_t(d)]);
      std::memcpy(rows.data() + (i * dim + d) * bytes, &bits, size_t(bytes));
    }
  }
  return rows;
}

void LayerCache::unrotate(const Constants &constants, std::vector<double> &out) const {
  const int64_t dim = trace.headDim, heads = trace.queryHeads;
  for (int64_t i = 0; i < trace.queries() * heads; ++i) {
    std::vector<double> row(out.begin() + i * dim, out.begin() + (i + 1) * dim);
    const RowPlace place = {layer, i % heads / (heads / trace.kvHeads)};
    for (auto step = method.value.steps.rbegin(); step != method.value.steps.rend(); ++step)
      if (step->kind == Step::Kind::rotate)
        unrotateRow(step->factors, constants, place, row);
    std::copy(row.begin(), row.end(), out.begin() + i * dim);
  }
}

std::string LayerCache::decode(const TraceLayer &tensors, const Constants &constants,
                               AttentionResult &out) {
  const int64_t batch = trace.queries(), heads = trace.queryHeads, dim = trace.headDim;
  const int64_t row = dim * elementBytes(trace.element), elements = batch * heads * dim;
  std::vector<int32_t> ends;
  for (int64_t i = 0; i < batch; ++i)
    ends.push_back(int32_t(trace.queryStart + i + 1));
  const Buffer q = copied(device, queries(tensors, constants)), lengths = copied(device, ends),
               ids = copied(device, table);
  const Buffer rows = poisoned(device, size_t(batch * heads * row));
  const Buffer lse = poisoned(device, size_t(batch * heads) * sizeof(float));
  kvq_decode_args args = {};
  args.size = sizeof args;
  args.q = q.data(), args.out = rows.data();
  args.lse = reinterpret_cast<float *>(lse.data());
  args.q_token_stride = args.out_token_stride = heads * row;
  args.q_head_stride = args.out_head_stride = row;
  args.lse_token_stride = heads * 4, args.lse_head_stride = 4;
  args.pool = {pool.data(), trace.kvHeads * layout.stride, layout.stride, page};
  args.place.layer = layer;
  args.execution.stream = device.stream();
  // One row of the block table for all sequences.
  args.table.ids = reinterpret_cast<const int32_t *>(ids.data());
  args.table.columns = pages;
  args.lengths = reinterpret_cast<const int32_t *>(lengths.data()), args.batch = batch,
  args.max_length = trace.tokens;
  if (std::string error = attend(device, library, args); !error.empty())
    return error;
  const std::vector<uint8_t> outBytes = contents(rows), lseBytes = contents(lse);
  written.out = digestOf(outBytes), written.lse = digestOf(lseBytes);
  std::vector<float> sums(size_t(batch * heads));
  std::memcpy(sums.data(), lseBytes.data(), lseBytes.size());
  const TensorView view = {"out", tensors.q->type, {elements}, {outBytes.data(), outBytes.size()}};
  std::vector<float> values(static_cast<size_t>(elements));
  readElements(view, 0, elements, values.data());
  out.out.assign(values.begin(), values.end());
  out.lse.assign(sums.begin(), sums.end());
  if (!method.attention.unrotate_output)
    unrotate(constants, out.out);
  return "";
}

std::vector<double> LayerCache::dequantize(const Constants &constants, char side) const {
  std::vector<double> rows;
  rows.reserve(size_t(trace.kvHeads * trace.tokens * trace.headDim));
  for (int64_t head = 0; head < trace.kvHeads; ++head)
    for (int64_t token = 0; token < trace.tokens; ++token) {
      const int64_t record = table[size_t(token / page)] * trace.kvHeads + head;
      const uint8_t *at = records.data() + record * layout.stride;
      const std::vector<double> row =
          kvq::dequantize(method, layout, constants, {layer, head}, at, side, token % page);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  return rows;
}

} // namespace kvq
