#include "engine/store/array_stream.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/atomic_file.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"
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
  // In the block that the first buffer cuts.
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

}  // namespace
}  // namespace hearth::store
