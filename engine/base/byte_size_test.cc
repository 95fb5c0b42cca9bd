#include "engine/base/byte_size.h"

#include <string>

#include "gtest/gtest.h"

namespace hearth {
namespace {

struct Parsed {
  const char* text;
  int64_t bytes;
};

class ParseByteSizeTest : public testing::TestWithParam<Parsed> {};

TEST_P(ParseByteSizeTest, Parses) {
  const auto bytes = ParseByteSize(GetParam().text);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, GetParam().bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Units, ParseByteSizeTest,
    testing::Values(Parsed{"0", 0}, Parsed{"512", 512}, Parsed{"512B", 512},
                    Parsed{"4KiB", 4096}, Parsed{"4 kib", 4096},
                    Parsed{"1.5GiB", 1610612736}, Parsed{"10MB", 10'000'000},
                    Parsed{"2TiB", int64_t{2} << 40}, Parsed{"3kb", 3000},
                    Parsed{"8388607TiB", int64_t{8388607} << 40}));

class MalformedByteSizeTest : public testing::TestWithParam<const char*> {};

TEST_P(MalformedByteSizeTest, IsRefusedNamingIt) {
  const auto bytes = ParseByteSize(GetParam());
  EXPECT_TRUE(absl::IsInvalidArgument(bytes.status()));
  EXPECT_NE(std::string(bytes.status().message()).find(GetParam()),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Texts, MalformedByteSizeTest,
                         testing::Values("", "GiB", "-1", "1.2.3", "12 parsecs",
                                         "1e3", "8388608TiB", "99999999999TB",
                                         "1 Gi B", "0x10"));

TEST(FormatByteSizeTest, KeepsThreeOrFourDigits) {
  EXPECT_EQ(FormatByteSize(0), "0 B");
  EXPECT_EQ(FormatByteSize(1023), "1023 B");
  EXPECT_EQ(FormatByteSize(1024), "1.0 KiB");
  EXPECT_EQ(FormatByteSize(481931264), "459.6 MiB");
  EXPECT_EQ(FormatByteSize((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatByteSize(UINT64_MAX), "16.0 EiB");
}

TEST(FormatByteSizeTest, IsReadBack) {
  EXPECT_EQ(*ParseByteSize(FormatByteSize(1536)), 1536);
}

}  // namespace
}  // namespace hearth
