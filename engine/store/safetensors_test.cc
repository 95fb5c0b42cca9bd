#include "engine/store/safetensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

using testing::HasSubstr;

template <typename T>
Tensor MakeTensor(DType dtype, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
  Tensor tensor{dtype, std::move(shape), {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  tensor.data.assign(bytes, bytes + values.size() * sizeof(T));
  return tensor;
}

SafeTensors Example() {
  SafeTensors contents;
  contents.tensors["a.bytes"] =
      MakeTensor<uint8_t>(DType::kUint8, {3}, {1, 2, 3});
  contents.tensors["b.weight"] =
      MakeTensor<float>(DType::kFloat32, {2, 2}, {1, 2, 3, 4});
  contents.tensors["c.step"] = MakeTensor<int64_t>(DType::kInt64, {}, {7});
  contents.tensors["d.empty"] = MakeTensor<int32_t>(DType::kInt32, {0, 5}, {});
  contents.tensors["e.half"] =
      MakeTensor<uint16_t>(DType::kFloat16, {1}, {0x3C00});
  contents.tensors["f.brain"] =
      MakeTensor<uint16_t>(DType::kBFloat16, {1}, {0x3F80});
  contents.metadata = {{"format", "pt"}, {"loss", "\"0.5\"\n"}};
  return contents;
}

void ExpectEqual(const SafeTensors& a, const SafeTensors& b) {
  EXPECT_EQ(a.metadata, b.metadata);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    ASSERT_EQ(b.tensors.count(name), 1u) << name;
    const Tensor& other = b.tensors.at(name);
    EXPECT_EQ(tensor.dtype, other.dtype) << name;
    EXPECT_EQ(tensor.shape, other.shape) << name;
    EXPECT_EQ(tensor.data, other.data) << name;
  }
}

/// A file with this header text and data.
std::string FileOf(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

class SafeTensorsTest : public testing::Test {
 protected:
  void Write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string Bytes() { return *io::ReadWholeFile(files_, path_, 1 << 20); }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("model.safetensors");
};

TEST_F(SafeTensorsTest, ReadsBackWhatItWrote) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, Example()).ok());
  const auto read = ReadSafeTensors(files_, path_);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(Example(), *read);
}

TEST_F(SafeTensorsTest, NothingIsAFileToo) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, {}).ok());
  EXPECT_EQ(Bytes(), FileOf("{}      ", ""));
  EXPECT_TRUE(ReadSafeTensors(files_, path_)->tensors.empty());
}

TEST_F(SafeTensorsTest, LayoutIsThatOfTheFormat) {
  SafeTensors contents;
  contents.tensors["x"] = MakeTensor<uint8_t>(DType::kUint8, {1}, {'!'});
  contents.tensors["y"] = MakeTensor<float>(DType::kFloat32, {1, 1}, {1});
  contents.metadata["k"] = "v";
  ASSERT_TRUE(WriteSafeTensors(files_, path_, contents).ok());
  const std::string header =
      R"({"__metadata__":{"k":"v"},)"
      R"("y":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("x":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(Bytes(), FileOf(header + padding, std::string("\0\0\x80\x3f!", 5)));
}

TEST_F(SafeTensorsTest, EqualContentsGiveEqualBytes) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, Example()).ok());
  const std::string first = Bytes();
  ASSERT_TRUE(
      WriteSafeTensors(files_, path_, *ReadSafeTensors(files_, path_)).ok());
  EXPECT_EQ(Bytes(), first);
}

TEST_F(SafeTensorsTest, TensorsAreAlignedForTheirTypes) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, Example()).ok());
  const std::string bytes = Bytes();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ((8 + length) % 8, 0u);
  // The widest tensor comes first: the int64.
  EXPECT_EQ(bytes[8 + length], 7);
}

TEST_F(SafeTensorsTest, RefusesToWriteWhatCannotBeRead) {
  const std::vector<std::function<void(SafeTensors&)>> mistakes = {
      [](SafeTensors& c) { c.tensors["__metadata__"] = c.tensors["a.bytes"]; },
      [](SafeTensors& c) { c.tensors["\xff"] = c.tensors["a.bytes"]; },
      [](SafeTensors& c) { c.metadata["k"] = "\xff"; },
      [](SafeTensors& c) { c.tensors["a.bytes"].data.pop_back(); },
      [](SafeTensors& c) { c.tensors["a.bytes"].shape = {-3}; },
      [](SafeTensors& c) { c.tensors["a.bytes"].dtype = DType::kInt32; },
      [](SafeTensors& c) { c.metadata["k"] = std::string(5 << 20, 'x'); },
  };
  for (size_t i = 0; i < mistakes.size(); ++i) {
    SafeTensors contents = Example();
    mistakes[i](contents);
    const absl::Status status = WriteSafeTensors(files_, path_, contents);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << i << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_TRUE(absl::IsNotFound(files_.Stat(path_).status()));
  }
}

TEST_F(SafeTensorsTest, AFaultLeavesTheOldFileOrTheNewOne) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, {}).ok());
  const SafeTensors old;
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth, .effect = io::Effect::kTearWrite});
    const absl::Status status = WriteSafeTensors(files_, path_, Example());
    hit = files_.hits() > 0;
    files_.Clear();
    const auto read = ReadSafeTensors(files_, path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(status.ok(), !hit);
  }
  ExpectEqual(Example(), *ReadSafeTensors(files_, path_));
}

TEST_F(SafeTensorsTest, ReadFaultsAreReported) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, Example()).ok());
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth});
    const auto read = ReadSafeTensors(files_, path_);
    hit = files_.hits() > 0;
    EXPECT_EQ(absl::IsUnavailable(read.status()), hit);
  }
}

TEST_F(SafeTensorsTest, WhatIsMissingIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(ReadSafeTensors(files_, path_).status()));
  EXPECT_TRUE(
      absl::IsNotFound(ReadSafeTensorsMetadata(files_, path_).status()));
}

TEST_F(SafeTensorsTest, MetadataIsReadAlone) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, Example()).ok());
  const std::string whole = Bytes();
  const auto metadata = ReadSafeTensorsMetadata(files_, path_);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(*metadata, Example().metadata);
  Write(whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(
      absl::IsDataLoss(ReadSafeTensorsMetadata(files_, path_).status()));
}

// Every cut is noticed, wherever it falls.
// Puts together what a scan gives.
class Collector final : public SafeTensorsVisitor {
 public:
  void OnTensor(const std::string& name, const Tensor& tensor) override {
    EXPECT_TRUE(tensor.data.empty());
    names.push_back(name);
    contents.tensors[name] = tensor;
  }
  void OnData(absl::Span<const std::byte> piece) override {
    EXPECT_LE(piece.size(), size_t{1} << 20);
    std::vector<std::byte>& data = contents.tensors[names.back()].data;
    data.insert(data.end(), piece.begin(), piece.end());
  }

  std::vector<std::string> names;
  SafeTensors contents;
};

TEST_F(SafeTensorsTest, AScanGivesAllInTheOrderOfNames) {
  SafeTensors example = Example();
  example.tensors["b.large"] = MakeTensor<int32_t>(
      DType::kInt32, {700'000}, std::vector<int32_t>(700'000, 5));
  ASSERT_TRUE(WriteSafeTensors(files_, path_, example).ok());
  Collector collector;
  const auto metadata = ScanSafeTensors(files_, path_, collector);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  collector.contents.metadata = *metadata;
  ExpectEqual(example, collector.contents);
  EXPECT_TRUE(std::is_sorted(collector.names.begin(), collector.names.end()));
}

TEST_F(SafeTensorsTest, TruncatedAnywhereIsDataLoss) {
  ASSERT_TRUE(WriteSafeTensors(files_, path_, Example()).ok());
  const std::string whole = Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    Write(whole.substr(0, size));
    const absl::Status status = ReadSafeTensors(files_, path_).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << size << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr(path_));
  }
  Write(whole + "x");
  EXPECT_TRUE(absl::IsDataLoss(ReadSafeTensors(files_, path_).status()));
}

struct Hostile {
  std::string bytes;
  std::string problem;
};

void PrintTo(const Hostile& hostile, std::ostream* out) {
  *out << hostile.problem;
}

class HostileTest : public SafeTensorsTest,
                    public testing::WithParamInterface<Hostile> {};

TEST_P(HostileTest, IsDataLossNamingTheFault) {
  Write(GetParam().bytes);
  const absl::Status status = ReadSafeTensors(files_, path_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().problem));
}

/// One tensor "t" with these fields and 8 bytes of data.
Hostile Entry(const std::string& fields, const std::string& problem) {
  return {FileOf("{\"t\":{" + fields + "}}", "01234567"), problem};
}

INSTANTIATE_TEST_SUITE_P(
    Files, HostileTest,
    testing::Values(
        Hostile{"", "too short"}, Hostile{"1234567", "too short"},
        Hostile{"\xff\xff\xff\xff\xff\xff\xff\xff", "has a header of 1844"},
        Hostile{std::string("\1\0\0\0\0\0\0\0", 8), "has a header of 1 bytes"},
        Hostile{FileOf(std::string((4 << 20) + 1, ' '), ""), "at most 4194304"},
        Hostile{FileOf("", ""), "not JSON"},
        Hostile{FileOf("[]", ""), "not a JSON object"},
        Hostile{FileOf("{", ""), "not JSON"},
        Hostile{FileOf(std::string(1 << 20, '['), ""), "nested too deep"},
        Hostile{FileOf("{\"t\":1}", ""), "\"t\" is not a JSON object"},
        Hostile{FileOf("{\"__metadata__\":1}", ""), "__metadata__ is not"},
        Hostile{FileOf("{\"__metadata__\":{\"k\":1}}", ""),
                "__metadata__.k is not a string"},
        Entry(R"("shape":[8],"data_offsets":[0,8])", "\"t\".dtype is missing"),
        Entry(R"("dtype":"U8","data_offsets":[0,8])", "shape is missing"),
        Entry(R"("dtype":"U8","shape":[8])", "data_offsets is missing"),
        Entry(R"("dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1)",
              "unknown fields"),
        Entry(R"("dtype":"F64","shape":[1],"data_offsets":[0,8])",
              "dtype \"F64\" is not supported"),
        Entry(R"("dtype":"U8","shape":[7],"data_offsets":[0,8])",
              "does not fit its 8 bytes"),
        Entry(R"("dtype":"U8","shape":[-8],"data_offsets":[0,8])",
              "\"t\".shape holds"),
        Entry(R"("dtype":"U8","shape":[8.0],"data_offsets":[0,8])",
              "\"t\".shape holds"),
        Entry(R"("dtype":"U8","shape":8,"data_offsets":[0,8])",
              "\"t\".shape is not an array"),
        // 2^62 * 4 = 0 in 64 bits.
        Entry(
            R"("dtype":"F32","shape":[4611686018427387904,0],"data_offsets":[0,0])",
            "does not fit"),
        Entry(R"("dtype":"U8","shape":[8],"data_offsets":[8,0])",
              "data_offsets is not a range"),
        Entry(R"("dtype":"U8","shape":[8],"data_offsets":[0,8,8])",
              "data_offsets is not a range"),
        Entry(R"("dtype":"U8","shape":[8],"data_offsets":[-8,0])",
              "data_offsets holds"),
        Entry(R"("dtype":"U8","shape":[9],"data_offsets":[0,9])",
              "\"t\" ends at data byte 9, but there are 8"),
        Entry(R"("dtype":"U8","shape":[7],"data_offsets":[0,7])",
              "the tensors end at data byte 7"),
        Entry(R"("dtype":"U8","shape":[7],"data_offsets":[1,8])",
              "begins at data byte 1, not at 0"),
        Entry(R"("dtype":"U8","shape":[18446744073709551615],)"
              R"("data_offsets":[0,18446744073709551615])",
              "2^63 - 1"),
        Hostile{
            FileOf(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                   R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})",
                   "01234567"),
            "\"b\" begins at data byte 4, not at 5"},
        Hostile{
            FileOf(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                   R"("a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                   "01234567"),
            "\"a\" twice"},
        Hostile{
            FileOf(R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                   R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                   "01234567"),
            "begins at data byte 0, not at 8"}));

}  // namespace
}  // namespace hearth::store
