#include "engine/store/array_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCount = 10'000;

class ArrayPartsTest : public ::testing::Test {
 protected:
  // An array whose element i is i.
  void Write(uint64_t alignment, uint32_t block_bytes) {
    std::vector<int32_t> values(kCount);
    std::iota(values.begin(), values.end(), 0);
    auto writer = *ArrayWriter::Create(
        io::FileSystem::Posix(), {scratch_.path(), "graph", "edge"}, "indices",
        DType::kInt32, {kCount}, {alignment, block_bytes, false});
    ASSERT_TRUE(writer->AppendValues(absl::Span<const int32_t>(values)).ok());
    array_ = writer->Finish()->file;
  }

  absl::StatusOr<ArrayParts> Open() {
    return ArrayParts::Open(faulty_, scratch_.path(), array_, {});
  }

  // The first element of the bytes [begin, begin + count) of the data.
  absl::StatusOr<int32_t> Read(const ArrayParts& parts, uint64_t begin,
                               uint64_t count, std::stop_token stop = {}) {
    auto memory =
        *io::AlignedMemory::Allocate(ArrayParts::MemoryBytes(array_, count));
    const auto part = parts.Read(begin, count, memory.bytes(), stop);
    if (!part.ok()) return part.status();
    EXPECT_TRUE(part->Has(begin, begin + count));
    if (count == 0) return -1;
    EXPECT_EQ(part->begin % array_.crc_block_bytes, 0u);
    int32_t first = -1;
    std::memcpy(&first, part->At(begin), sizeof(first));
    return first;
  }

  const io::ScratchDirectory scratch_;
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
  ArrayFile array_;
};

TEST_F(ArrayPartsTest, ReadsWhatIsAskedForWhereverItBegins) {
  for (const uint64_t alignment : {64, 4096}) {
    for (const uint32_t block : {256, 4096, 65536}) {
      Write(alignment, block);
      const auto parts = Open();
      ASSERT_TRUE(parts.ok()) << parts.status();
      EXPECT_EQ(parts->data_bytes(), 4u * kCount);
      for (const int64_t first : {0, 1, 63, 64, 1023, 1024, 5000, 9999}) {
        for (const int64_t count : {1, 64, 2000, 10'000}) {
          const int64_t most = std::min(count, kCount - first);
          const auto read = Read(*parts, static_cast<uint64_t>(4 * first),
                                 static_cast<uint64_t>(4 * most));
          ASSERT_TRUE(read.ok()) << read.status();
          EXPECT_EQ(*read, first);
        }
      }
      EXPECT_TRUE(Read(*parts, 4 * kCount, 0).ok());
      const absl::Status status = Read(*parts, 4 * kCount - 4, 8).status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    }
  }
}

TEST_F(ArrayPartsTest, DamageIsReadOnceMoreThenNamed) {
  Write(64, 256);
  const auto parts = Open();
  ASSERT_TRUE(parts.ok()) << parts.status();
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  EXPECT_EQ(*Read(*parts, 400, 4000), 100);
  faulty_.Clear();
  const std::string path = scratch_.Path(array_.path);
  std::string contents =
      *io::ReadWholeFile(io::FileSystem::Posix(), path, 1 << 20);
  contents[array_.data_offset + 600] ^= 1;
  ASSERT_TRUE(
      io::WriteFileAtomically(io::FileSystem::Posix(), path, contents).ok());
  const auto damaged = Open();
  ASSERT_TRUE(damaged.ok()) << damaged.status();
  // The blocks beside it are whole.
  EXPECT_EQ(*Read(*damaged, 256, 256), 64);
  EXPECT_EQ(*Read(*damaged, 768, 256), 192);
  const absl::Status status = Read(*damaged, 764, 8).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(path, ": block 2 (bytes ",
                                     array_.data_offset + 512, " .. ")));
}

TEST_F(ArrayPartsTest, AStopAndAChangedFileAreErrors) {
  Write(64, 256);
  const auto parts = Open();
  ASSERT_TRUE(parts.ok()) << parts.status();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Read(*parts, 0, 4, stop.get_token()).status()));
  ASSERT_TRUE(io::WriteFileAtomically(io::FileSystem::Posix(),
                                      scratch_.Path(array_.path), "short")
                  .ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Open().status()));
}

}  // namespace
}  // namespace hearth::store
