#include "engine/strategy/foresight/fetch_prices.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

// 1 GB of features; a million rows of 512 bytes are read.
constexpr FetchNeed kMany = {
    .feature_bytes = 1'000'000'000, .rows = 1'000'000, .row_bytes = 512};
constexpr FetchNeed kFew = {
    .feature_bytes = 1'000'000'000, .rows = 1000, .row_bytes = 512};

TEST(FetchPrices, ManyRowsArePackedAndFewReadDirectly) {
  FetchPrices prices;
  EXPECT_EQ(prices.Choose(kMany), Fetching::kPacked);
  EXPECT_EQ(prices.Choose(kFew), Fetching::kDirect);
  EXPECT_TRUE(prices.ScanIsCheaper(kMany));
  EXPECT_FALSE(prices.ScanIsCheaper(kFew));
}

TEST(FetchPrices, FollowTheDisk) {
  FetchPrices prices;
  prices.SetRates({.read = 1e9, .write = 1e9, .pages = 1e6});
  // A scan, a writing and a reading of the packs; as many seconds as rows.
  EXPECT_DOUBLE_EQ(prices.Seconds(Fetching::kPacked, kMany), 1 + 2 * 0.512);
  EXPECT_DOUBLE_EQ(prices.Seconds(Fetching::kDirect, kMany), 1);
  EXPECT_EQ(prices.Choose(kMany), Fetching::kDirect);
}

TEST(FetchPrices, AreCorrectedByWhatWasMeasured) {
  FetchPrices prices;
  prices.SetRates({.read = 1e9, .write = 1e9, .pages = 1e6});
  ASSERT_EQ(prices.Choose(kMany), Fetching::kDirect);
  const double direct = prices.Seconds(Fetching::kDirect, kMany);
  prices.Correct(Fetching::kDirect, 1, 4);
  EXPECT_DOUBLE_EQ(prices.Seconds(Fetching::kDirect, kMany), 2 * direct);
  prices.Correct(Fetching::kDirect, 1, 1.21);
  EXPECT_EQ(prices.Choose(kMany), Fetching::kDirect)
      << "2.02 s for 2.2 s are no reason to change";
  prices.Correct(Fetching::kDirect, 1, 4);
  EXPECT_EQ(prices.Choose(kMany), Fetching::kPacked);
  for (int i = 0; i < 20; ++i) prices.Correct(Fetching::kDirect, 1, 100);
  EXPECT_DOUBLE_EQ(prices.Seconds(Fetching::kDirect, kMany), 16 * direct)
      << "at most 16 times";
}

}  // namespace
}  // namespace hearth::strategy
