#include "engine/ingest/source/array_reader.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "engine/io/testing/faults.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

class ArrayReaderTest : public testing::Test {
 protected:
  std::unique_ptr<ArrayReader> Open(const store::NpyText& file) {
    folder_.Write("a.npy", file);
    auto reader = ArrayReader::OpenNpy(files_, folder_.Path("a.npy"));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  template <typename T>
  std::vector<int64_t> Ints(const std::string& descr, std::vector<T> values) {
    const auto reader =
        Open({.descr = descr,
              .shape = "(" + std::to_string(values.size()) + ",)",
              .data = store::Raw(values)});
    std::vector<int64_t> out(values.size());
    EXPECT_TRUE(reader->ReadInts(0, absl::MakeSpan(out)).ok());
    return out;
  }

  store::NumpyFolder folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
};

template <typename T>
std::vector<T> Extremes() {
  return {std::numeric_limits<T>::min(), 0, 1, std::numeric_limits<T>::max()};
}

template <typename T>
std::vector<int64_t> Widened(const std::vector<T>& values) {
  return std::vector<int64_t>(values.begin(), values.end());
}

TEST_F(ArrayReaderTest, IntegersOfEveryTypeKeepTheirValues) {
  EXPECT_EQ(Ints("|i1", Extremes<int8_t>()), Widened(Extremes<int8_t>()));
  EXPECT_EQ(Ints("<i2", Extremes<int16_t>()), Widened(Extremes<int16_t>()));
  EXPECT_EQ(Ints("<i4", Extremes<int32_t>()), Widened(Extremes<int32_t>()));
  EXPECT_EQ(Ints("<i8", Extremes<int64_t>()), Widened(Extremes<int64_t>()));
  EXPECT_EQ(Ints("|u1", Extremes<uint8_t>()), Widened(Extremes<uint8_t>()));
  EXPECT_EQ(Ints("<u2", Extremes<uint16_t>()), Widened(Extremes<uint16_t>()));
  EXPECT_EQ(Ints("<u4", Extremes<uint32_t>()), Widened(Extremes<uint32_t>()));
  EXPECT_EQ(Ints("<u8", std::vector<uint64_t>{0, INT64_MAX}),
            (std::vector<int64_t>{0, INT64_MAX}));
}

TEST_F(ArrayReaderTest, ReadsFromTheMiddleAcrossConversionBlocks) {
  std::vector<int16_t> values(100'000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int16_t>(i * 7);
  }
  const auto reader =
      Open({.descr = "<i2", .shape = "(100000,)", .data = store::Raw(values)});
  std::vector<int64_t> out(80'000);
  ASSERT_TRUE(reader->ReadInts(12'345, absl::MakeSpan(out)).ok());
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], values[12'345 + i]);
}

TEST_F(ArrayReaderTest, AnUnsignedValueBeyondInt64IsNamed) {
  std::vector<uint64_t> values(6, 0);
  values[4] = uint64_t{1} << 63;
  const auto reader =
      Open({.descr = "<u8", .shape = "(2, 3)", .data = store::Raw(values)});
  std::vector<int64_t> out(5);
  const absl::Status status = reader->ReadInts(1, absl::MakeSpan(out));
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a.npy: [1, 1] is 9223372036854775808"));
}

TEST_F(ArrayReaderTest, FloatsOfEveryType) {
  const std::vector<double> expected = {-1.5, 0, 2};
  std::vector<double> out(3);
  auto reader = Open({.descr = "<f2",
                      .shape = "(3,)",
                      .data = store::Raw<uint16_t>({0xBE00, 0, 0x4000})});
  ASSERT_TRUE(reader->ReadFloats(0, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, expected);
  reader = Open({.shape = "(3,)", .data = store::Raw<float>({-1.5, 0, 2})});
  ASSERT_TRUE(reader->ReadFloats(0, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, expected);
  reader =
      Open({.descr = "<f8", .shape = "(3,)", .data = store::Raw(expected)});
  ASSERT_TRUE(reader->ReadFloats(0, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, expected);
}

TEST_F(ArrayReaderTest, PositionsAreNamedAsNumpyIndexes) {
  const std::string data(24, '\0');
  const auto c = Open({.shape = "(2, 3)", .data = data});
  EXPECT_THAT(std::string(c->ErrorAt(4, "x").message()), HasSubstr("[1, 1] x"));
  const auto fortran =
      Open({.shape = "(2, 3)", .data = data, .fortran_order = true});
  EXPECT_THAT(std::string(fortran->ErrorAt(4, "x").message()),
              HasSubstr("[0, 2] x"));
  const auto flat = Open({.shape = "(6,)", .data = data});
  EXPECT_THAT(std::string(flat->ErrorAt(4, "x").message()), HasSubstr("[4] x"));
}

TEST_F(ArrayReaderTest, AChangeIsNoticed) {
  const auto reader = Open({.shape = "(1,)", .data = "0123"});
  EXPECT_TRUE(reader->CheckUnchanged().ok());
  folder_.Write("a.npy", folder_.Read("a.npy") + "4");
  EXPECT_TRUE(absl::IsFailedPrecondition(reader->CheckUnchanged()));
}

TEST_F(ArrayReaderTest, TheHeadersBytesAreThoseOfTheFile) {
  const auto reader = Open({.shape = "(1,)", .data = "0123"});
  const std::vector<std::byte> header = *reader->ReadHeaderBytes();
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(header.data()), header.size()),
      folder_.Read("a.npy").substr(0, header.size()));
  EXPECT_EQ(header.size(), reader->header().data_offset);
}

TEST_F(ArrayReaderTest, FaultsAreReportedAsTheyAre) {
  const auto reader = Open({.descr = "<i4", .shape = "(1,)", .data = "0123"});
  std::vector<int64_t> out(1);
  files_.Inject({.only = io::Operation::kRead});
  EXPECT_TRUE(absl::IsUnavailable(reader->ReadInts(0, absl::MakeSpan(out))));
  for (int64_t nth = 1; nth <= 5; ++nth) {
    files_.Inject({.nth = nth});
    EXPECT_TRUE(absl::IsUnavailable(
        ArrayReader::OpenNpy(files_, folder_.Path("a.npy")).status()));
  }
}

}  // namespace
}  // namespace hearth::ingest
