#include "engine/store/feature_stripes.h"

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/testing/numpy_folder.h"
#include "engine/store/topology.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::store {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 9000;
// Rows of 124 bytes, 1,024 of which are whole pages.
constexpr int64_t kDim = 31;
constexpr uint64_t kMostBytes = 64 << 20;

// A dataset of one node type, in place or not.
std::unique_ptr<Dataset> ImportRows(const NumpyFolder& folder, bool in_place) {
  EXPECT_TRUE(hearth::testing::ImportNumpyFolder(folder.path(),
                                                 folder.Destination(), in_place)
                  .ok());
  return *Dataset::Open(io::FileSystem::Posix(), folder.Destination());
}

class FeatureStripesTest
    : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  FeatureStripesTest() {
    std::vector<float> values(kRows * kDim);
    std::iota(values.begin(), values.end(), 1.0F);
    source_.Write("node_feat.npy",
                  {.shape = absl::StrCat("(", kRows, ", ", kDim, ")"),
                   .data = Raw(values)});
    source_.Write("node_label.npy", {.descr = "|i1",
                                     .shape = absl::StrCat("(", kRows, ",)"),
                                     .data = std::string(kRows, '\1')});
    dataset_ = ImportRows(source_, std::get<1>(GetParam()));
    stripes_.emplace(dataset_->manifest(), std::get<0>(GetParam()));
    for (int disk = 0; disk < stripes_->disks(); ++disk) {
      folders_.push_back(scratch_.Path(absl::StrCat("disk", disk)));
      EXPECT_TRUE(files_.CreateDirectory(folders_.back()).ok());
    }
  }

  absl::Status Write(int disk, const std::stop_token& stop = {}) {
    auto sources = FeatureStripes::OpenSources(*dataset_, stop);
    if (!sources.ok()) return sources.status();
    return stripes_->Write(
        files_, *sources, disk, folders_[disk],
        [this](uint64_t bytes) { progress_ += bytes; }, stop);
  }

  void WriteAll() {
    for (int disk = 0; disk < stripes_->disks(); ++disk) {
      const absl::Status status = Write(disk);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  absl::Status Verify(int disk, VerificationRecord& record) {
    return stripes_->Verify(files_, disk, folders_[disk], record,
                            [](uint64_t) {}, {});
  }

  std::string FileOf(int disk) const { return folders_[disk] + "/features-0"; }

  void Flip(const std::string& path, size_t at) {
    std::string bytes = *io::ReadWholeFile(files_, path, kMostBytes);
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_TRUE(io::WriteFileAtomically(files_, path, bytes).ok());
  }

  NumpyFolder source_;
  io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::unique_ptr<Dataset> dataset_;
  std::optional<FeatureStripes> stripes_;
  std::vector<std::string> folders_;
  uint64_t progress_ = 0;
};

// Reads all rows of a dataset from its stripes, each against its checksum, and
// compares them with the loaded rows.
void ExpectAllRows(const Dataset& dataset, io::FileSystem& files,
                   const FeatureStripes& stripes,
                   const std::vector<std::string>& folders) {
  const auto original = dataset.OpenFeatures({});
  ASSERT_TRUE(original.ok()) << original.status();
  const auto striped = stripes.Open(files, folders, *original);
  ASSERT_TRUE(striped.ok()) << striped.status();
  EXPECT_EQ(striped->largest_of_disk.size(), folders.size());
  const auto checks = *dataset.LoadRowChecksums({});
  const auto queues = *io::ReadQueues::Create();
  const auto queue = *queues->Take(8);
  const StoredFeatures& features = striped->features;
  EXPECT_EQ(features.dim, original->dim);
  const auto reader = io::RowReader::Create(*features.device, features.layout,
                                            *queue, {.check = checks.get()});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto loaded = *dataset.LoadFeatures(Residency::kMemory);
  std::vector<int64_t> rows(features.layout.num_rows);
  std::iota(rows.begin(), rows.end(), 0);
  // Each row as it is handed out, converted where types differ.
  const auto plain = *io::RowReader::Create(*original->device, original->layout,
                                            *queue, {.check = checks.get()});
  std::vector<std::string> expected(rows.size());
  std::vector<std::string> found(rows.size());
  const auto keep = [&](std::vector<std::string>& to) {
    return [&](size_t position, const std::byte* row) {
      to[position].assign(reinterpret_cast<const char*>(row),
                          features.layout.row_bytes);
    };
  };
  io::ReadTally tally;
  ASSERT_TRUE(plain->Read(rows, keep(expected), {}, tally).ok());
  const absl::Status status = (*reader)->Read(rows, keep(found), {}, tally);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(found, expected);
}

TEST_P(FeatureStripesTest, RowsAreThoseOfTheDataset) {
  WriteAll();
  EXPECT_EQ(progress_, kRows * kDim * sizeof(float));
  ExpectAllRows(*dataset_, files_, *stripes_, folders_);
}

TEST_P(FeatureStripesTest, SizesAreKnownBefore) {
  WriteAll();
  uint64_t stripe_bytes = 0;
  for (int disk = 0; disk < stripes_->disks(); ++disk) {
    uint64_t bytes = 0;
    const std::vector<std::string> names = *files_.List(folders_[disk]);
    for (const std::string& name : names) {
      bytes += files_.Stat(io::JoinPath(folders_[disk], name))->size_bytes;
    }
    EXPECT_EQ(stripes_->FileBytes(disk), bytes);
    EXPECT_TRUE(stripes_->CheckSizes(files_, disk, folders_[disk]).ok());
    stripe_bytes += stripes_->StripeBytes(disk);
    // Each has its part: nine stripes of 1,024 rows.
    EXPECT_GE(stripes_->StripeBytes(disk),
              uint64_t{1024} * 124 * (9 / stripes_->disks() - 1));
  }
  EXPECT_EQ(stripe_bytes, kRows * kDim * sizeof(float));
}

TEST_P(FeatureStripesTest, FilesOfOtherSizesAreNamed) {
  WriteAll();
  const int disk = stripes_->disks() - 1;
  std::string bytes = *io::ReadWholeFile(files_, FileOf(disk), kMostBytes);
  bytes.pop_back();
  ASSERT_TRUE(io::WriteFileAtomically(files_, FileOf(disk), bytes).ok());
  const absl::Status cut = stripes_->CheckSizes(files_, disk, folders_[disk]);
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr(FileOf(disk)));
  ASSERT_TRUE(files_.RemoveTree(FileOf(disk)).ok());
  EXPECT_TRUE(
      absl::IsNotFound(stripes_->CheckSizes(files_, disk, folders_[disk])));
}

TEST_P(FeatureStripesTest, AnyFlippedBitIsFound) {
  WriteAll();
  for (int disk = 0; disk < stripes_->disks(); ++disk) {
    const size_t size = stripes_->StripeBytes(disk);
    for (const size_t at : {size_t{0}, size_t{70000}, size - 1}) {
      Flip(FileOf(disk), at);
      VerificationRecord record;
      const absl::Status status = Verify(disk, record);
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("at byte ", at / 65536 * 65536,
                                         " is damaged")));
      Flip(FileOf(disk), at);
      EXPECT_EQ(Verify(disk, record), absl::OkStatus());
    }
  }
}

TEST_P(FeatureStripesTest, WhatWasVerifiedIsNotReadAgain) {
  WriteAll();
  VerificationRecord record;
  EXPECT_EQ(Verify(0, record), absl::OkStatus());
  Flip(FileOf(0) + ".crc", 3);
  EXPECT_EQ(Verify(0, record), absl::OkStatus());
  VerificationRecord other;
  EXPECT_TRUE(absl::IsDataLoss(Verify(0, other)));
}

TEST_P(FeatureStripesTest, AFaultAtAnyCallIsAnErrorAndTheNextWriteIsWhole) {
  const int disk = stripes_->disks() - 1;
  auto sources = *FeatureStripes::OpenSources(*dataset_, {});
  int64_t nth = 1;
  for (;; ++nth) {
    files_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = stripes_->Write(
        files_, sources, disk, folders_[disk], [](uint64_t) {}, {});
    if (files_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
  }
  EXPECT_GT(nth, 8);
  files_.Clear();
  WriteAll();
  ExpectAllRows(*dataset_, files_, *stripes_, folders_);
}

TEST_P(FeatureStripesTest, ADiskWithoutRoomIsFoundBeforeAnythingIsWritten) {
  files_.Inject({.status = absl::ResourceExhaustedError("full"),
                 .only = io::Operation::kAllocate,
                 .path_end = FileOf(0)});
  const absl::Status status = Write(0);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(progress_, 0u);
}

TEST_P(FeatureStripesTest, DamagedFeaturesAreNotCopied) {
  const ArrayFile& features = dataset_->manifest().node_types[0].features;
  // Flip keeps the modification time: an array in place with another one would
  // be refused.
  const std::string path = features.path[0] == '/'
                               ? features.path
                               : io::JoinPath(dataset_->path(), features.path);
  Flip(path, features.data_offset + 5);
  const absl::Status status = Write(0);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST_P(FeatureStripesTest, AStopCancels) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Write(0, stop.get_token())));
  WriteAll();
  VerificationRecord record;
  EXPECT_TRUE(absl::IsCancelled(stripes_->Verify(
      files_, 0, folders_[0], record, [](uint64_t) {}, stop.get_token())));
}

TEST_P(FeatureStripesTest, FilesOfOtherDisksAreOfOtherDescription) {
  const int disks = stripes_->disks();
  EXPECT_NE(stripes_->Describe(0),
            FeatureStripes(dataset_->manifest(), disks + 1).Describe(0));
  for (int disk = 1; disk < disks; ++disk) {
    EXPECT_NE(stripes_->Describe(disk), stripes_->Describe(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Disks, FeatureStripesTest,
                         ::testing::Combine(::testing::Values(1, 2, 3),
                                            ::testing::Bool()));

TEST(FeatureStripesOfTypesTest, EachNodeTypeHasItsOwnFiles) {
  io::ScratchDirectory scratch;
  const auto path = hearth::testing::ImportHeteroGraph(
      hearth::testing::HeteroGraph{}, scratch.Path("typed"));
  ASSERT_TRUE(path.ok()) << path.status();
  io::FileSystem& files = io::FileSystem::Posix();
  const auto dataset = *Dataset::Open(files, *path);
  const FeatureStripes stripes(dataset->manifest(), 2);
  const auto sources = *FeatureStripes::OpenSources(*dataset, {});
  std::vector<std::string> folders;
  for (int disk = 0; disk < 2; ++disk) {
    folders.push_back(scratch.Path(absl::StrCat("disk", disk)));
    ASSERT_TRUE(files.CreateDirectory(folders.back()).ok());
    ASSERT_TRUE(
        stripes.Write(files, sources, disk, folders.back(), [](uint64_t) {}, {})
            .ok());
    EXPECT_EQ(files.List(folders.back())->size(),
              2 * dataset->manifest().node_types.size());
  }
  ExpectAllRows(*dataset, files, stripes, folders);
}

// Stripes are of a MiB or a little more where the features are large, whatever
// the width of a row; of whole pages in any case.
TEST(FeatureStripesOfTypesTest, StripesAreOfWholeRowsAndPages) {
  for (const int64_t dim : {1, 3, 31, 100, 128, 129, 1024, 5000}) {
    Manifest manifest;
    NodeTypeEntry& type = manifest.node_types.emplace_back();
    type.num_nodes = (int64_t{1} << 30) / dim;
    type.features.dtype = DType::kFloat16;
    type.features.shape = {type.num_nodes, dim};
    type.features.path = "node.features.npy";
    const FeatureStripes stripes(manifest, 4);
    const uint64_t total = static_cast<uint64_t>(type.num_nodes) * 2 * dim;
    uint64_t bytes = 0;
    for (int disk = 0; disk < 4; ++disk) {
      bytes += stripes.StripeBytes(disk);
      // No disk has much more than its share.
      EXPECT_LT(stripes.StripeBytes(disk), total / 4 + (32 << 20)) << dim;
    }
    EXPECT_EQ(bytes, total);
  }
}

}  // namespace
}  // namespace hearth::store
