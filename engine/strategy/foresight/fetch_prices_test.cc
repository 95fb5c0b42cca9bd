#include "engine/strategy/foresight/fetch_prices.h"

#include <cmath>

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

TEST(DirectReadsTest, ASlowDiskMakesThemDearer) {
  FetchPrices prices;
  prices.SetRates({.read = 1e9, .write = 1e9, .pages = 100'000});
  const FetchNeed need = {
      .feature_bytes = 1 << 20, .rows = 10'000, .row_bytes = 512};
  EXPECT_DOUBLE_EQ(prices.Seconds(Fetching::kDirect, need), 0.1);
  // Two threads read at the same time from 1.0 to 1.6, one from 3.0 to 3.4.
  DirectReads reads;
  reads.Begin(1.0);
  reads.Begin(1.2);
  reads.End(1.5, 3000);
  reads.End(1.6, 3000);
  reads.Begin(3.0);
  reads.End(3.4, 4000);
  reads.Correct(512, prices);
  // Ten times as long as told: the price goes half of the way.
  EXPECT_NEAR(prices.Seconds(Fetching::kDirect, need), 0.1 * std::sqrt(10.0),
              1e-9);
}

TEST(DirectReadsTest, FewRowsTellNothing) {
  FetchPrices prices;
  prices.SetRates({.read = 1e9, .write = 1e9, .pages = 100'000});
  DirectReads reads;
  reads.Begin(0);
  reads.End(100, 10);
  reads.Correct(512, prices);
  EXPECT_DOUBLE_EQ(
      prices.Seconds(Fetching::kDirect,
                     {.feature_bytes = 0, .rows = 1000, .row_bytes = 512}),
      0.01);
}

}  // namespace
}  // namespace hearth::strategy
