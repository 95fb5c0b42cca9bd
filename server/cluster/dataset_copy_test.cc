#include "server/cluster/dataset_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/ingest/inspect/verify.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"
#include "tests/fixtures/graphs.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Contents of a folder's files, by name.
std::map<std::string, std::string> FilesOf(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename()] = Contents(entry.path());
  }
  return files;
}

// A daemon's datasets, in a folder of this machine.
class LocalDatasets final : public DatasetSource {
 public:
  explicit LocalDatasets(std::string folder) : folder(std::move(folder)) {}

  absl::Status Read(
      const v1::ReadDatasetRequest& request,
      absl::FunctionRef<absl::Status(const v1::DatasetPiece&)> take) override {
    const auto offered = OfferedDataset::Open(io::FileSystem::Posix(), folder);
    if (!offered.ok()) return offered.status();
    absl::Status taken;
    const absl::Status sent =
        offered->Send(request, [&](const v1::DatasetPiece& piece) {
          v1::DatasetPiece copy = piece;
          if (on_piece) taken = on_piece(copy);
          if (!taken.ok()) return false;
          bytes_sent += copy.data().size();
          taken = take(copy);
          return taken.ok();
        });
    return taken.ok() ? sent : taken;
  }

  std::string folder;
  // May change a piece, or end the connection.
  std::function<absl::Status(v1::DatasetPiece& piece)> on_piece;
  uint64_t bytes_sent = 0;
};

class DatasetCopyTest : public ::testing::Test {
 protected:
  // A dataset of 5 MB, so that it comes in several pieces.
  static std::string Planted(const io::ScratchDirectory& directory,
                             testing::PlantedGraph graph = {
                                 .feature_dim = 2'000}) {
    const auto folder = testing::ImportPlantedGraph(graph, directory.path());
    EXPECT_TRUE(folder.ok()) << folder.status();
    return folder.value_or("");
  }

  absl::StatusOr<store::Manifest> Copy(
      io::FileSystem& files = io::FileSystem::Posix()) {
    return CopyDataset(
        files, source_,
        {.name = "test",
         .share = share_,
         .unfinished = unfinished_,
         .destination = destination_,
         .on_progress = [](absl::string_view, uint64_t, uint64_t) {},
         .on_durable = [] {},
         .on_log = [this](const std::string& text) { log_.push_back(text); }},
        stop_.get_token());
  }

  // Ends the connection before the piece with this number.
  void BreakAt(int number) {
    source_.on_piece = [number, count = 0](v1::DatasetPiece&) mutable {
      return ++count < number ? absl::OkStatus()
                              : WaitForPeerError("host-a: is gone");
    };
  }

  void ExpectWhole() {
    const auto dataset =
        store::Dataset::Open(io::FileSystem::Posix(), destination_);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ((*dataset)->manifest().fingerprint, FingerprintOfSource());
    const auto verified =
        ingest::VerifyDataset(io::FileSystem::Posix(), **dataset, nullptr, {});
    EXPECT_TRUE(verified.ok()) << verified.status();
    EXPECT_FALSE(fs::exists(unfinished_));
  }

  std::string FingerprintOfSource() const {
    return (*store::Dataset::Open(io::FileSystem::Posix(), source_.folder))
        ->manifest()
        .fingerprint;
  }

  uint64_t BytesUnfinished() const {
    uint64_t bytes = 0;
    for (const auto& [name, contents] : FilesOf(unfinished_)) {
      if (name != store::Manifest::kFileName) bytes += contents.size();
    }
    return bytes;
  }

  io::ScratchDirectory scratch_;
  io::ScratchDirectory other_scratch_;
  LocalDatasets source_{Planted(scratch_)};
  const std::string unfinished_ = scratch_.Path("import-1.tmp");
  const std::string destination_ = scratch_.Path("copy");
  std::optional<DatasetShare> share_;
  std::stop_source stop_;
  std::vector<std::string> log_;
};

TEST_F(DatasetCopyTest, ACopyHasTheSameFiles) {
  const auto copied = Copy();
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ(copied->fingerprint, FingerprintOfSource());
  EXPECT_EQ(FilesOf(destination_), FilesOf(source_.folder));
  ExpectWhole();
}

// All rows of a dataset's features.
std::string RowsOf(const std::string& folder) {
  const auto dataset = *store::Dataset::Open(io::FileSystem::Posix(), folder);
  const auto features =
      *dataset->LoadFeatures(store::Residency::kMemory, std::stop_token(), 0);
  return {reinterpret_cast<const char*>(features->rows()),
          static_cast<size_t>(features->num_rows() * features->row_bytes())};
}

TEST_F(DatasetCopyTest, FeaturesInPlaceBecomeAFileOfTheCopy) {
  source_.folder =
      Planted(other_scratch_, {.feature_dim = 2'000, .in_place = true});
  const std::string fingerprint = FingerprintOfSource();
  const std::string rows = RowsOf(source_.folder);
  const auto copied = Copy();
  ASSERT_TRUE(copied.ok()) << copied.status();
  const store::ArrayFile& features = copied->node_types[0].features;
  EXPECT_FALSE(features.in_place);
  EXPECT_EQ(features.path, "node.features.npy");
  EXPECT_EQ(features.data_offset, 4096u);
  EXPECT_EQ(copied->fingerprint, fingerprint);
  ExpectWhole();
  // It needs the source's file no more, and can be copied on.
  fs::remove_all(other_scratch_.path());
  EXPECT_EQ(RowsOf(destination_), rows);
  const auto before = FilesOf(destination_);
  fs::rename(destination_, scratch_.Path("first"));
  source_.folder = scratch_.Path("first");
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(FilesOf(destination_), before);
}

TEST_F(DatasetCopyTest, AGraphOfSeveralTypesIsCopied) {
  source_.folder =
      *testing::ImportHeteroGraph({.in_place = true}, other_scratch_.path());
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
}

TEST_F(DatasetCopyTest, AShareHasItsRowsAndAllElse) {
  for (const bool in_place : {false, true}) {
    io::ScratchDirectory scratch;
    source_.folder =
        Planted(scratch, {.feature_dim = 2'000, .in_place = in_place});
    for (const int64_t index : {0, 1, 2}) {
      fs::remove_all(destination_);
      share_ = {.index = index, .count = 3};
      const auto copied = Copy();
      ASSERT_TRUE(copied.ok()) << copied.status();
      ExpectWhole();
      const store::ArrayFile& features = copied->node_types[0].features;
      EXPECT_EQ(features.rows->first, 200 * index);
      EXPECT_EQ(features.rows->end, 200 * (index + 1));
      const std::string whole = RowsOf(source_.folder);
      const std::string rows =
          Contents(destination_ + "/node.features.npy").substr(4'096);
      const store::ByteRange kept = features.KeptBytes();
      EXPECT_TRUE(rows == whole.substr(kept.begin, kept.end - kept.begin));
      EXPECT_GE(rows.size(), whole.size() / 3);
      EXPECT_LE(rows.size(), whole.size() / 3 + 2 * 4'096);
      uint64_t bytes = 0;
      for (const auto& [name, contents] : FilesOf(destination_)) {
        if (name != "manifest.json" && name != "statistics.json") {
          bytes += contents.size();
        }
      }
      EXPECT_EQ(copied->SizeBytes(), bytes);
    }
  }
}

TEST_F(DatasetCopyTest, ABrokenShareGoesOnWhereItWas) {
  share_ = {.index = 1, .count = 2};
  // In the header, and in the rows.
  for (const uint64_t most : {uint64_t{1'000}, uint64_t{1'500'000}}) {
    fs::remove_all(destination_);
    const std::string features = unfinished_ + "/node.features.npy";
    bool is_cut = false;
    source_.on_piece = [&](v1::DatasetPiece& piece) {
      if (is_cut) return WaitForPeerError("host-a: is gone");
      const uint64_t here = fs::exists(features) ? fs::file_size(features) : 0;
      if (fs::exists(features) && here + piece.data().size() > most) {
        piece.mutable_data()->resize(most - here);
        const auto* data =
            reinterpret_cast<const std::byte*>(piece.data().data());
        piece.set_crc32c(Crc32c({data, piece.data().size()}));
        is_cut = true;
      }
      return absl::OkStatus();
    };
    EXPECT_FALSE(Copy().ok());
    ASSERT_EQ(fs::file_size(features), most);
    source_.on_piece = nullptr;
    const uint64_t before = source_.bytes_sent;
    ASSERT_TRUE(Copy().ok());
    ExpectWhole();
    EXPECT_LT(source_.bytes_sent - before, 2'600'000u - most + 100'000);
  }
}

TEST_F(DatasetCopyTest, AnotherShareIsCopiedAnew) {
  share_ = {.index = 0, .count = 2};
  BreakAt(5);
  ASSERT_FALSE(Copy().ok());
  source_.on_piece = nullptr;
  share_ = {.index = 1, .count = 2};
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
}

TEST_F(DatasetCopyTest, DamageOfAShareIsCopiedAgain) {
  share_ = {.index = 1, .count = 2};
  const std::string features = unfinished_ + "/node.features.npy";
  source_.on_piece = [&](v1::DatasetPiece&) {
    const bool is_late =
        fs::exists(features) && fs::file_size(features) > 1'000'000;
    return is_late ? WaitForPeerError("host-a: is gone") : absl::OkStatus();
  };
  EXPECT_FALSE(Copy().ok());
  ASSERT_TRUE(fs::exists(features));
  std::fstream(features, std::ios::in | std::ios::out | std::ios::binary)
      << std::string(500'000, '\0');
  source_.on_piece = nullptr;
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
  EXPECT_THAT(log_, Contains(HasSubstr("copied again")));
}

TEST_F(DatasetCopyTest, AShareCannotBeCopiedOn) {
  share_ = {.index = 1, .count = 2};
  ASSERT_TRUE(Copy().ok());
  fs::rename(destination_, scratch_.Path("first"));
  source_.folder = scratch_.Path("first");
  const absl::Status status = Copy().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("has all of it"));
}

TEST_F(DatasetCopyTest, ABrokenCopyGoesOnWhereItWas) {
  BreakAt(5);
  const absl::Status broken = Copy().status();
  EXPECT_EQ(WaitCauseOf(broken), WaitCause::kPeer) << broken;
  EXPECT_FALSE(fs::exists(destination_));
  const uint64_t here = BytesUnfinished();
  EXPECT_GT(here, 0u);
  source_.on_piece = nullptr;
  const uint64_t before = source_.bytes_sent;
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
  uint64_t whole = 0;
  for (const auto& [name, contents] : FilesOf(destination_)) {
    whole += contents.size();
  }
  EXPECT_EQ(source_.bytes_sent - before, whole - here);
  EXPECT_THAT(log_, Contains(HasSubstr("from an earlier run")));
}

TEST_F(DatasetCopyTest, APieceThatIsDamagedOnItsWayComesAgain) {
  int count = 0;
  source_.on_piece = [&](v1::DatasetPiece& piece) {
    if (++count == 5) (*piece.mutable_data())[0] ^= 1;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
}

TEST_F(DatasetCopyTest, PiecesThatAreAlwaysDamagedAreAnError) {
  source_.on_piece = [&](v1::DatasetPiece& piece) {
    if (piece.data().size() > 100'000) (*piece.mutable_data())[0] ^= 1;
    return absl::OkStatus();
  };
  const absl::Status status = Copy().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("on its way"));
  EXPECT_FALSE(fs::exists(destination_));
}

TEST_F(DatasetCopyTest, WhatAPowerLossHasDamagedIsCopiedAgain) {
  const std::string features = unfinished_ + "/node.features.npy";
  int count = 0;
  source_.on_piece = [&](v1::DatasetPiece& piece) {
    count += piece.data().size() > 1'000'000 ? 1 : 0;
    return count < 3 ? absl::OkStatus() : WaitForPeerError("host-a: is gone");
  };
  EXPECT_FALSE(Copy().ok());
  ASSERT_GT(fs::file_size(features), 1'000'000u);
  std::fstream(features, std::ios::in | std::ios::out | std::ios::binary)
      << std::string(500'000, '\0');
  source_.on_piece = nullptr;
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
  EXPECT_THAT(log_, Contains(HasSubstr("copied again")));
}

TEST_F(DatasetCopyTest, DamageAtTheSourceIsFound) {
  const std::string features = source_.folder + "/node.features.npy";
  std::fstream(features, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(2'000'000)
      << "damage";
  const absl::Status status = Copy().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("node.features.npy"));
  EXPECT_FALSE(fs::exists(destination_));
}

TEST_F(DatasetCopyTest, AnotherDatasetIsCopiedAnew) {
  BreakAt(5);
  ASSERT_FALSE(Copy().ok());
  source_.on_piece = nullptr;
  source_.folder = Planted(other_scratch_, {.feature_dim = 2'000, .seed = 8});
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
  EXPECT_EQ(FilesOf(destination_), FilesOf(source_.folder));
  EXPECT_THAT(log_, Contains(HasSubstr("started over")));
}

TEST_F(DatasetCopyTest, ADatasetThatChangesMeanwhileIsCopiedAnew) {
  const std::string next =
      Planted(other_scratch_, {.feature_dim = 2'000, .seed = 8});
  int count = 0;
  source_.on_piece = [&](v1::DatasetPiece&) {
    if (++count == 5) source_.folder = next;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Copy().ok());
  EXPECT_EQ(FilesOf(destination_), FilesOf(next));
  EXPECT_THAT(log_, Contains(HasSubstr("started over")));
}

TEST_F(DatasetCopyTest, AStoppedCopyGoesOn) {
  int count = 0;
  source_.on_piece = [&](v1::DatasetPiece&) {
    if (++count == 6) stop_.request_stop();
    return absl::OkStatus();
  };
  const absl::Status stopped = Copy().status();
  EXPECT_TRUE(absl::IsCancelled(stopped)) << stopped;
  EXPECT_GT(BytesUnfinished(), 0u);
  stop_ = std::stop_source();
  source_.on_piece = nullptr;
  ASSERT_TRUE(Copy().ok());
  ExpectWhole();
}

TEST_F(DatasetCopyTest, AFullDiskShowsBeforeTheCopy) {
  io::FaultyFileSystem files(io::FileSystem::Posix());
  files.LimitSpace(1'000'000);
  const absl::Status status = Copy(files).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the copy needs"));
  EXPECT_EQ(BytesUnfinished(), 0u);
}

TEST_F(DatasetCopyTest, AfterAnyFaultItGoesOnOrIsWhole) {
  source_.folder = Planted(other_scratch_, {});
  for (io::Fault fault : {io::Fault{},
                          io::Fault{.effect = io::Effect::kTearWrite,
                          .only = io::Operation::kWrite},
                          io::Fault{.effect = io::Effect::kLoseReply,
                          .only = io::Operation::kRename}}) {
    bool was_hit = true;
    for (; was_hit; ++fault.nth) {
      const int64_t nth = fault.nth;
      fs::remove_all(destination_);
      fs::remove_all(unfinished_);
      io::FaultyFileSystem files(io::FileSystem::Posix());
      files.Inject(fault);
      const absl::Status status = Copy(files).status();
      was_hit = files.hits() > 0;
      // A reply that was lost may be that of the last rename.
      if (!fs::exists(destination_)) {
        ASSERT_FALSE(status.ok()) << nth;
        files.Clear();
        const absl::Status again = Copy(files).status();
        ASSERT_TRUE(again.ok()) << nth << ": " << status << "; " << again;
      }
      ExpectWhole();
      if (HasFatalFailure()) return;
    }
  }
}

class OfferedDatasetTest : public DatasetCopyTest {
 protected:
  absl::Status Ask(const std::string& file, uint64_t offset,
                   const std::string& fingerprint = "") {
    v1::ReadDatasetRequest request;
    request.set_name("test");
    request.set_file(file);
    request.set_offset(offset);
    request.set_fingerprint(fingerprint);
    pieces_.clear();
    return source_.Read(request, [this](const v1::DatasetPiece& piece) {
      pieces_.push_back(piece);
      return absl::OkStatus();
    });
  }

  std::vector<v1::DatasetPiece> pieces_;
};

TEST_F(OfferedDatasetTest, GivesTheRestOfAFileInPiecesOfOneMebibyte) {
  const std::string whole = Contents(source_.folder + "/node.features.npy");
  ASSERT_TRUE(Ask("node.features.npy", 1'000).ok());
  std::string rest;
  for (const v1::DatasetPiece& piece : pieces_) {
    EXPECT_LE(piece.data().size(), size_t{1} << 20);
    rest += piece.data();
  }
  EXPECT_TRUE(rest == whole.substr(1'000));
  EXPECT_TRUE(Ask("node.features.npy", whole.size()).ok());
  EXPECT_TRUE(pieces_.empty());
  EXPECT_TRUE(absl::IsOutOfRange(Ask("node.features.npy", whole.size() + 1)));
}

TEST_F(OfferedDatasetTest, ListsTheManifestFirst) {
  ASSERT_TRUE(Ask("", 0, FingerprintOfSource()).ok());
  ASSERT_EQ(pieces_.size(), 1u);
  EXPECT_EQ(pieces_[0].files(0).name(), "manifest.json");
  EXPECT_EQ(static_cast<size_t>(pieces_[0].files_size()),
            FilesOf(source_.folder).size());
}

TEST_F(OfferedDatasetTest, RefusesWhatItDoesNotHave) {
  EXPECT_TRUE(absl::IsAborted(Ask("", 0, "0123456789abcdef")));
  EXPECT_TRUE(absl::IsNotFound(Ask("../secret", 0)));
  EXPECT_TRUE(absl::IsNotFound(Ask("parts.json", 0)));
}

TEST_F(OfferedDatasetTest, RefusesFeaturesInPlaceThatHaveChanged) {
  source_.folder =
      Planted(other_scratch_, {.feature_dim = 2'000, .in_place = true});
  const std::string path =
      (*store::Dataset::Open(io::FileSystem::Posix(), source_.folder))
          ->manifest()
          .node_types[0]
          .features.path;
  ASSERT_TRUE(Ask("node.features.npy", 0).ok());
  fs::last_write_time(path, fs::file_time_type::clock::now());
  const absl::Status status = Ask("node.features.npy", 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

}  // namespace
}  // namespace hearth::server
