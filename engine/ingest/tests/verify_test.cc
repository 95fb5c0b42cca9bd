#include "engine/ingest/inspect/verify.h"

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/tests/flipping_file_system_fixture.h"
#include "engine/ingest/tests/small_graphs_fixture.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A file at `path` with one bit flipped, until the destructor runs.
class FlippedBit {
 public:
  FlippedBit(const std::string& path, size_t byte) : path_(path) {
    bytes_ = *io::ReadWholeFile(io::FileSystem::Posix(), path, 1 << 24);
    std::string flipped = bytes_;
    flipped[byte] ^= static_cast<char>(1 << byte % 8);
    Write(flipped);
  }
  ~FlippedBit() { Write(bytes_); }

 private:
  void Write(const std::string& bytes) {
    const auto file = *io::FileSystem::Posix().Create(path_);
    EXPECT_TRUE(
        file
            ->Append(absl::MakeConstSpan(
                reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()))
            .ok());
  }

  const std::string path_;
  std::string bytes_;
};

class VerifyTest : public testing::Test {
 protected:
  void Import(bool in_place = false) {
    ImportOptions options;
    options.source = folder_.path();
    options.name = "test";
    options.destination = folder_.Destination();
    options.in_place = in_place;
    const auto result = ImportDataset(posix_, {"numpy"}, options, nullptr, {});
    ASSERT_TRUE(result.ok()) << result.status();
  }

  /// Gives the graph features of several blocks, the last of them short.
  void UseManyFeatures(int64_t columns) {
    folder_.Write("node_feat.npy",
                  {.shape = "(6, " + std::to_string(columns) + ")",
                   .data = store::Raw(std::vector<float>(6 * columns, 1.5f))});
  }

  absl::StatusOr<VerifyResult> Verify() {
    const auto dataset = store::Dataset::Open(files_, folder_.Destination());
    if (!dataset.ok()) return dataset.status();
    return VerifyDataset(files_, **dataset, progress_, stop_.get_token());
  }

  std::string File(const std::string& name) {
    return folder_.Destination() + "/" + name;
  }

  store::NumpyFolder folder_;
  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem files_{posix_};
  VerifyProgress progress_;
  std::stop_source stop_;
};

TEST_F(VerifyTest, CountsWhatItReads) {
  Import();
  uint64_t done = 0, total = 0;
  progress_ = [&](uint64_t now, uint64_t all) {
    EXPECT_GE(now, done);
    done = now;
    total = all;
  };
  const auto result = Verify();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->files, 7u);
  EXPECT_EQ(result->blocks, 7u);
  // Header of the features; headers of 128 bytes, data and checksums of the
  // other arrays.
  EXPECT_EQ(result->bytes, 4096 + 6 * 128 + 6 * 3 * 4 + 6 * 4 + 5 * 8 + 7 * 8 +
                               7 * 4 + 7 * 4u);
  EXPECT_EQ(done, result->bytes);
  EXPECT_EQ(total, result->bytes);
}

/// The byte to flip after `byte`. Every byte is flipped, except in blanks of
/// the features' header and in the text of the JSON files: one checksum covers
/// all of these, and their seal has tests of its own.
uint64_t NextByte(const std::string& name, uint64_t byte) {
  if (absl::EndsWith(name, ".json")) return byte + 7;
  const bool is_blank =
      absl::EndsWith(name, "features.npy") && byte >= 256 && byte < 4096 - 61;
  return byte + (is_blank ? 61 : 1);
}

/// Expects that any single flipped bit is found, and its file named.
void ExpectEveryByteCounts(const std::string& folder) {
  FlippingFileSystem files;
  const auto dataset = store::Dataset::Open(files, folder);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_TRUE(VerifyDataset(files, **dataset, nullptr, {}).ok());
  const std::vector<std::string> names = files.List(folder).value();
  for (const std::string& name : names) {
    // Derived from the features; jobs make a damaged one again.
    if (absl::EndsWith(name, ".rows.crc")) continue;
    const std::string path = io::JoinPath(folder, name);
    const uint64_t size = files.Stat(path)->size_bytes;
    ASSERT_GT(size, 0u);
    for (uint64_t byte = 0; byte < size; byte = NextByte(name, byte)) {
      files.Flip(path, byte);
      const absl::Status status =
          VerifyDataset(files, **dataset, nullptr, {}).status();
      ASSERT_TRUE(absl::IsDataLoss(status)) << name << " " << byte << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(path)) << byte;
      if (name != store::Manifest::kFileName) continue;
      ASSERT_TRUE(
          absl::IsDataLoss(store::Dataset::Open(files, folder).status()));
    }
  }
}

TEST_F(VerifyTest, FindsEveryFlippedByteOfAHomogeneousGraph) {
  Import();
  ExpectEveryByteCounts(folder_.Destination());
}

TEST_F(VerifyTest, FindsEveryFlippedByteOfAHeterogeneousGraph) {
  const auto result =
      ImportTwoTypes(posix_, folder_.path(), folder_.Destination());
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectEveryByteCounts(folder_.Destination());
}

TEST_F(VerifyTest, FindsEveryFlippedByteOfIds) {
  for (const std::string text : {"-5 70\n9 70\n", "a b\ncd b\n"}) {
    ASSERT_TRUE(posix_.RemoveTree(folder_.Destination()).ok());
    ImportOptions options;
    options.source = folder_.Path("edges.txt");
    options.name = "test";
    options.destination = folder_.Destination();
    ASSERT_TRUE(io::WriteFileAtomically(posix_, options.source, text).ok());
    FormatOptions format_options;
    format_options.edge_list.relabel = true;
    const auto result = ImportDataset(posix_, {"edge-list", format_options},
                                      options, nullptr, {});
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->manifest.Arrays().size(), 3u);
    ExpectEveryByteCounts(folder_.Destination());
  }
}

TEST_F(VerifyTest, FindsEveryFlippedByteOfFeaturesInPlace) {
  Import(/*in_place=*/true);
  const auto dataset = *store::Dataset::Open(posix_, folder_.Destination());
  const std::string path = *posix_.RealPath(folder_.Path("node_feat.npy"));
  const uint64_t size = posix_.Stat(path)->size_bytes;
  ASSERT_EQ(size, 128u + 6 * 3 * 4);
  FlippingFileSystem files;
  for (uint64_t byte = 0; byte < size; ++byte) {
    files.Flip(path, byte);
    const absl::Status status =
        VerifyDataset(files, *dataset, nullptr, {}).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << byte << status;
    ASSERT_THAT(std::string(status.message()),
                HasSubstr(byte < 128 ? "node_feat.npy: the header"
                                     : "node_feat.npy: block 0 (bytes 128 "));
  }
}

TEST_F(VerifyTest, FindsEveryFlippedByteOfStatistics) {
  Import();
  const std::string path = File(DatasetStatistics::kFileName);
  const std::string text = SerializeStatistics({});
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path, text).ok());
  const auto dataset = *store::Dataset::Open(posix_, folder_.Destination());
  EXPECT_TRUE(VerifyDataset(posix_, *dataset, nullptr, {}).ok());
  FlippingFileSystem files;
  for (uint64_t byte = 0; byte < text.size(); ++byte) {
    files.Flip(path, byte);
    const absl::Status status =
        VerifyDataset(files, *dataset, nullptr, {}).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << byte << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr(path));
  }
}

TEST_F(VerifyTest, NamesEveryDamagedBlockWithItsBytes) {
  UseManyFeatures(1000);
  Import();
  // 24,000 bytes: six blocks, the last of 3,520 bytes.
  const FlippedBit second(File("node.features.npy"), 4096 + 4096 + 7);
  const FlippedBit last(File("node.features.npy"), 4096 + 23999);
  const FlippedBit labels(File("node.labels.npy"), 128);
  const absl::Status status = Verify().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("3 parts are damaged"));
  EXPECT_THAT(message,
              HasSubstr("node.features.npy: block 1 (bytes 8192 .. 12287)"));
  EXPECT_THAT(message,
              HasSubstr("node.features.npy: block 5 (bytes 24576 .. 28095)"));
  EXPECT_THAT(message,
              HasSubstr("node.labels.npy: block 0 (bytes 128 .. 151)"));
}

TEST_F(VerifyTest, ListsTwentyAndCountsTheRest) {
  // 12,000,000 bytes: 2,930 blocks in three chunks.
  UseManyFeatures(500'000);
  Import();
  const std::string path = File("node.features.npy");
  const uint64_t size = posix_.Stat(path)->size_bytes;
  std::vector<std::unique_ptr<FlippedBit>> flipped;
  for (int block = 0; block < 23; ++block) {
    flipped.push_back(
        std::make_unique<FlippedBit>(path, 4096 + 1000 + 100 * 4096 * block));
  }
  ASSERT_GT(size, 4096u + 1000 + 100 * 4096 * 22);
  const absl::Status status = Verify().status();
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("23 parts are damaged"));
  EXPECT_THAT(message, HasSubstr("block 1900 "));
  EXPECT_THAT(message, Not(HasSubstr("block 2000 ")));
  EXPECT_THAT(message, HasSubstr("; and 3 more"));
  while (!flipped.empty()) flipped.pop_back();
  EXPECT_TRUE(Verify().ok());
}

TEST_F(VerifyTest, ReadsFeaturesInPlaceWhateverTheirAlignment) {
  UseManyFeatures(500'000);
  Import(/*in_place=*/true);
  const auto result = Verify();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->blocks, 2930u + 6);
}

TEST_F(VerifyTest, MissingAndShortFilesAreDamage) {
  Import();
  const auto dataset = *store::Dataset::Open(posix_, folder_.Destination());
  ASSERT_TRUE(posix_.RemoveTree(File("node.labels.npy")).ok());
  ASSERT_TRUE(posix_.RemoveTree(File("edge.indptr.npy.crc")).ok());
  ASSERT_TRUE(posix_.Create(File("node.features.npy")).ok());
  const absl::Status status =
      VerifyDataset(posix_, *dataset, nullptr, {}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr("3 parts are damaged"));
  EXPECT_THAT(message, HasSubstr("node.labels.npy"));
  EXPECT_THAT(message, HasSubstr("edge.indptr.npy.crc"));
  EXPECT_THAT(message, HasSubstr("node.features.npy: has 0 bytes"));
}

TEST_F(VerifyTest, DamageOnTheWayIsReadAgain) {
  UseManyFeatures(1000);
  Import();
  const auto dataset = *store::Dataset::Open(posix_, folder_.Destination());
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth,
                   .effect = io::Effect::kCorruptRead,
                   .only = io::Operation::kRead});
    const auto result = VerifyDataset(files_, *dataset, nullptr, {});
    hit = files_.hits() > 0;
    EXPECT_TRUE(result.ok()) << nth << result.status();
  }
}

TEST_F(VerifyTest, UnreadableBlocksAreNamedAndOthersStillChecked) {
  UseManyFeatures(1000);
  Import();
  const auto dataset = *store::Dataset::Open(posix_, folder_.Destination());
  const FlippedBit flipped(File("edge.indices.npy"), 130);
  files_.Inject({.nth = 1, .for_good = true, .only = io::Operation::kRead});
  const absl::Status all =
      VerifyDataset(files_, *dataset, nullptr, {}).status();
  EXPECT_TRUE(absl::IsDataLoss(all)) << all;
  files_.Clear();
  // One failed read per block: the second attempt tells real damage.
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth});
    const absl::Status status =
        VerifyDataset(files_, *dataset, nullptr, {}).status();
    hit = files_.hits() > 0;
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    if (!hit) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("1 part is"));
    }
  }
}

TEST_F(VerifyTest, OtherErrorsAreReturnedAtOnce) {
  Import();
  const auto dataset = *store::Dataset::Open(posix_, folder_.Destination());
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth,
                   .status = absl::PermissionDeniedError("not yours"),
                   .only = io::Operation::kOpenForRead});
    const absl::Status status =
        VerifyDataset(files_, *dataset, nullptr, {}).status();
    hit = files_.hits() > 0;
    EXPECT_EQ(absl::IsPermissionDenied(status), hit) << status;
  }
}

TEST_F(VerifyTest, CanBeCancelled) {
  Import();
  int calls = 0;
  progress_ = [&](uint64_t, uint64_t) {
    if (++calls == 3) stop_.request_stop();
  };
  EXPECT_TRUE(absl::IsCancelled(Verify().status()));
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace hearth::ingest
