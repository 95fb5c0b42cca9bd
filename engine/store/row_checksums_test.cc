#include "engine/store/row_checksums.h"

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/store/dataset.h"
#include "engine/store/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/import_folder.h"

namespace hearth::store {
namespace {

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
