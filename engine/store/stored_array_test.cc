#include "engine/store/stored_array.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {

namespace {

class ArrayStreamTest : public ::testing::Test {
 protected:
  // More than one buffer holds, and no whole number of blocks; the data begins
  // within a page.
  static constexpr int64_t kValues = 1'400'003;

  void SetUp() override { array_ = Write(kValues); }

  ArrayFile Write(int64_t count) {
    values_.resize(static_cast<size_t>(count));
    std::iota(values_.begin(), values_.end(), 1);
    auto writer = ArrayWriter::Create(
        Posix(), {.folder = scratch_.path(), .dataset = "test", .prefix = "x"},
        "values", DType::kInt64, {count}, kStreamAccess);
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE(
        (*writer)->AppendValues<int64_t>(absl::MakeConstSpan(values_)).ok());
    return (*writer)->Finish()->file;
  }

  /// All values, asked for `most` bytes at a time.
  absl::Status Read(io::FileSystem& files, uint64_t most) {
    read_.clear();
    auto stream = ArrayStream::Open(files, scratch_.path(), array_);
    if (!stream.ok()) return stream.status();
    while (true) {
      const auto bytes = (*stream)->Next(most);
      if (!bytes.ok()) return bytes.status();
      if (bytes->empty()) return absl::OkStatus();
      EXPECT_LE(bytes->size(), most);
      EXPECT_EQ(bytes->size() % sizeof(int64_t), 0u);
      const auto* values = reinterpret_cast<const int64_t*>(bytes->data());
      read_.insert(read_.end(), values,
                   values + bytes->size() / sizeof(int64_t));
      EXPECT_EQ((*stream)->position(), read_.size() * sizeof(int64_t));
    }
  }

  static io::FileSystem& Posix() { return io::FileSystem::Posix(); }

  const io::ScratchDirectory scratch_;
  std::vector<int64_t> values_;
  ArrayFile array_;
  std::vector<int64_t> read_;
};

TEST_F(ArrayStreamTest, GivesAllOfItInOrder) {
  for (const uint64_t most : {uint64_t{4096}, uint64_t{1} << 40}) {
    ASSERT_TRUE(Read(Posix(), most).ok());
    EXPECT_TRUE(read_ == values_) << most;
  }
}

TEST_F(ArrayStreamTest, GivesSmallArrays) {
  for (const int64_t count : {0, 1, 7, 8192, 8193}) {
    array_ = Write(count);
    ASSERT_TRUE(Read(Posix(), 1 << 20).ok());
    EXPECT_EQ(read_, values_);
  }
}

TEST_F(ArrayStreamTest, ReadsOnceMoreWhatWasDamagedOnTheWay) {
  io::FaultyFileSystem files(Posix());
  for (int64_t nth = 1;; ++nth) {
    files.Inject({.nth = nth,
                  .effect = io::Effect::kCorruptRead,
                  .only = io::Operation::kRead});
    ASSERT_TRUE(Read(files, 1 << 20).ok());
    EXPECT_TRUE(read_ == values_);
    if (files.hits() == 0) break;
  }
}

TEST_F(ArrayStreamTest, NamesTheDamagedBlock) {
  const std::string path = scratch_.Path("x.values.npy");
  std::string bytes = *io::ReadWholeFile(Posix(), path, 1 << 30);
  // A byte of the block that the first buffer cuts.
  constexpr uint64_t kAt = ArrayStream::kBufferBytes;
  bytes[kAt] ^= 1;
  ASSERT_TRUE(io::WriteFileAtomically(Posix(), path, bytes).ok());
  const absl::Status status = Read(Posix(), 1 << 20);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  const uint64_t block = (kAt - array_.data_offset) / (64 << 10);
  EXPECT_NE(status.message().find("block " + std::to_string(block) + " ("),
            std::string::npos)
      << status;
}

TEST_F(ArrayStreamTest, TellsAShortFile) {
  const std::string path = scratch_.Path("x.values.npy");
  const std::string bytes = *io::ReadWholeFile(Posix(), path, 1 << 30);
  ASSERT_TRUE(
      io::WriteFileAtomically(Posix(), path, bytes.substr(0, bytes.size() - 1))
          .ok());
  EXPECT_TRUE(absl::IsDataLoss(Read(Posix(), 1 << 20)));
}

using testing::HasSubstr;

constexpr uint64_t kBlock = 4096;

/// A file of two and a half blocks of 4 KiB behind a header of 64.
class VerifiedFileTest : public testing::Test {
 protected:
  VerifiedFileTest() {
    for (size_t i = 0; i < 2 * kBlock + kBlock / 2; ++i) {
      data_.push_back(static_cast<std::byte>(i * 2654435761u >> 13));
    }
    const auto writer = *ArrayWriter::Create(
        files_, {scratch_.path(), "set", "node"}, "bytes", DType::kUint8,
        {static_cast<int64_t>(data_.size())},
        {.alignment = 64, .crc_block_bytes = kBlock});
    EXPECT_TRUE(writer->Append(data_).ok());
    array_ = writer->Finish()->file;
  }

  absl::StatusOr<std::vector<std::byte>> Read(uint64_t first, size_t count) {
    const auto file = OpenVerifiedFile(files_, scratch_.path(), array_);
    if (!file.ok()) return file.status();
    std::vector<std::byte> out(count);
    const absl::Status status =
        (*file)->Read(array_.data_offset + first, absl::MakeSpan(out));
    if (!status.ok()) return status;
    return out;
  }

  /// Flips a bit on the disk.
  void Flip(const std::string& name, uint64_t offset) {
    const std::string path = scratch_.Path(name);
    std::vector<std::byte> bytes(files_.Stat(path)->size_bytes);
    ASSERT_TRUE(
        (*files_.OpenForRead(path))->Read(0, absl::MakeSpan(bytes)).ok());
    bytes[offset] ^= std::byte{4};
    ASSERT_TRUE((*files_.Create(path))->Append(bytes).ok());
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  std::vector<std::byte> data_;
  ArrayFile array_;
};

TEST_F(VerifiedFileTest, GivesAnyRange) {
  for (const uint64_t first : {0, 1, 4095, 4096, 5000, 8192, 10000}) {
    for (const uint64_t count : {0, 1, 4096, 4097, 8192, 10240}) {
      if (first + count > data_.size()) continue;
      const auto read = Read(first, count);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_TRUE(std::equal(read->begin(), read->end(),
                             data_.begin() + static_cast<ptrdiff_t>(first)))
          << first << " " << count;
    }
  }
}

TEST_F(VerifiedFileTest, GivesHeaderAndDataInOne) {
  const auto file = OpenVerifiedFile(files_, scratch_.path(), array_);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::byte> all(array_.file_size_bytes);
  ASSERT_TRUE((*file)->Read(0, absl::MakeSpan(all)).ok());
  EXPECT_EQ(all[1], std::byte{'N'});
  EXPECT_TRUE(
      std::equal(data_.begin(), data_.end(),
                 all.begin() + static_cast<ptrdiff_t>(array_.data_offset)));
  EXPECT_EQ((*file)->Info()->size_bytes, array_.file_size_bytes);
  EXPECT_EQ((*file)->path(), scratch_.Path("node.bytes.npy"));
}

TEST_F(VerifiedFileTest, NothingIsReadBeyondTheEnd) {
  for (const uint64_t first : {uint64_t{0}, uint64_t{10'000}, uint64_t{10'241},
                               ~uint64_t{0} - 100'000}) {
    const absl::Status status = Read(first, 10'241).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("ends at byte"));
  }
}

TEST_F(VerifiedFileTest, AFlippedByteAnywhereIsFoundByWhoReadsIt) {
  Flip("node.bytes.npy", array_.data_offset + kBlock + 5);
  EXPECT_TRUE(Read(0, kBlock).ok());
  EXPECT_TRUE(Read(2 * kBlock, 10).ok());
  for (const auto& [first, count] :
       {std::pair<uint64_t, size_t>{0, 8192}, {4096, 1}, {8000, 300}}) {
    const absl::Status status = Read(first, count).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("node.bytes.npy: block 1 (bytes ",
                                       array_.data_offset + kBlock, " .. ")));
  }
}

TEST_F(VerifiedFileTest, DamagedHeadersAndChecksumsAreFoundWhenOpened) {
  Flip("node.bytes.npy.crc", 9);
  absl::Status status = Read(0, 1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("npy.crc: it is damaged"));
  Flip("node.bytes.npy.crc", 9);
  Flip("node.bytes.npy", 20);
  status = Read(0, 1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the header is damaged"));
}

TEST_F(VerifiedFileTest, DamageOnTheWayIsReadAgain) {
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth,
                   .effect = io::Effect::kCorruptRead,
                   .only = io::Operation::kRead});
    const auto read = Read(100, 9000);
    hit = files_.hits() > 0;
    ASSERT_TRUE(read.ok()) << nth << read.status();
    EXPECT_TRUE(std::equal(read->begin(), read->end(), data_.begin() + 100));
  }
}

TEST_F(VerifiedFileTest, EveryFailedCallIsTold) {
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth});
    const absl::Status status = Read(100, 9000).status();
    hit = files_.hits() > 0;
    EXPECT_EQ(absl::IsUnavailable(status), hit) << status;
  }
}

}  // namespace

}  // namespace hearth::store
