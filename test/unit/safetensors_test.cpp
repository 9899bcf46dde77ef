// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/format/safetensors.h"
#include "runtime/format/sha256.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

using namespace kvq;

namespace {

std::string temporary(const std::string &name) { return testing::TempDir() + "kvq_" + name; }

std::string parseText(const std::string &header, const std::string &data, Safetensors &out) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += char(uint64_t(header.size()) >> (8 * i));
  text += header + data;
  FileBytes bytes;
  EXPECT_EQ(FileBytes::copy({text.data(), text.size()}, bytes), "");
  return Safetensors::parse(std::move(bytes), out);
}

std::string parseError(const std::string &header, const std::string &data = "") {
  Safetensors file;
  return parseText(header, data, file);
}

std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(digestText(sha256("", 0)),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digestText(sha256("abc", 3)),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT_EQ(digestText(sha256(two.data(), two.size())),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string million(1000000, 'a');
  EXPECT_EQ(digestText(sha256(million.data(), million.size())),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesEqualTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i)
    text += char(i * 7);
  for (size_t size = 0; size <= text.size(); ++size) {
    Sha256 hash;
    for (size_t at = 0, step = 1; at < size; at += step, step = step * 2 % 97 + 1)
      hash.update(text.data() + at, std::min(step, size - at));
    EXPECT_EQ(hash.finish(), sha256(text.data(), size)) << size;
  }
}

TEST(Safetensors, RoundTrip) {
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> b = {0x3f80, 0x4000, 0xc000};
  const std::string path = temporary("round.safetensors");
  ASSERT_EQ(writeSafetensors(path,
                             {{"z", TensorType::bf16, {3}, {b.data(), 6}},
                              {"a", TensorType::f32, {2, 3}, {a.data(), 24}},
                              {"empty", TensorType::i64, {0, 4}, {nullptr, 0}}},
                             {{"key", "value \"quoted\"\n"}, {"other", "1"}}),
            "");
  Safetensors file;
  ASSERT_EQ(Safetensors::open(path, file), "");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.metadata().at("key"), "value \"quoted\"\n");
  const TensorView *view = file.find("a");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(view->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(view->elements(), 6);
  ASSERT_EQ(view->data.size, 24u);
  std::vector<float> values(6);
  std::memcpy(values.data(), view->data.data, 24);
  EXPECT_EQ(values, a);
  EXPECT_EQ(std::memcmp(file.find("z")->data.data, b.data(), 6), 0);
  EXPECT_EQ(file.find("missing"), nullptr);
  std::string joined(reinterpret_cast<const char *>(a.data()), 24);
  joined.append(reinterpret_cast<const char *>(b.data()), 6);
  EXPECT_EQ(tensorDigest(file.tensors()), digestText(sha256(joined.data(), joined.size())));
}

TEST(Safetensors, WritingTwiceGivesEqualBytes) {
  const float x = 1;
  const std::vector<TensorView> one = {{"a", TensorType::f32, {1}, {&x, 4}},
                                       {"b", TensorType::f32, {}, {&x, 4}}};
  const std::string first = temporary("first"), second = temporary("second");
  ASSERT_EQ(writeSafetensors(first, one, {{"k", "v"}}), "");
  ASSERT_EQ(writeSafetensors(second, {one[1], one[0]}, {{"k", "v"}}), "");
  EXPECT_EQ(readAll(first), readAll(second));
}

TEST(Safetensors, GetNamesWhatIsWrong) {
  Safetensors file;
  ASSERT_EQ(parseText(R"({"t":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}})",
                      std::string(8, '\0'), file),
            "");
  const TensorView *view = nullptr;
  EXPECT_EQ(file.get("t", {TensorType::f32}, {-1, 1}, view), "");
  ASSERT_NE(view, nullptr);
  EXPECT_EQ(file.get("u", {TensorType::f32}, {1}, view), "tensor 'u' is missing");
  EXPECT_EQ(file.get("t", {TensorType::f16, TensorType::bf16}, {2, -1}, view),
            "tensor 't': expected F16 or BF16 [2, any], got F32 [2, 1]");
  EXPECT_EQ(file.get("t", {TensorType::f32}, {2}, view),
            "tensor 't': expected F32 [2], got F32 [2, 1]");
}

TEST(Safetensors, RefusesBrokenHeaders) {
  EXPECT_NE(parseError("[]"), "");
  EXPECT_NE(parseError("{"), "");
  EXPECT_NE(parseError("{}", "x"), "");
  EXPECT_EQ(parseError("{}"), "");
  EXPECT_EQ(parseError("{}   "), "");
  EXPECT_NE(parseError(R"({"t":1})"), "");
  EXPECT_NE(parseError(R"({"t":{"dtype":"F32","shape":[1]}})", "abcd"), "");
  EXPECT_NE(parseError(R"({"t":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd"), "");
  EXPECT_NE(parseError(R"({"t":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "abcd"), "");
  EXPECT_NE(parseError(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd"), "");
  EXPECT_NE(parseError(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", "abcd"), "");
  EXPECT_NE(parseError(R"({"__metadata__":{"a":1}})"), "");
  EXPECT_NE(parseError(R"({"__metadata__":[]})"), "");
  const char *sizes = R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})";
  EXPECT_EQ(parseError(sizes, "abcd"),
            "tensor 't': expected the bytes of F32 [2], got data_offsets [0, 4]");
  EXPECT_NE(
      parseError(R"({"t":{"dtype":"F4","shape":[2],"data_offsets":[0,4]}})", "abcd").find("'F4'"),
      std::string::npos);
  // 2^62 * 4 bytes wraps to 0.
  EXPECT_NE(
      parseError(R"({"t":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]}})"),
      "");
  EXPECT_NE(parseError(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abc"), "");
}

TEST(Safetensors, RefusesGapsOverlapsAndDuplicates) {
  const std::string a = R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_EQ(
      parseError("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "abcd"), "");
  EXPECT_NE(parseError("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "abc"),
            "");
  EXPECT_NE(
      parseError("{" + a + R"(,"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})", "abcde"),
      "");
  EXPECT_NE(parseError("{" + a + "," + a + "}", "ab").find("twice"), std::string::npos);
}

TEST(Safetensors, RefusesEveryTruncation) {
  const std::string path = temporary("cut.safetensors");
  const std::vector<uint8_t> data(64, 7);
  ASSERT_EQ(writeSafetensors(path, {{"a", TensorType::u8, {64}, {data.data(), 64}}}, {}), "");
  const std::string whole = readAll(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    FileBytes bytes;
    ASSERT_EQ(FileBytes::copy({whole.data(), size}, bytes), "");
    Safetensors file;
    EXPECT_NE(Safetensors::parse(std::move(bytes), file), "") << size;
  }
}

TEST(Safetensors, SurvivesEveryHeaderByteChanged) {
  const std::string path = temporary("flip.safetensors");
  const uint8_t data[4] = {1, 2, 3, 4};
  ASSERT_EQ(writeSafetensors(path, {{"a", TensorType::u8, {4}, {data, 4}}}, {{"m", "n"}}), "");
  const std::string whole = readAll(path);
  for (size_t at = 0; at < whole.size(); ++at)
    for (int flip : {0x01, 0x20, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = char(changed[at] ^ flip);
      FileBytes bytes;
      ASSERT_EQ(FileBytes::copy({changed.data(), changed.size()}, bytes), "");
      Safetensors file;
      if (Safetensors::parse(std::move(bytes), file).empty()) {
        for (const TensorView &view : file.tensors())
          EXPECT_EQ(view.data.size, 4u);
      }
    }
}

TEST(Safetensors, FailedWriteLeavesNothing) {
  const std::string folder = temporary("folder");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/target/inside");
  const float x = 1;
  const std::vector<TensorView> tensors = {{"a", TensorType::f32, {1}, {&x, 4}}};
  EXPECT_NE(writeSafetensors(folder + "/target", tensors, {}), ""); // a folder cannot be replaced
  EXPECT_NE(writeSafetensors(folder + "/missing/file", tensors, {}), "");
  EXPECT_NE(writeSafetensors(folder + "/x", {{"a", TensorType::f32, {2}, {&x, 4}}}, {}), "");
  size_t entries = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(folder))
    ++entries;
  EXPECT_EQ(entries, 1u);
}

TEST(Safetensors, OpenNamesTheFile) {
  Safetensors file;
  EXPECT_NE(Safetensors::open("/nonexistent/x", file).find("'/nonexistent/x'"), std::string::npos);
  EXPECT_NE(Safetensors::open(testing::TempDir(), file), "");
}

TEST(Safetensors, ReadsTheCommittedTrace) {
  Safetensors file;
  ASSERT_EQ(Safetensors::open(KVQ_TEST_DATA "/smollm2-135m.trace.safetensors", file), "");
  const TensorView *view = nullptr;
  EXPECT_EQ(file.get("layers.4.k", {TensorType::bf16}, {1024, 3, 64}, view), "");
  EXPECT_NE(file.metadata().at("kvq_trace").find(tensorDigest(file.tensors())), std::string::npos);
}

} // namespace
