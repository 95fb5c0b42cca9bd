#include "engine/strategy/superbatch/changeset_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/topology.h"
#include "engine/strategy/superbatch/changeset.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using store::NodeId;
using Offsets = std::vector<uint64_t>;

class ChangesetFileTest : public ::testing::Test {
 protected:
  ChangesetFileTest() : initial_({5, int64_t{1} << 47, 0}) {
    updates_.push_back({{1, 2}, {5, 0}, {7, 3}});
    updates_.push_back({});
    updates_.push_back({{9}, {1}, {0}});
  }

  absl::StatusOr<Offsets> Write(io::FileSystem& files) {
    auto writer = ChangesetFileWriter::Create(files, path_);
    if (!writer.ok()) return writer.status();
    absl::Status status = (*writer)->Initialize(initial_);
    for (size_t i = 0; status.ok() && i < updates_.size(); ++i) {
      status = (*writer)->Update(static_cast<int64_t>(i), updates_[i]);
    }
    if (!status.ok()) return status;
    return (*writer)->Finish();
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("changesets");
  const std::vector<NodeId> initial_;
  std::vector<Changeset> updates_;
};

TEST_F(ChangesetFileTest, EveryRecordComesBack) {
  const auto offsets = Write(posix_);
  ASSERT_TRUE(offsets.ok()) << offsets.status();
  ASSERT_EQ(offsets->size(), updates_.size() + 2);
  const auto reader = ChangesetFileReader::Open(posix_, path_, *offsets);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(*(*reader)->ReadInitial(), initial_);
  // In any order.
  for (const size_t i : {2, 0, 1}) {
    const auto update = (*reader)->ReadUpdate(static_cast<int64_t>(i));
    ASSERT_TRUE(update.ok()) << update.status();
    EXPECT_EQ(update->in_ids, updates_[i].in_ids);
    EXPECT_EQ(update->out_ids, updates_[i].out_ids);
    EXPECT_EQ(update->in_positions, updates_[i].in_positions);
  }
}

TEST_F(ChangesetFileTest, DamageIsNamedByFileAndOffset) {
  const Offsets offsets = *Write(posix_);
  std::string bent = *io::ReadWholeFile(posix_, path_, 1 << 20);
  bent[offsets[1] + 45] ^= 4;
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, bent).ok());
  const auto reader = *ChangesetFileReader::Open(posix_, path_, offsets);
  EXPECT_TRUE(reader->ReadInitial().ok());
  EXPECT_TRUE(reader->ReadUpdate(1).ok());
  const absl::Status status = reader->ReadUpdate(0).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find(path_), absl::string_view::npos);
  EXPECT_NE(status.message().find(std::to_string(offsets[1])),
            absl::string_view::npos);
}

TEST_F(ChangesetFileTest, ARecordIsNotTakenForAnother) {
  updates_ = {updates_[0], updates_[0]};
  Offsets offsets = *Write(posix_);
  offsets.erase(offsets.begin() + 1);
  const auto reader = *ChangesetFileReader::Open(posix_, path_, offsets);
  EXPECT_TRUE(absl::IsDataLoss(reader->ReadUpdate(0).status()));
}

TEST_F(ChangesetFileTest, AFileOfAnotherSizeIsRefused) {
  const Offsets offsets = *Write(posix_);
  const std::string whole = *io::ReadWholeFile(posix_, path_, 1 << 20);
  ASSERT_TRUE(
      io::WriteFileAtomically(posix_, path_, whole.substr(0, whole.size() - 1))
          .ok());
  EXPECT_TRUE(absl::IsDataLoss(
      ChangesetFileReader::Open(posix_, path_, offsets).status()));
}

TEST_F(ChangesetFileTest, DamageOnTheWayIsReadOnceMore) {
  const Offsets offsets = *Write(posix_);
  const auto reader = *ChangesetFileReader::Open(faulty_, path_, offsets);
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  EXPECT_EQ(*reader->ReadInitial(), initial_);
  EXPECT_EQ(faulty_.hits(), 1);
}

TEST_F(ChangesetFileTest, AnyFailureLeavesNothing) {
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth});
    const absl::Status status = Write(faulty_).status();
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
    EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status())) << nth;
  }
}

TEST_F(ChangesetFileTest, AFullDiskLeavesNothing) {
  faulty_.LimitSpace(100);
  const absl::Status status = Write(faulty_).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status()));
}

TEST_F(ChangesetFileTest, FailedReadsAreReturned) {
  const Offsets offsets = *Write(posix_);
  const auto reader = *ChangesetFileReader::Open(faulty_, path_, offsets);
  faulty_.Inject({.only = io::Operation::kRead});
  EXPECT_TRUE(absl::IsUnavailable(reader->ReadInitial().status()));
  faulty_.Inject({});
  EXPECT_TRUE(absl::IsUnavailable(
      ChangesetFileReader::Open(faulty_, path_, offsets).status()));
}

}  // namespace
}  // namespace hearth::strategy
