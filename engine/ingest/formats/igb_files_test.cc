#include "engine/ingest/formats/igb_files.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/io/memory_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;

TEST(ComputedFileTest, IdsCountOrFollowAnOrder) {
  const auto file = NewIdFile("ids", 5, 3, std::nullopt);
  std::vector<int64_t> ids(3);
  const absl::Span<std::byte> bytes(reinterpret_cast<std::byte*>(ids.data()),
                                    24);
  ASSERT_TRUE(file->Read(0, bytes).ok());
  EXPECT_THAT(ids, ElementsAre(5, 6, 7));
  EXPECT_EQ(file->Info()->size_bytes, 24u);
  EXPECT_TRUE(absl::IsDataLoss(file->Read(8, bytes)));
  EXPECT_TRUE(absl::IsDataLoss(file->Read(UINT64_MAX, bytes)));
  const IdPermutation order(10, 1);
  ASSERT_TRUE(NewIdFile("ids", 5, 3, order)->Read(0, bytes).ok());
  EXPECT_THAT(ids, ElementsAre(order[5], order[6], order[7]));
}

TEST(ComputedFileTest, AnyBytesOfIdsCanBeRead) {
  const auto file = NewIdFile("ids", int64_t{1} << 40 | 7, 2, std::nullopt);
  std::array<std::byte, 16> all;
  ASSERT_TRUE(file->Read(0, absl::MakeSpan(all)).ok());
  for (size_t begin = 0; begin <= 16; ++begin) {
    for (size_t end = begin; end <= 16; ++end) {
      std::vector<std::byte> some(end - begin);
      ASSERT_TRUE(file->Read(begin, absl::MakeSpan(some)).ok());
      EXPECT_TRUE(some.empty() ||
                  std::memcmp(some.data(), &all[begin], some.size()) == 0);
    }
  }
}

TEST(ComputedFileTest, WhatIsPaddedIsAllOnes) {
  const auto file = NewPaddedFile(io::NewMemoryFile("abcdef"), 3, 8);
  const std::string expected = "abc\xff\xff\xff\xff\xff";
  EXPECT_EQ(file->Info()->size_bytes, 8u);
  for (size_t begin = 0; begin <= 8; ++begin) {
    std::string some(8 - begin, '\0');
    ASSERT_TRUE(file->Read(begin, absl::MakeSpan(
                                      reinterpret_cast<std::byte*>(some.data()),
                                      some.size()))
                    .ok());
    EXPECT_EQ(some, expected.substr(begin));
  }
  std::array<std::byte, 2> beyond;
  EXPECT_TRUE(absl::IsDataLoss(file->Read(7, absl::MakeSpan(beyond))));
}

}  // namespace
}  // namespace hearth::ingest
