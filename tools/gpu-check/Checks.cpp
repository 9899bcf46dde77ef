// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/gpu-check/Checks.h"

#include "tools/gpu-check/DecodeCheck.h"
#include "tools/gpu-check/PageCheck.h"
#include "tools/gpu-check/TokenCheck.h"

#include <algorithm>
#include <chrono>
#include <random>

namespace kvq {
namespace {

constexpr int64_t kPages[] = {16, 32, 64, 128};
constexpr int64_t kLongLength = 16384;           ///< longer sequences are checked alone
constexpr int64_t kPoolBytes = int64_t(9) << 29; ///< 4.5 GiB

/// Runs a check and times it.
template <typename Fn> bool run(const std::function<void(const CheckResult &)> &done, Fn check) {
  const auto start = std::chrono::steady_clock::now();
  CheckResult result = check();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  done(result);
  return result.failure.empty();
}

std::vector<int64_t> pagesFor(const Subject &subject) {
  std::vector<int64_t> out;
  for (int64_t page : kPages)
    if (page % subject.method.record().block == 0)
      out.push_back(page);
  return out;
}

/// Ragged lengths twice for each kind, in pages of two sizes, one sequence empty; long ones alone.
void checkKind(const Subject &subject, const CheckPlan &plan, size_t index,
               const std::function<void(const CheckResult &)> &done) {
  const RowKind &kind = plan.kinds[index];
  const std::vector<int64_t> pages = pagesFor(subject);
  std::vector<int64_t> ragged;
  for (int64_t length : plan.lengths)
    if (length <= kLongLength)
      ragged.push_back(length);
  for (size_t i = 2 * index; !ragged.empty() && i < 2 * index + 2; ++i) {
    SceneSpec spec = sceneOf(subject, kind, 2, pages[i % pages.size()], 10 + i);
    spec.lengths = ragged;
    std::shuffle(spec.lengths.begin(), spec.lengths.end(), std::mt19937_64(i));
    run(done, [&] {
      return checkDecode(subject, "ragged " + kind.name() + ", page " + std::to_string(spec.page),
                         spec);
    });
  }
  for (int64_t length : plan.lengths) {
    if (length <= kLongLength)
      continue;
    SceneSpec spec = sceneOf(subject, kind, 1, pages[(index + 2) % pages.size()], 90 + index);
    spec.lengths = {length};
    run(done, [&] {
      return checkDecode(subject, "length " + std::to_string(length) + " " + kind.name(), spec);
    });
  }
}

/// Every head of the model, more sequences than teams of the device can have at one head each.
void checkManySequences(const Subject &subject, const RowKind &kind,
                        const std::function<void(const CheckResult &)> &done) {
  SceneSpec spec = sceneOf(subject, kind, subject.method.kv_heads, subject.method.page, 50);
  std::mt19937_64 random(spec.seed);
  const int64_t count = std::max<int64_t>(3, 160 / subject.method.kv_heads);
  for (int64_t i = 0; i < count; ++i)
    spec.lengths.push_back(i % 9 == 4 ? 0 : int64_t(random() % 230));
  run(done, [&] { return checkDecode(subject, "many sequences " + kind.name(), spec); });
}

/// Pages on both sides of 2 GiB and 4 GiB, and 200000 tokens.
void checkLargePool(const Subject &subject, const RowKind &kind,
                    const std::function<void(const CheckResult &)> &done) {
  run(done, [&] { return checkFarPages(subject, kind, kPoolBytes); });
  run(done, [&] { return checkRowsAlone(subject, kind, 200000, kPoolBytes); });
  SceneSpec spec = sceneOf(subject, kind, 2, subject.method.page, 70);
  spec.lengths = {65, 1000, 2000, 17};
  spec.poolBytes = kPoolBytes;
  run(done, [&] { return checkDecode(subject, "pool of 4.5 GiB " + kind.name(), spec); });
}

/// What a caller may ask for at run time: query heads of a KV head within and beyond the row class,
/// several query tokens, a sliding window at the ends of tiles, learned sinks, both forms of
/// tables.
void checkModifiers(const Subject &subject, const CheckPlan &plan,
                    const std::function<void(const CheckResult &)> &done) {
  struct Modifier {
    int group, qLength;
    int64_t window;
    bool sinks, indptr;
  };
  const int most = subject.group();
  const Modifier all[] = {{1, 1, 0, false, false},        {std::max(1, most - 1), 1, 0, true, true},
                          {most + 1, 1, 63, false, true}, {most, 2, 65, true, false},
                          {3, 5, 1, false, true},         {1, 16, 128, true, true},
                          {5, 4, 0, false, false},        {32, 1, 1000, true, true}};
  for (size_t i = 0; i < std::size(all); ++i) {
    const RowKind &kind = plan.kinds[i % plan.kinds.size()];
    SceneSpec spec = sceneOf(subject, kind, 2, i % 2 ? 64 : 32, 200 + i);
    spec.group = all[i].group, spec.qLength = all[i].qLength, spec.window = all[i].window;
    spec.sinks = all[i].sinks, spec.indptr = all[i].indptr;
    spec.lengths = {65, 0, 1, 1100, 64, 17, 3, 4097, 128};
    run(done, [&] {
      return checkDecode(subject,
                         "group " + std::to_string(spec.group) + ", q_length " +
                             std::to_string(spec.qLength) + ", window " +
                             std::to_string(spec.window) + (spec.sinks ? ", sinks" : "") +
                             (spec.indptr ? ", indptr " : " ") + kind.name(),
                         spec);
    });
  }
}

/// Sequences with other numbers of query tokens each: none, the most, more than the sequence has.
void checkRaggedQueries(const Subject &subject, const CheckPlan &plan,
                        const std::function<void(const CheckResult &)> &done) {
  for (size_t i = 0; i < 2; ++i) {
    const RowKind &kind = plan.kinds[i % plan.kinds.size()];
    SceneSpec spec = sceneOf(subject, kind, 2, i ? 64 : 32, 300 + i);
    spec.lengths = {65, 0, 1, 1100, 64, 17, 3, 40, 128};
    spec.qLengths = {2, KVQ_MAX_Q_LENGTH, 1, 5, 0, 8, 7, KVQ_MAX_Q_LENGTH, 3};
    spec.window = i ? 33 : 0, spec.sinks = i;
    run(done, [&] {
      return checkDecode(subject,
                         "q_length 0 to 16, window " + std::to_string(spec.window) +
                             (spec.sinks ? ", sinks " : " ") + kind.name(),
                         spec);
    });
  }
}

/// The calls beside append and decode.
void checkOtherCalls(const Subject &subject, const RowKind &kind,
                     const std::function<void(const CheckResult &)> &done) {
  for (bool stored : {true, false})
    run(done, [&] { return checkDequantize(subject, kind, stored); });
  if (hasWindows(subject))
    for (int64_t step : {1, 8, 64})
      run(done, [&] { return checkWindow(subject, kind, step); });
}

} // namespace

void checkLibrary(const Subject &subject, const CheckPlan &plan,
                  const std::function<void(const CheckResult &)> &done) {
  bool passed = true;
  const std::vector<int64_t> pages = pagesFor(subject);
  for (size_t i = 0; i < std::max(pages.size(), plan.kinds.size()); ++i)
    passed &= run(done, [&] {
      return checkAppend(subject, plan.kinds[i % plan.kinds.size()], pages[i % pages.size()],
                         i + 1);
    });
  if (!passed)
    return;
  checkOtherCalls(subject, plan.kinds.front(), done);
  if (hasWindows(subject))
    return; // scenes without windows are of no use to it
  for (size_t i = 0; i < plan.kinds.size(); ++i)
    checkKind(subject, plan, i, done);
  checkManySequences(subject, plan.kinds.front(), done);
  checkModifiers(subject, plan, done);
  checkRaggedQueries(subject, plan, done);
  run(done, [&] { return checkMovedPages(subject, plan.kinds.front()); });
  run(done, [&] { return checkSharedPages(subject, plan.kinds.front()); });
  run(done, [&] { return checkRowsAlone(subject, plan.kinds.front(), 300, 0); });
  if (plan.large)
    checkLargePool(subject, plan.kinds.front(), done);
}

} // namespace kvq
