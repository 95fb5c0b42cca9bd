#include "server/jobs/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"

namespace hearth::server {
namespace {

TEST(NameClaimsTest, ManyShareAndOneTakes) {
  NameClaims claims;
  auto one = claims.Share("a", "is read");
  auto other = claims.Share("a", "is read");
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(claims.Take("a", "is deleted").status(),
            absl::FailedPreconditionError("a is read"));
  EXPECT_TRUE(claims.Take("b", "is deleted").ok());
  *one = {};
  EXPECT_FALSE(claims.Take("a", "is deleted").ok());
  *other = {};
  const auto taken = claims.Take("a", "is deleted");
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(claims.Share("a", "is read").status(),
            absl::FailedPreconditionError("a is deleted"));
  EXPECT_EQ(claims.Take("a", "is deleted").status(),
            absl::FailedPreconditionError("a is deleted"));
}

TEST(NameClaimsTest, AClaimMayHoldSeveralNames) {
  NameClaims claims;
  {
    auto both = claims.Share("a", "is read");
    auto other = claims.Share("b", "is read");
    ASSERT_TRUE(both.ok() && other.ok());
    both->Add(*std::move(other));
    *other = {};
    const NameClaims::Claim moved = *std::move(both);
    EXPECT_FALSE(claims.Take("a", "is deleted").ok());
    EXPECT_FALSE(claims.Take("b", "is deleted").ok());
  }
  EXPECT_TRUE(claims.Take("a", "is deleted").ok());
  EXPECT_TRUE(claims.Take("b", "is deleted").ok());
}

TEST(NameClaimsTest, AwaitTakesItsTurn) {
  NameClaims claims;
  std::optional<NameClaims::Claim> first = claims.Await("a");
  absl::Notification second;
  std::jthread waiting([&] {
    const NameClaims::Claim claim = claims.Await("a");
    second.Notify();
  });
  EXPECT_FALSE(claims.Share("a", "is read").ok());
  EXPECT_FALSE(second.HasBeenNotified());
  first.reset();
  second.WaitForNotification();
}

}  // namespace
}  // namespace hearth::server
