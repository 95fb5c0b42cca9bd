#include "engine/strategy/diskgnn/folder_claim.h"

#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

TEST(FolderClaimTest, FoldersDoNotDisturbEachOther) {
  const auto a = FolderClaim::Take("a", {});
  const auto b = FolderClaim::Take("b", {});
  EXPECT_TRUE(a.ok());
  EXPECT_TRUE(b.ok());
}

TEST(FolderClaimTest, TheNextOneWaitsUntilItIsGivenUp) {
  std::optional<FolderClaim> first = *FolderClaim::Take("c", {});
  bool given_up = false;
  std::jthread next([&] {
    const auto second = FolderClaim::Take("c", {});
    EXPECT_TRUE(second.ok());
    EXPECT_TRUE(given_up);
  });
  given_up = true;
  first.reset();
}

TEST(FolderClaimTest, AStopEndsTheWait) {
  const auto first = FolderClaim::Take("d", {});
  std::stop_source stop;
  std::jthread next([&] {
    EXPECT_TRUE(
        absl::IsCancelled(FolderClaim::Take("d", stop.get_token()).status()));
  });
  stop.request_stop();
}

TEST(FolderClaimTest, AStopBeforehandTakesNothing) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(
      absl::IsCancelled(FolderClaim::Take("e", stop.get_token()).status()));
  EXPECT_TRUE(FolderClaim::Take("e", {}).ok());
}

TEST(FolderClaimTest, MovesWithItsOwner) {
  {
    FolderClaim first = *FolderClaim::Take("f", {});
    const FolderClaim second = std::move(first);
  }
  EXPECT_TRUE(FolderClaim::Take("f", {}).ok());
}

}  // namespace
}  // namespace hearth::strategy
