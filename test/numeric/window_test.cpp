// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU tile ops on window rows, in a module of their own, against attention in double over the
// stored rows. Rows that do not count are NaN.
#include "codegen/Passes.h"
#include "codegen/artifact/CompileCpu.h"
#include "codegen/conversion/Workspace.h"
#include "codegen/target/CpuObject.h"
#include "codegen/target/Link.h"
#include "runtime/reference/convert.h"
#include "test/numeric/SharedObject.h"
#include "test/support/Lcg.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <vector>

namespace kvq::test {
namespace {

using mlir::kvq::CpuLevel;

struct Shape {
  int keyDim, valueDim, bits, group, queries;
  ElementType element;
};

/// DK, DV, BITS, GROUP, QUERIES, ELEMENT and the bytes of a query and of 16 rows are filled in.
constexpr char kModule[] = R"(
#k = #kvq.tile_side<dim = DK, bits = BITS, group = GROUP, form = "min", params = f16>
#v = #kvq.tile_side<dim = DV, bits = BITS, group = DV, form = "min", params = f16>
#record = #kvq.tile_record<k = #k, v = #v>
func.func @attend(%k: !llvm.ptr, %v: !llvm.ptr, %begin: i64, %end: i64, %tiles: i64, %q: !llvm.ptr, %w: !llvm.ptr,
                  %partial: !llvm.ptr) {
  %c0 = arith.constant 0 : i64
  %c1 = arith.constant 1 : i64
  %c16 = arith.constant 16 : i64
  %queries = arith.constant QUERIES : i64
  %qb = arith.constant QUERYBYTES : i64
  %kb = arith.constant KEYBYTES : i64
  %vb = arith.constant VALUEBYTES : i64
  %shift = arith.constant 0.0 : f32
  scf.for %i = %c0 to %queries step %c1 : i64 {
    %at = arith.muli %i, %qb : i64
    %address = llvm.getelementptr %q[%at] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %row = kvq.tile.load_row %address {element = f32} : (!llvm.ptr) -> !kvq.tile_row<DK>
    kvq.tile.store_query %row, %shift, %w, %i {record = #record, queries = QUERIES : i64}
      : (!kvq.tile_row<DK>, f32, !llvm.ptr, i64) -> ()
  }
  %query = kvq.tile.load_query %w {record = #record, queries = QUERIES : i64} : (!llvm.ptr) -> !kvq.fragment<query>
  %t0 = kvq.tile.init_softmax {queries = QUERIES : i64} : () -> !kvq.fragment<softmax>
  %o0 = kvq.tile.init_output {record = #record, queries = QUERIES : i64} : () -> !kvq.fragment<output>
  %r:2 = scf.for %i = %c0 to %tiles step %c1 iter_args(%t = %t0, %o = %o0)
      -> (!kvq.fragment<softmax>, !kvq.fragment<output>) : i64 {
    %first = arith.muli %i, %c16 : i64
    %b = arith.subi %begin, %first : i64
    %e = arith.subi %end, %first : i64
    %ko = arith.muli %i, %kb : i64
    %vo = arith.muli %i, %vb : i64
    %keys = llvm.getelementptr %k[%ko] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %values = llvm.getelementptr %v[%vo] : (!llvm.ptr, i64) -> !llvm.ptr, i8
    %s0 = kvq.tile.dot_rows %keys, %b, %e, %query {record = #record, queries = QUERIES : i64, element = ELEMENT}
      : (!llvm.ptr, i64, i64, !kvq.fragment<query>) -> !kvq.fragment<scores>
    %s1 = kvq.tile.mask_rows %s0, %b, %e {queries = QUERIES : i64}
      : (!kvq.fragment<scores>, i64, i64) -> !kvq.fragment<scores>
    %t1, %p, %f = kvq.tile.softmax %t, %s1 {queries = QUERIES : i64} : (!kvq.fragment<softmax>, !kvq.fragment<scores>)
      -> (!kvq.fragment<softmax>, !kvq.fragment<probs>, !kvq.fragment<factors>)
    %o1 = kvq.tile.rescale %o, %f {record = #record, queries = QUERIES : i64}
      : (!kvq.fragment<output>, !kvq.fragment<factors>) -> !kvq.fragment<output>
    %o2 = kvq.tile.accumulate_rows %o1, %values, %b, %e, %p
      {record = #record, queries = QUERIES : i64, element = ELEMENT}
      : (!kvq.fragment<output>, !llvm.ptr, i64, i64, !kvq.fragment<probs>) -> !kvq.fragment<output>
    scf.yield %t1, %o2 : !kvq.fragment<softmax>, !kvq.fragment<output>
  }
  kvq.tile.flush %r#1, %r#0, %partial {record = #record, queries = QUERIES : i64}
    : (!kvq.fragment<output>, !kvq.fragment<softmax>, !llvm.ptr) -> ()
  return
}
)";

std::string moduleOf(const Shape &shape) {
  const std::pair<const char *, std::string> words[] = {
      {"QUERYBYTES", std::to_string(4 * shape.keyDim)},
      {"KEYBYTES", std::to_string(32 * shape.keyDim)},
      {"VALUEBYTES", std::to_string(32 * shape.valueDim)},
      {"QUERIES", std::to_string(shape.queries)},
      {"ELEMENT", elementName(shape.element)},
      {"GROUP", std::to_string(shape.group)},
      {"BITS", std::to_string(shape.bits)},
      {"DK", std::to_string(shape.keyDim)},
      {"DV", std::to_string(shape.valueDim)}};
  std::string text = kModule;
  for (const auto &[word, value] : words)
    text = std::regex_replace(text, std::regex(word), value);
  return text;
}

/// Null after a diagnostic.
std::unique_ptr<SharedObject> compile(const Shape &shape, CpuLevel level) {
  mlir::MLIRContext context;
  context.disableMultithreading();
  mlir::kvq::loadCodegenDialects(context);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(moduleOf(shape), &context);
  mlir::PassManager passes(&context);
  mlir::kvq::buildCpuToLlvmPipeline(passes, mlir::kvq::featuresOf(level));
  if (!module || mlir::failed(passes.run(*module)))
    return nullptr;
  llvm::LLVMContext llvmContext;
  auto code = mlir::kvq::translateToLlvm(*module, llvmContext, level);
  if (!code)
    return nullptr;
  auto object = mlir::kvq::emitObject(*code, level, module->getLoc());
  if (mlir::failed(object))
    return nullptr;
  auto shared = mlir::kvq::linkShared(*object, module->getLoc());
  return mlir::failed(shared) ? nullptr : SharedObject::load(*shared);
}

/// Rows of one side, 64-byte aligned as the pages of an engine are, and what they hold.
class StoredRows {
public:
  StoredRows(ElementType element, int64_t count, int dim, double mean, Lcg &random)
      : dim(dim), storage(count * dim + 32), numbers(count * dim) {
    first =
        reinterpret_cast<uint16_t *>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double x = mean + 4 * (random.uniform() + random.uniform() - 1);
      first[i] = static_cast<uint16_t>(encodeElement(element, float(x)));
      numbers[i] = decodeElement(element, first[i]);
    }
  }

  void spoil(int64_t row) { std::fill_n(first + row * dim, dim, uint16_t(0x7fff)); }
  double at(int64_t row, int channel) const { return numbers[row * dim + channel]; }
  uint16_t *first;

private:
  int dim;
  std::vector<uint16_t> storage;
  std::vector<double> numbers;
};

/// 64-byte aligned floats, NaN.
class Floats {
public:
  explicit Floats(int64_t count) : storage(count + 16, NAN) {
    first = reinterpret_cast<float *>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
  }
  float *first;

private:
  std::vector<float> storage;
};

void check(const Shape &shape, CpuLevel level, int64_t begin, int64_t end, double spread) {
  auto library = compile(shape, level);
  ASSERT_TRUE(library);
  // The first tile is the one of row `begin`; in the last one no row counts.
  const int64_t before = begin / 16 * 16, tiles = (end + 15) / 16 - begin / 16 + 1;
  const int64_t rows = before + 16 * tiles;
  Lcg random(begin + end);
  StoredRows k(shape.element, rows, shape.keyDim, 0, random);
  StoredRows v(shape.element, rows, shape.valueDim, 1.5, random);
  for (int64_t row = 0; row < rows; ++row)
    if (row < begin || row >= end)
      k.spoil(row), v.spoil(row);
  Floats q(int64_t(shape.queries) * shape.keyDim);
  for (int64_t i = 0; i < int64_t(shape.queries) * shape.keyDim; ++i)
    q.first[i] = float(spread * (random.uniform() - 0.5) / std::sqrt(shape.keyDim));
  const mlir::kvq::Workspace space{shape.queries, shape.keyDim, shape.keyDim / shape.group,
                                   shape.valueDim};
  Floats workspace(space.queryFloats()), partial(space.partialFloats());
  using Attend = void(void *, void *, int64_t, int64_t, int64_t, float *, float *, float *);
  auto *attend = library->find<Attend>("attend");
  ASSERT_TRUE(attend);
  attend(k.first + before * shape.keyDim, v.first + before * shape.valueDim, begin - before,
         end - before, tiles, q.first, workspace.first, partial.first);

  for (int query = 0; query < shape.queries; ++query) {
    std::vector<double> scores;
    for (int64_t row = begin; row < end; ++row) {
      double score = 0;
      for (int channel = 0; channel < shape.keyDim; ++channel)
        score += q.first[query * shape.keyDim + channel] * k.at(row, channel);
      scores.push_back(score);
    }
    const double most = *std::max_element(scores.begin(), scores.end());
    double sum = 0, error = 0, norm = 0;
    for (double score : scores)
      sum += std::exp(score - most);
    const float *out = partial.first + query * shape.valueDim;
    const double gotMost = partial.first[space.partialMaxima() + query];
    const double gotSum = partial.first[space.partialSums() + query];
    for (int channel = 0; channel < shape.valueDim; ++channel) {
      double expected = 0;
      for (int64_t row = begin; row < end; ++row)
        expected += std::exp(scores[row - begin] - most) / sum * v.at(row, channel);
      error += std::pow(out[channel] / gotSum - expected, 2), norm += expected * expected;
    }
    EXPECT_LT(std::sqrt(error / norm), 1e-5) << "query " << query;
    EXPECT_NEAR(gotMost + std::log(gotSum), most + std::log(sum), 1e-5) << "query " << query;
  }
}

const Shape kShapes[] = {{64, 64, 2, 64, 1, ElementType::bf16},
                         {128, 128, 2, 128, 4, ElementType::f16},
                         {96, 160, 4, 32, 3, ElementType::bf16},
                         {160, 32, 8, 32, 8, ElementType::f16}};

TEST(Window, RowsOfEveryRecord) {
  for (const Shape &shape : kShapes)
    for (CpuLevel level : {CpuLevel::baseline, mlir::kvq::hostCpuLevel()}) {
      SCOPED_TRACE(std::to_string(shape.keyDim) + " " + mlir::kvq::cpuLevelName(level).str());
      check(shape, level, 0, 16, 4);
      check(shape, level, 5, 41, 40);
    }
}

TEST(Window, OneRow) {
  for (int64_t row : {0, 7, 15, 16, 40})
    check(kShapes[1], mlir::kvq::hostCpuLevel(), row, row + 1, 10);
}

TEST(Window, ManyRows) { check(kShapes[1], mlir::kvq::hostCpuLevel(), 3, 4096, 8); }

} // namespace
} // namespace kvq::test
