#include "engine/store/feature_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::store {

namespace {

// Rows 0 .. 4 of 6 bytes; none; 5 .. 99 of 4 bytes, which become 6 with zeros.
// Each byte of a row is the row's number.
class JoinedRowsTest : public ::testing::Test {
 protected:
  JoinedRowsTest() {
    for (int row = 0; row < 100; ++row) {
      const size_t stored = row < 5 ? 6 : 4;
      all_.append(stored, static_cast<char>(row)).append(6 - stored, '\0');
    }
    std::vector<RowsOfFile> parts;
    parts.push_back(Part(
        "first",
        {.first_row = 0, .num_rows = 5, .first_offset = 3, .row_bytes = 6}));
    parts.push_back(Part("none", {.first_row = 5, .row_bytes = 4}));
    parts.push_back(
        Part("second", {.first_row = 5,
                        .num_rows = 95,
                        .first_offset = 1,
                        .row_bytes = 4,
                        .convert = [](const std::byte* from, std::byte* to) {
                          std::memcpy(to, from, 4);
                          std::memset(to + 4, 0, 2);
                        }}));
    joined_ = NewJoinedRows(std::move(parts), 6);
  }

  RowsOfFile Part(const std::string& name, const io::RowTable& table) {
    std::string bytes(table.first_offset, '\xff');
    for (int64_t i = 0; i < table.num_rows; ++i) {
      bytes.append(table.row_bytes, static_cast<char>(table.first_row + i));
    }
    const std::string path = scratch_.Path(name);
    EXPECT_TRUE(io::WriteFileAtomically(files_, path, bytes).ok());
    return {.file = *files_.OpenForRead(path), .table = table};
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  std::string all_;
  std::unique_ptr<io::ReadableFile> joined_;
};

TEST_F(JoinedRowsTest, AnyRangeIsThatOfAllRows) {
  EXPECT_EQ(joined_->Info()->size_bytes, all_.size());
  for (size_t begin = 0; begin < all_.size(); begin += 7) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{6}, size_t{100}}) {
      const size_t end = std::min(begin + count, all_.size());
      std::string bytes(end - begin, 'x');
      ASSERT_TRUE(joined_
                      ->Read(begin, {reinterpret_cast<std::byte*>(bytes.data()),
                                     bytes.size()})
                      .ok());
      EXPECT_EQ(bytes, all_.substr(begin, end - begin)) << begin;
    }
  }
}

TEST_F(JoinedRowsTest, EndsWithTheLastRow) {
  std::vector<std::byte> bytes(2);
  const absl::Status status =
      joined_->Read(all_.size() - 1, absl::MakeSpan(bytes));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("and 2 other files: ends at byte 600"),
            std::string::npos)
      << status;
}

constexpr int64_t kRows = 700;
constexpr int64_t kDim = 31;

class RowChecksumsTest : public ::testing::TestWithParam<bool> {
 protected:
  RowChecksumsTest() {
    std::vector<float> values(kRows * kDim);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i);
    }
    folder_.Write("node_feat.npy", {.shape = "(700, 31)", .data = Raw(values)});
    folder_.Write(
        "node_label.npy",
        {.descr = "|i1", .shape = "(700,)", .data = std::string(kRows, '\1')});
    EXPECT_TRUE(hearth::testing::ImportNumpyFolder(
                    folder_.path(), folder_.Destination(), GetParam())
                    .ok());
    dataset_ = *Dataset::Open(files_, folder_.Destination());
    rows_ = *dataset_->LoadFeatures(Residency::kMemory);
  }

  std::string TablePath() const {
    return folder_.Destination() + "/node.features.npy.rows.crc";
  }

  std::string Table() {
    return *io::ReadWholeFile(files_, TablePath(), 1 << 20);
  }

  void Write(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(io::WriteFileAtomically(files_, path, bytes).ok());
  }

  // All rows match, and none does with a bit flipped or at another place.
  void ExpectRight(const io::RowCheck& checksums) {
    const auto row_bytes = static_cast<size_t>(rows_->row_bytes());
    for (int64_t row = 0; row < kRows; ++row) {
      const std::byte* at = rows_->rows() + row * rows_->row_bytes();
      EXPECT_TRUE(checksums.Matches(row, at));
      EXPECT_FALSE(checksums.Matches((row + 1) % kRows, at));
      std::vector<std::byte> damaged(at, at + row_bytes);
      damaged[static_cast<size_t>(row) % row_bytes] ^= std::byte{8};
      EXPECT_FALSE(checksums.Matches(row, damaged.data()));
    }
  }

  NumpyFolder folder_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<LoadedFeatures> rows_;
};

TEST_P(RowChecksumsTest, AreMadeByTheImport) {
  EXPECT_EQ(std::filesystem::file_size(TablePath()), RowChecksumBytes(kRows));
  const std::string before = Table();
  const auto checksums = dataset_->LoadRowChecksums({});
  ASSERT_TRUE(checksums.ok()) << checksums.status();
  ExpectRight(**checksums);
  EXPECT_EQ(Table(), before);
}

TEST_P(RowChecksumsTest, AreMadeAgainWhereTheyAreMissingOrDamaged) {
  const std::string right = Table();
  std::string flipped = right;
  flipped[100] ^= 1;
  std::string of_another = right;
  of_another[of_another.size() - 8] ^= 1;
  for (const std::string& bytes :
       {std::string(), flipped, of_another, right.substr(4), right + "1234"}) {
    if (bytes.empty()) {
      std::filesystem::remove(TablePath());
    } else {
      Write(TablePath(), bytes);
    }
    const auto checksums = dataset_->LoadRowChecksums({});
    ASSERT_TRUE(checksums.ok()) << checksums.status();
    ExpectRight(**checksums);
    EXPECT_EQ(Table(), right);
  }
}

TEST_P(RowChecksumsTest, AreNotMadeOfDamagedFeatures) {
  std::filesystem::remove(TablePath());
  const std::string path =
      dataset_->manifest().node_types[0].features.in_place
          ? dataset_->manifest().node_types[0].features.path
          : folder_.Destination() + "/node.features.npy";
  std::string bytes = *io::ReadWholeFile(files_, path, 1 << 20);
  bytes[bytes.size() - 5] ^= 1;
  Write(path, bytes);
  const absl::Status status = dataset_->LoadRowChecksums({}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(path));
  EXPECT_FALSE(std::filesystem::exists(TablePath()));
  EXPECT_FALSE(std::filesystem::exists(TablePath() + io::kTemporarySuffix));
}

TEST_P(RowChecksumsTest, FaultsWhileTheyAreMadeAreReported) {
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    std::filesystem::remove(TablePath());
    files_.Inject({.nth = nth});
    const absl::Status status = dataset_->LoadRowChecksums({}).status();
    hit = files_.hits() > 0;
    files_.Clear();
    EXPECT_EQ(status.ok(), !hit) << status;
    EXPECT_FALSE(std::filesystem::exists(TablePath() + io::kTemporarySuffix));
  }
}

INSTANTIATE_TEST_SUITE_P(InPlace, RowChecksumsTest, ::testing::Bool());

}  // namespace

}  // namespace hearth::store
