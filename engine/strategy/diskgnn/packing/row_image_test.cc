#include "engine/strategy/diskgnn/packing/row_image.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/crc32c.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
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
}  // namespace hearth::strategy
