#include "engine/strategy/diskgnn/packing/plan_reader.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/small_plan_fixture.h"
#include "engine/strategy/packing/file_range.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::strategy {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RowImageTest : public ::testing::Test {
 protected:
  // 2.5 buffers.
  static constexpr uint64_t kBytes = 10'240;
  static constexpr uint64_t kBufferBytes = 4096;

  RowImageTest() {
    for (uint64_t i = 0; i < kBytes; ++i) {
      text_ += static_cast<char>('a' + i / 100 % 26);
    }
    image_ = {.path = scratch_.Path("image"),
              .crc = Crc32c({reinterpret_cast<const std::byte*>(text_.data()),
                             text_.size()}),
              .bytes = kBytes};
    EXPECT_TRUE(
        io::WriteFileAtomically(io::FileSystem::Posix(), image_.path, text_)
            .ok());
  }

  // Appends to taken_ and offsets_.
  absl::Status Stream(const std::stop_token& stop = {}) {
    return StreamRowImage(
        files_, image_, buffer_.bytes().first(kBufferBytes),
        [&](uint64_t at, absl::Span<const std::byte> part) {
          offsets_.push_back(at);
          taken_.append(reinterpret_cast<const char*>(part.data()),
                        part.size());
          return take_;
        },
        stop);
  }

  absl::Status Load(std::string& text, const std::stop_token& stop = {}) {
    io::AlignedMemory memory = *io::AlignedMemory::Allocate(kBytes);
    const absl::Status status =
        LoadRowImage(files_, image_, memory.bytes().first(kBytes), stop);
    text.assign(reinterpret_cast<const char*>(memory.bytes().data()), kBytes);
    return status;
  }

  const io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  std::string text_;
  RowImage image_;
  io::AlignedMemory buffer_ = *io::AlignedMemory::Allocate(kBufferBytes);
  absl::Status take_;
  std::vector<uint64_t> offsets_;
  std::string taken_;
};

TEST_F(RowImageTest, IsLoaded) {
  std::string text;
  EXPECT_EQ(Load(text), absl::OkStatus());
  EXPECT_EQ(text, text_);
}

TEST_F(RowImageTest, ComesInParts) {
  EXPECT_EQ(Stream(), absl::OkStatus());
  EXPECT_THAT(offsets_, ElementsAre(0, 4096, 8192));
  EXPECT_EQ(taken_, text_);
}

TEST_F(RowImageTest, DamageOnTheWayIsReadOnceMore) {
  const io::Fault fault = {.nth = 2,
                           .effect = io::Effect::kCorruptRead,
                           .only = io::Operation::kRead};
  files_.Inject(fault);
  EXPECT_EQ(Stream(), absl::OkStatus());
  EXPECT_THAT(offsets_, ElementsAre(0, 4096, 8192, 0, 4096, 8192));
  EXPECT_NE(taken_.substr(0, kBytes), text_);
  EXPECT_EQ(taken_.substr(kBytes), text_);
  files_.Inject({.nth = 1,
                 .effect = io::Effect::kCorruptRead,
                 .only = io::Operation::kRead});
  std::string text;
  EXPECT_EQ(Load(text), absl::OkStatus());
  EXPECT_EQ(text, text_);
}

TEST_F(RowImageTest, DamageIsNamed) {
  image_.crc ^= 1;
  std::string text;
  for (const absl::Status& status : {Stream(), Load(text)}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(image_.path));
  }
}

TEST_F(RowImageTest, StopsOnRequest) {
  std::stop_source stop;
  stop.request_stop();
  std::string text;
  EXPECT_TRUE(absl::IsCancelled(Stream(stop.get_token())));
  EXPECT_TRUE(absl::IsCancelled(Load(text, stop.get_token())));
  EXPECT_TRUE(taken_.empty());
}

TEST_F(RowImageTest, WhatTakesItMayFail) {
  take_ = absl::InternalError("full");
  EXPECT_EQ(Stream(), take_);
  EXPECT_THAT(offsets_, ElementsAre(0));
}

TEST_F(RowImageTest, MayBeMissing) {
  image_.path += "x";
  EXPECT_TRUE(absl::IsNotFound(Stream()));
}

}  // namespace

// Reading a packed plan: damage is found, named, and healed if it was in
// transit.

namespace {

class ReadPlanTest : public ::testing::Test {
 protected:
  ReadPlanTest() { packed_ = plan_.Pack(posix_).status(); }

  void SetUp() override { ASSERT_TRUE(packed_.ok()) << packed_; }

  std::string Path(const char* name) const {
    return io::JoinPath(plan_.folder(), name);
  }

  // Changes the contents of a file of the plan.
  void Change(const char* name, const std::function<void(std::string&)>& how) {
    std::string contents = *io::ReadWholeFile(posix_, Path(name), 1 << 30);
    how(contents);
    const auto file = *posix_.Create(Path(name));
    ASSERT_TRUE(
        file->Append({reinterpret_cast<const std::byte*>(contents.data()),
                      contents.size()})
            .ok());
    ASSERT_TRUE(file->Close().ok());
  }

  // Flips a bit, and reads everything.
  absl::Status ReadBent(const char* name, uint64_t offset) {
    const auto flip = [&](std::string& contents) { contents[offset] ^= 16; };
    Change(name, flip);
    const absl::Status status = plan_.ReadAll(posix_);
    Change(name, flip);
    return status;
  }

  static void ExpectDamage(const absl::Status& status,
                           std::initializer_list<std::string> named) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    for (const std::string& name : named) {
      EXPECT_NE(status.message().find(name), absl::string_view::npos)
          << "'" << name << "' in: " << status;
    }
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const SmallPlan plan_{{.row_bytes = 500}};
  absl::Status packed_;
};

TEST_F(ReadPlanTest, DamageOfAChunkIsNamedByFileBatchAndOffset) {
  const PackedLayout& layout = plan_.layout();
  for (const int64_t batch : {0, 5, 9}) {
    for (const FileRange& range :
         {layout.SampleRange(batch), layout.TableRange(batch),
          layout.FeaturesRange(batch)}) {
      ASSERT_GT(range.bytes, 0u);
      for (const uint64_t at : {uint64_t{0}, range.bytes - 1}) {
        ExpectDamage(ReadBent(kPacksFile, range.offset + at),
                     {Path(kPacksFile), absl::StrCat("batch ", batch),
                      absl::StrCat("byte ", range.offset)});
      }
    }
  }
  EXPECT_EQ(plan_.ReadAll(posix_), absl::OkStatus());
}

TEST_F(ReadPlanTest, ATableAloneIsTheOneThatComesWithTheRows) {
  const PackedLayout layout =
      *ReadLayoutIndex(posix_, plan_.folder(), SmallPlan::kPlanId);
  const auto chunks = *ChunkReader::Open(posix_, plan_.folder(), layout);
  auto buffer = *io::AlignedMemory::Allocate(chunks->features_buffer_bytes());
  AddressTable alone;
  AddressTable with_rows;
  for (int64_t batch = 0; batch < layout.num_batches(); ++batch) {
    ASSERT_EQ(chunks->ReadTable(batch, buffer.bytes(), alone),
              absl::OkStatus());
    ASSERT_TRUE(chunks->ReadFeatures(batch, buffer.bytes(), with_rows).ok());
    EXPECT_EQ(alone, with_rows);
  }
  const uint64_t offset = layout.TableRange(3).offset;
  Change(kPacksFile, [&](std::string& contents) { contents[offset] ^= 1; });
  ExpectDamage(chunks->ReadTable(3, buffer.bytes(), alone),
               {Path(kPacksFile), "batch 3", absl::StrCat("byte ", offset)});
}

TEST_F(ReadPlanTest, DamageOfTheDiskCacheIsNamedByFileBatchAndOffset) {
  ASSERT_GT(plan_.layout().disk_cache_bytes(), 2 * kPageBytes);
  ExpectDamage(ReadBent(kDiskCacheFile, kPageBytes + 7),
               {Path(kDiskCacheFile), "batch ", "byte 4096"});
  ExpectDamage(ReadBent(kDiskChecksumsFile, 1), {Path(kDiskChecksumsFile)});
}

TEST_F(ReadPlanTest, DamageOfAnImageIsNamed) {
  for (const char* name : {kGpuCacheFile, kCpuCacheFile}) {
    ExpectDamage(ReadBent(name, 99), {Path(name)});
  }
}

TEST_F(ReadPlanTest, DamageOfTheIndexIsNamed) {
  for (uint64_t at = 0; at < plan_.layout().index_bytes(); at += 29) {
    const absl::Status status = ReadBent(kIndexFile, at);
    if (at >= 8 && at < 12) {
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    } else {
      ExpectDamage(status, {Path(kIndexFile)});
    }
  }
  Change(kIndexFile, [](std::string& contents) { contents.resize(50); });
  ExpectDamage(plan_.ReadAll(posix_), {Path(kIndexFile)});
}

TEST_F(ReadPlanTest, APlanIsThereOnlyWithItsIndexAndAllFiles) {
  EXPECT_TRUE(absl::IsDataLoss(
      ReadLayoutIndex(posix_, plan_.folder(), SmallPlan::kPlanId + 1)
          .status()));
  Change(kPacksFile, [](std::string& contents) { contents.pop_back(); });
  ExpectDamage(plan_.ReadAll(posix_), {Path(kPacksFile)});
  ASSERT_TRUE(posix_.RemoveTree(Path(kPacksFile)).ok());
  ExpectDamage(plan_.ReadAll(posix_), {Path(kPacksFile)});
  ASSERT_TRUE(posix_.RemoveTree(Path(kIndexFile)).ok());
  EXPECT_TRUE(absl::IsNotFound(
      ReadLayoutIndex(posix_, plan_.folder(), SmallPlan::kPlanId).status()));
}

TEST_F(ReadPlanTest, DamageOnTheWayIsReadOnceMore) {
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth,
                    .effect = io::Effect::kCorruptRead,
                    .only = io::Operation::kRead});
    const absl::Status status = plan_.ReadAll(faulty_);
    EXPECT_TRUE(status.ok()) << nth << ": " << status;
    if (faulty_.hits() == 0) {
      EXPECT_GT(nth, 20);
      break;
    }
  }
}

TEST_F(ReadPlanTest, FailedReadsAreReturned) {
  // The device repeats failed reads itself.
  int64_t failed = 0;
  for (int64_t nth = 1; nth < 40; ++nth) {
    faulty_.Inject({.nth = nth, .for_good = true});
    const absl::Status status = plan_.ReadAll(faulty_);
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
    ++failed;
    nth += 2;
  }
  EXPECT_GT(failed, 10);
}

TEST_F(ReadPlanTest, AChunkIsNotTakenForThatOfAnotherPlan) {
  const PackedLayout layout =
      *ReadLayoutIndex(posix_, plan_.folder(), SmallPlan::kPlanId);
  PackedLayout other = layout;
  other.plan_id = 5;
  std::byte header[kChunkHeaderBytes];
  WriteChunkHeader(layout, 3, header);
  EXPECT_TRUE(IsChunkHeader(layout, 3, header));
  EXPECT_FALSE(IsChunkHeader(layout, 4, header));
  EXPECT_FALSE(IsChunkHeader(other, 3, header));
}

}  // namespace

}  // namespace hearth::strategy
