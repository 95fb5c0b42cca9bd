#include "engine/ingest/generate/computed_file.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

/// Items of five bytes: byte b of item i is 5 * i + b.
class Counting : public ComputedItems {
 public:
  int64_t num_items() const override { return 7; }
  int64_t item_bytes() const override { return 5; }
  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    EXPECT_EQ(out.size() % 5, 0u);
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<std::byte>(first * 5 + static_cast<int64_t>(i));
    }
  }
};

TEST(ComputedFileTest, GivesTheSameBytesHoweverItIsRead) {
  const auto file = NewComputedFile(std::make_unique<Counting>(), "made up");
  for (size_t offset = 0; offset <= 35; ++offset) {
    for (size_t count = 0; offset + count <= 35; ++count) {
      std::vector<std::byte> out(count);
      ASSERT_TRUE(file->Read(offset, absl::MakeSpan(out)).ok());
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[i], static_cast<std::byte>(offset + i))
            << offset << " " << count;
      }
    }
  }
}

TEST(ComputedFileTest, EndsWhereItsItemsEnd) {
  const auto file = NewComputedFile(std::make_unique<Counting>(), "made up");
  std::vector<std::byte> out(2);
  const absl::Status status = file->Read(34, absl::MakeSpan(out));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::HasSubstr("made up: ends at byte 35"));
  EXPECT_TRUE(absl::IsDataLoss(file->Read(UINT64_MAX, absl::MakeSpan(out))));
}

TEST(ComputedFileTest, IsAFileOfThatSize) {
  const auto file = NewComputedFile(std::make_unique<Counting>(), "made up");
  const auto info = file->Info();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->size_bytes, 35u);
  EXPECT_TRUE(info->is_regular);
  EXPECT_EQ(file->path(), "made up");
}

}  // namespace
}  // namespace hearth::ingest
