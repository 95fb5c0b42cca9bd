#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/services/transfers.h"

namespace hearth::server {
namespace {

using Places = std::vector<std::unique_ptr<Transfers::Place>>;

void Fill(Transfers& transfers, const std::string& caller, int count,
          Places& places) {
  for (int i = 0; i < count; ++i) {
    auto place = transfers.Enter(caller);
    ASSERT_TRUE(place.ok()) << place.status();
    places.push_back(*std::move(place));
  }
}

TEST(TransfersTest, OneCallerLeavesRoomForOthers) {
  Transfers transfers(absl::Minutes(1));
  Places places;
  Fill(transfers, "ann", Transfers::kMostOfCaller, places);
  EXPECT_TRUE(absl::IsResourceExhausted(transfers.Enter("ann").status()));
  Fill(transfers, "bob", 1, places);
  places.erase(places.begin());
  Fill(transfers, "ann", 1, places);
}

TEST(TransfersTest, ThereIsABoundForAll) {
  Transfers transfers(absl::Minutes(1));
  Places places;
  for (int caller = 0; caller < Transfers::kMost / Transfers::kMostOfCaller;
       ++caller) {
    Fill(transfers, absl::StrCat("caller ", caller), Transfers::kMostOfCaller,
         places);
  }
  EXPECT_TRUE(absl::IsUnavailable(transfers.Enter("another").status()));
  places.clear();
  Fill(transfers, "another", 1, places);
}

}  // namespace
}  // namespace hearth::server
