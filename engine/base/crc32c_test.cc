#include "engine/base/crc32c.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace hearth {
namespace {

std::vector<std::byte> Bytes(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

// Bits from a small generator: no pattern that a wrong table could share.
std::vector<std::byte> Noise(size_t size) {
  std::vector<std::byte> bytes(size);
  uint32_t state = 12345;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// The definition, bit by bit.
uint32_t Reference(absl::Span<const std::byte> data, uint32_t crc = 0) {
  crc = ~crc;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78 : 0);
    }
  }
  return ~crc;
}

// RFC 3720, appendix B.4.
TEST(Crc32cTest, PublishedVectors) {
  EXPECT_EQ(Crc32c(std::vector<std::byte>(32)), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::vector<std::byte>(32, std::byte{0xff})), 0x62a8ab43u);
  std::vector<std::byte> ascending(32);
  for (int i = 0; i < 32; ++i) ascending[i] = static_cast<std::byte>(i);
  EXPECT_EQ(Crc32c(ascending), 0x46dd794eu);
  const std::vector<std::byte> descending(ascending.rbegin(), ascending.rend());
  EXPECT_EQ(Crc32c(descending), 0x113fdb5cu);
  EXPECT_EQ(Crc32c(Bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(Crc32cTest, AgreesWithTheDefinitionAtEverySmallSize) {
  const std::vector<std::byte> data = Noise(1200);
  for (size_t size = 0; size <= data.size(); ++size) {
    const auto part = absl::MakeConstSpan(data).first(size);
    ASSERT_EQ(Crc32c(part), Reference(part)) << size;
    ASSERT_EQ(Crc32cPortable(part), Reference(part)) << size;
  }
}

TEST(Crc32cTest, AgreesWithTheDefinitionAroundItsStreams) {
  // Three streams of 1,024 bytes at a time.
  const std::vector<std::byte> data = Noise(20 << 10);
  for (size_t blocks = 1; blocks <= 6; ++blocks) {
    for (size_t size = blocks * 3072 - 9; size <= blocks * 3072 + 9; ++size) {
      const auto part = absl::MakeConstSpan(data).subspan(1, size);
      ASSERT_EQ(Crc32c(part), Reference(part)) << size;
      ASSERT_EQ(Crc32cPortable(part), Reference(part)) << size;
    }
  }
}

TEST(Crc32cTest, ContinuesAcrossEveryCut) {
  const std::vector<std::byte> data = Noise(7000);
  const uint32_t whole = Crc32c(data);
  for (size_t cut = 0; cut <= data.size(); cut += 7) {
    const auto span = absl::MakeConstSpan(data);
    ASSERT_EQ(Crc32c(span.subspan(cut), Crc32c(span.first(cut))), whole) << cut;
  }
}

TEST(BlockCrc32cTest, DependsOnFileAndPlace) {
  const std::vector<std::byte> data = Noise(4096);
  const uint32_t crc = BlockCrc32c(data, 7, 3);
  EXPECT_EQ(BlockCrc32c(data, 7, 3), crc);
  EXPECT_NE(BlockCrc32c(data, 8, 3), crc);
  EXPECT_NE(BlockCrc32c(data, 7, 4), crc);
  EXPECT_NE(BlockCrc32c(data, 3, 7), crc);
}

TEST(BlockCrc32cTest, TheSeedAloneCanBeContinued) {
  const std::vector<std::byte> data = Noise(100);
  EXPECT_EQ(Crc32c(data, BlockCrc32c({}, 7, 3)), BlockCrc32c(data, 7, 3));
}

TEST(BlockCrc32cTest, SeesEverySingleBit) {
  std::vector<std::byte> data = Noise(64);
  const uint32_t crc = BlockCrc32c(data, 1, 1);
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    const std::byte mask = static_cast<std::byte>(1 << bit % 8);
    data[bit / 8] ^= mask;
    ASSERT_NE(BlockCrc32c(data, 1, 1), crc) << bit;
    data[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace hearth
