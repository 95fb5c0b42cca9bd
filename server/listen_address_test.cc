#include "server/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, NumbersOfInterfacesAreAccepted) {
  EXPECT_EQ(*ParseListenAddress("127.0.0.1:7600"), "127.0.0.1:7600");
  EXPECT_EQ(*ParseListenAddress("[::1]:65535"), "[::1]:65535");
  EXPECT_EQ(*ParseListenAddress("localhost:1"), "127.0.0.1:1");
  EXPECT_EQ(*ParseListenAddress("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_EQ(*ParseListenAddress("[2001:db8::1]:1"), "[2001:db8::1]:1");
}

TEST(ListenAddressTest, OnlyLoopbackIsLoopback) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:7600"));
  EXPECT_TRUE(IsLoopback("[::1]:0"));
  for (const char* address : {"0.0.0.0:7600", "[::]:7600", "192.168.1.2:7600",
                              "128.0.0.1:1", "127.0.0.11:1", "[::11]:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
    const std::string message(CheckLoopback(address).message());
    EXPECT_THAT(message, HasSubstr("loopback"));
    EXPECT_THAT(message, HasSubstr(address));
  }
}

TEST(ListenAddressTest, MalformedAddressesAreRefused) {
  for (const char* address :
       {"", ":", "7600", ":7600", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "example.org:7600", "127.0.0.1.example.org:1", "::1:7600", "[::1:1",
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
