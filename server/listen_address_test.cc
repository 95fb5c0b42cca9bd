#include "server/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, LoopbackIsAccepted) {
  EXPECT_EQ(*ParseListenAddress("127.0.0.1:7600"), "127.0.0.1:7600");
  EXPECT_EQ(*ParseListenAddress("127.8.9.10:0"), "127.8.9.10:0");
  EXPECT_EQ(*ParseListenAddress("[::1]:65535"), "[::1]:65535");
  EXPECT_EQ(*ParseListenAddress("localhost:1"), "127.0.0.1:1");
}

TEST(ListenAddressTest, OtherHostsAreRefusedSayingWhy) {
  for (const char* address :
       {"0.0.0.0:7600", "[::]:7600", "192.168.1.2:7600", "example.org:7600",
        "127.0.0.1.example.org:1", "128.0.0.1:1", "::1:7600"}) {
    const auto parsed = ParseListenAddress(address);
    ASSERT_FALSE(parsed.ok()) << address;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("loopback"));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(address));
  }
}

TEST(ListenAddressTest, MalformedAddressesAreRefused) {
  for (const char* address :
       {"", ":", "7600", ":7600", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:+1",
        "127.0.0.1:111111111111"}) {
    const auto parsed = ParseListenAddress(address);
    ASSERT_FALSE(parsed.ok()) << address;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("HOST:PORT"));
  }
}

TEST(ListenAddressTest, WithPortReplacesThePort) {
  EXPECT_EQ(WithPort("127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(WithPort("[::1]:0", 4711), "[::1]:4711");
}

}  // namespace
}  // namespace hearth::server
