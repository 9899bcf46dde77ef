// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// graph-check: append, plan and decode captured in a CUDA graph, replayed over other tokens,
// lengths, pages and batches, against the same calls without a graph; and what the runtime asked of
// the driver meanwhile.
#include "tools/device/CudaDriver.h"
#include "tools/gpu-check/Rows.h"
#include "tools/gpu-check/Subject.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>

namespace kvq {
namespace {

using namespace cuda;

constexpr const char *kUsage = R"(usage: graph-check LIBRARY...
Captures append, plan and decode of each library (.kvqlib) in a CUDA graph, for 1 and for 4 query
tokens, split by load and in fixed splits, and replays it with other lengths, pages and numbers of
sequences: the bits must be those of the calls without a graph. While it captures, the runtime must
not allocate, copy or load; it is given a driver that counts. Lengths beyond the page table must be
clamped to it, and told. Prints the seconds that opening,
loading and a first step of all libraries take. Exit status 0 if all is as it should be.
)";

constexpr int64_t kBatch = 6, kPage = 64, kColumns = 20, kSteps = 3;

/// The driver that the runtime sees: launches counted apart from all else.
struct CountingDriver {
  Driver driver;
  int launches = 0, others = 0;
};

CountingDriver &counting() {
  static CountingDriver it;
  return it;
}

Result countLaunch(const LaunchConfig *config, Function function, void **parameters, void **extra) {
  ++counting().launches;
  return toolDriver().base->launchKernelEx(config, function, parameters, extra);
}
Result countAlloc(DevicePointer *pointer, size_t bytes) {
  ++counting().others;
  return toolDriver().base->memAlloc(pointer, bytes);
}
Result countFree(DevicePointer pointer) {
  ++counting().others;
  return toolDriver().base->memFree(pointer);
}
Result countCopy(DevicePointer to, const void *from, size_t bytes) {
  ++counting().others;
  return toolDriver().base->memcpyHtoD(to, from, bytes);
}
Result countLoad(Module *module, const void *image, unsigned options, JitOption *keys,
                 void **values) {
  ++counting().others;
  return toolDriver().base->moduleLoadDataEx(module, image, options, keys, values);
}

/// The runtime's table has no function that waits for a device: it cannot synchronize.
void installCountingDriver() {
  Driver &driver = counting().driver;
  driver = *toolDriver().base;
  driver.launchKernelEx = countLaunch;
  driver.memAlloc = countAlloc, driver.memFree = countFree;
  driver.memcpyHtoD = countCopy, driver.moduleLoadDataEx = countLoad;
  setFindDriver([](const Driver *&out) -> Status {
    out = &counting().driver;
    return {};
  });
}

/// A cache and everything that a step reads and writes, at addresses that stay.
class Step {
public:
  Step(const Subject &subject, int64_t qLength, int64_t splitTokens)
      : subject(subject), method(subject.method), qLength(qLength), layout(subject.layout(kPage)),
        pageStride(layout.stride * method.kv_heads), tokens(kBatch * kColumns * kPage),
        rowBytes(elementBytes(method.attention.rows)),
        pool(subject.device, size_t(kBatch * kColumns * pageStride)),
        keys(subject.device, size_t(tokens * method.kv_heads * keyRow())),
        values(subject.device, size_t(tokens * method.kv_heads * valueRow())),
        slots(subject.device, size_t(8 * tokens)),
        queries(subject.device, size_t(kBatch * qLength * method.q_heads * queryRow())),
        out(subject.device, size_t(kBatch * qLength * method.q_heads * outRow())),
        lse(subject.device, size_t(4 * kBatch * qLength * method.q_heads)),
        table(subject.device, size_t(4 * kBatch * kColumns)),
        lengths(subject.device, size_t(4 * kBatch)) {
    args(splitTokens);
    require("workspace size",
            kvq_workspace_size(subject.library.get(), &decode, &decode.workspace_bytes));
    workspace.emplace(subject.device, decode.workspace_bytes);
    decode.workspace = workspace->data();
    require("workspace", kvq_workspace_init(subject.library.get(), decode.workspace,
                                            decode.workspace_bytes, &decode.execution));
  }

  /// Other rows, lengths, pages and slots; sequences past a random number are empty.
  void randomize(uint64_t seed) {
    std::mt19937_64 random(seed);
    fillRows(keys, method.key.rows, random), fillRows(values, method.value.rows, random);
    fillRows(queries, method.attention.rows, random);
    std::vector<int32_t> ids(kBatch * kColumns), counts(kBatch);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    const int64_t sequences = 1 + int64_t(random() % kBatch);
    for (int64_t i = 0; i < sequences; ++i)
      counts[size_t(i)] = int32_t(seed == 0 ? 1 : random() % (kColumns * kPage + 1));
    std::vector<int64_t> places(size_t(tokens), -1);
    int64_t next = 0;
    for (int64_t i = 0; i < kBatch; ++i)
      for (int64_t t = 0; t < counts[size_t(i)]; ++t)
        places[size_t(next++)] = ids[size_t(i * kColumns + t / kPage)] * kPage + t % kPage;
    table.write(ids.data()), lengths.write(counts.data()), slots.write(places.data());
    pool.fill(0xff), out.fill(0x77), lse.fill(0x77);
  }

  /// Every sequence as long as the table, and `more` tokens longer.
  void lengthen(int32_t more) {
    const std::vector<int32_t> counts(kBatch, int32_t(kColumns * kPage) + more);
    lengths.write(counts.data());
  }

  /// What kernels met so far (KVQ_FAULT_LENGTH).
  uint32_t faults() const {
    subject.device.synchronize();
    std::vector<uint32_t> words(workspace->bytes() / 4 + 1);
    workspace->read(words.data());
    return words[0];
  }

  void launch() {
    require("append", kvq_append(subject.library.get(), &append));
    require("plan", kvq_plan(subject.library.get(), &decode));
    require("decode", kvq_decode(subject.library.get(), &decode));
  }

  std::vector<uint8_t> results() const {
    subject.device.synchronize();
    std::vector<uint8_t> bytes(pool.bytes() + out.bytes() + lse.bytes());
    pool.read(bytes.data());
    out.read(bytes.data() + pool.bytes());
    lse.read(bytes.data() + pool.bytes() + out.bytes());
    return bytes;
  }

private:
  int64_t keyRow() const { return method.key.record.dim * elementBytes(method.key.rows); }
  int64_t valueRow() const { return method.value.record.dim * elementBytes(method.value.rows); }
  int64_t queryRow() const { return method.key.record.dim * rowBytes; }
  int64_t outRow() const { return method.value.record.dim * rowBytes; }

  void fillRows(const Buffer &buffer, ElementType type, std::mt19937_64 &random) const {
    std::vector<float> rows(buffer.bytes() / size_t(elementBytes(type)));
    for (float &x : rows)
      x = float(int64_t(random() % 2001) - 1000) / 500;
    const EncodedRows encoded = encodeRows(type, rows, 1, 1, int64_t(rows.size()), 0);
    buffer.write(encoded.bytes.data());
  }

  void args(int64_t splitTokens) {
    append.size = sizeof append;
    append.k = keys.data(), append.k_head_stride = keyRow();
    append.k_token_stride = method.kv_heads * keyRow();
    append.v = values.data(), append.v_head_stride = valueRow();
    append.v_token_stride = method.kv_heads * valueRow();
    append.slots = slots.data(), append.tokens = tokens;
    append.pool = {pool.data(), pageStride, layout.stride, kPage};
    append.place.layer = subject.layer;
    append.execution.stream = subject.device.stream();
    decode.size = sizeof decode;
    decode.q = queries.data(), decode.q_head_stride = queryRow();
    decode.q_token_stride = method.q_heads * queryRow();
    decode.out = out.data(), decode.out_head_stride = outRow();
    decode.out_token_stride = method.q_heads * outRow();
    decode.lse = reinterpret_cast<float *>(lse.data()), decode.lse_head_stride = 4;
    decode.lse_token_stride = 4 * method.q_heads;
    decode.q_length = qLength, decode.pool = append.pool;
    decode.table = {reinterpret_cast<const int32_t *>(table.data()), nullptr, 4 * kColumns,
                    kColumns};
    decode.lengths = reinterpret_cast<const int32_t *>(lengths.data());
    decode.batch = kBatch, decode.max_length = kColumns * kPage;
    decode.split_tokens = splitTokens, decode.flags = KVQ_DECODE_PLANNED;
    decode.place = append.place, decode.execution = append.execution;
  }

  const Subject &subject;
  const CacheMethod &method;
  int64_t qLength;
  RecordLayout layout;
  int64_t pageStride, tokens, rowBytes;
  Buffer pool, keys, values, slots, queries, out, lse, table, lengths;
  std::optional<Buffer> workspace;
  kvq_token_args append = {};
  kvq_decode_args decode = {};
};

/// Empty, or what went wrong.
std::string checkGraph(const Subject &subject, int64_t qLength, int64_t splitTokens) {
  const ToolDriver &driver = toolDriver();
  Step step(subject, qLength, splitTokens);
  const auto stream = static_cast<Stream>(subject.device.stream());
  step.randomize(0); // lengths of 1
  subject.device.synchronize();
  const int launches = counting().launches, others = counting().others;
  constexpr int kRelaxed = 2;
  requireCuda("cuStreamBeginCapture", driver.streamBeginCapture(stream, kRelaxed));
  step.launch();
  Graph graph = nullptr;
  requireCuda("cuStreamEndCapture", driver.streamEndCapture(stream, &graph));
  if (counting().launches - launches != 4 || counting().others != others)
    return "expected 4 launches and nothing else of the driver, got " +
           std::to_string(counting().launches - launches) + " and " +
           std::to_string(counting().others - others);
  GraphExec exec = nullptr;
  requireCuda("cuGraphInstantiate", driver.graphInstantiate(&exec, graph, 0));
  requireCuda("cuGraphDestroy", driver.graphDestroy(graph));
  std::string failure;
  for (int64_t i = 1; i <= kSteps && failure.empty(); ++i) {
    step.randomize(uint64_t(i));
    requireCuda("cuGraphLaunch", driver.graphLaunch(exec, stream));
    const std::vector<uint8_t> replayed = step.results();
    step.randomize(uint64_t(i));
    step.launch();
    if (replayed != step.results())
      failure = "replay " + std::to_string(i) + ": the bits differ from those without a graph";
  }
  requireCuda("cuGraphExecDestroy", driver.graphExecDestroy(exec));
  return failure;
}

/// A length beyond the table is clamped to it, and told.
std::string checkClamp(const Subject &subject) {
  Step step(subject, 1, 0);
  step.randomize(1);
  step.lengthen(0);
  step.launch();
  const std::vector<uint8_t> expected = step.results();
  if (step.faults())
    return "lengths that the table holds: expected no fault, got " + std::to_string(step.faults());
  step.randomize(1);
  step.lengthen(1000);
  step.launch();
  if (step.results() != expected)
    return "lengths beyond the table: the bits differ from those of the longest that it holds";
  return step.faults() == KVQ_FAULT_LENGTH
             ? ""
             : "lengths beyond the table: expected a fault, got " + std::to_string(step.faults());
}

double secondsOf(const std::function<void()> &work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Opening, loading and the first step of each library, one after the other, in seconds.
double coldStart(const std::vector<std::string> &paths, Device &device) {
  double seconds = 0;
  for (const std::string &path : paths) {
    std::unique_ptr<Subject> subject;
    seconds += secondsOf([&] {
      subject = std::make_unique<Subject>(path, device);
      require("load", kvq_load(subject->library.get(), -1));
    });
    Step step(*subject, 1, 0);
    step.randomize(0);
    device.synchronize();
    seconds += secondsOf([&] {
      step.launch();
      device.synchronize();
    });
  }
  return seconds;
}

int run(const std::vector<std::string> &paths) {
  installCountingDriver();
  const std::unique_ptr<Device> device = openCudaDevice();
  std::printf("opened %zu libraries, each with a first step, in %.3f s\n", paths.size(),
              coldStart(paths, *device));
  int failures = 0;
  for (const std::string &path : paths) {
    const Subject subject(path, *device);
    require("load", kvq_load(subject.library.get(), -1));
    if (const std::string failure = checkClamp(subject); !failure.empty()) {
      ++failures;
      std::printf("FAIL %s: %s\n", subject.name.c_str(), failure.c_str());
    }
    for (int64_t qLength : {1, 4})
      for (int64_t split : {0, 512}) {
        const std::string failure = checkGraph(subject, qLength, split);
        if (failure.empty())
          continue;
        ++failures;
        std::printf("FAIL %s, q_length %d, split_tokens %d: %s\n", subject.name.c_str(),
                    int(qLength), int(split), failure.c_str());
      }
  }
  std::printf("%zu libraries, %d failures\n", paths.size(), failures);
  return failures ? 1 : 0;
}

} // namespace
} // namespace kvq

int main(int argc, char **argv) {
  const std::vector<std::string> paths(argv + 1, argv + argc);
  if (paths.empty() || paths.front().rfind("--", 0) == 0) {
    std::fputs(kvq::kUsage, paths.empty() || paths.front() != "--help" ? stderr : stdout);
    return paths.empty() || paths.front() != "--help" ? 2 : 0;
  }
  try {
    return kvq::run(paths);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "graph-check: %s\n", error.what());
    return 1;
  }
}
