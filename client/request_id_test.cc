#include "client/request_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace hearth::client {
namespace {

TEST(NewRequestId, IsAVersion4Uuid) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(NewRequestId(),
                ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                        "[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  }
}

TEST(NewRequestId, DoesNotRepeat) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewRequestId());
  EXPECT_EQ(ids.size(), 1000);
}

}  // namespace
}  // namespace hearth::client
