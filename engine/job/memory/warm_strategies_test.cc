#include "engine/job/memory/warm_strategies.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "engine/io/file_system.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

namespace fs = std::filesystem;

// Counts its instances.
class FakeStrategy final : public strategy::Strategy {
 public:
  explicit FakeStrategy(int& alive) : alive_(alive) { ++alive_; }
  ~FakeStrategy() override { --alive_; }
  absl::Status Run(const strategy::Pass&, const Consumer&, std::stop_token,
                   strategy::PassReport&) override {
    return absl::OkStatus();
  }
  void Rest() override { rested = true; }
  bool rested = false;

 private:
  int& alive_;
};

class WarmStrategiesTest : public ::testing::Test {
 protected:
  WarmStrategiesTest() { fs::remove_all(path_); }

  static StrategyKey Key(const std::string& dataset, int samplers = 1) {
    return {.dataset_path = dataset,
            .fingerprint = "f",
            .strategy = strategy::MemoryOptions{},
            .pipeline = {.samplers = samplers, .extractors = 1},
            .batches = {}};
  }

  WarmStrategy Make() {
    auto scratch = warm_.NewScratch();
    EXPECT_TRUE(scratch.ok()) << scratch.status();
    WarmStrategy made{.memory = {},
                      .dataset = nullptr,
                      .scratch = *std::move(scratch),
                      .strategy = std::make_unique<FakeStrategy>(alive_)};
    strategy::MemoryEstimate estimate;
    estimate.Add("cache", 10, /*kept=*/true);
    estimate.Add("batches", 5);
    EXPECT_TRUE(ledger_.Reserve(estimate, made.memory).ok());
    return made;
  }

  const std::string path_ = ::testing::TempDir() + "/warm_strategies_test";
  int alive_ = 0;
  MemoryLedger ledger_{
      100, {.available = [] { return 0; }, .used = [] { return 0; }}};
  WarmStrategies warm_{io::FileSystem::Posix(), ledger_, path_};
};

TEST_F(WarmStrategiesTest, GivesBackWhatWasKept) {
  WarmStrategy made = Make();
  const std::string scratch = made.scratch.path();
  const strategy::Strategy* const strategy = made.strategy.get();
  EXPECT_TRUE(fs::exists(scratch));
  warm_.Keep(Key("a"), std::move(made));
  EXPECT_EQ(ledger_.warm_bytes(), 10u);
  EXPECT_FALSE(warm_.Take(Key("b")).has_value());
  EXPECT_FALSE(warm_.Take(Key("a", 2)).has_value());
  {
    const auto taken = warm_.Take(Key("a"));
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->strategy.get(), strategy);
    EXPECT_TRUE(static_cast<FakeStrategy&>(*taken->strategy).rested);
    EXPECT_FALSE(warm_.Take(Key("a")).has_value()) << "there was one";
    EXPECT_TRUE(fs::exists(scratch));
  }
  EXPECT_EQ(alive_, 0);
  EXPECT_FALSE(fs::exists(scratch));
  EXPECT_EQ(ledger_.warm_bytes(), 0u);
}

TEST_F(WarmStrategiesTest, KeepsAFewOnly) {
  for (size_t i = 0; i <= WarmStrategies::kMaxStrategies; ++i) {
    warm_.Keep(Key(std::to_string(i)), Make());
  }
  EXPECT_EQ(alive_, static_cast<int>(WarmStrategies::kMaxStrategies));
  EXPECT_FALSE(warm_.Take(Key("0")).has_value());
  EXPECT_TRUE(warm_.Take(Key("1")).has_value());
}

TEST_F(WarmStrategiesTest, ForgetsADataset) {
  warm_.Keep(Key("a"), Make());
  warm_.Keep(Key("b"), Make());
  warm_.Keep(Key("a", 2), Make());
  warm_.Forget("a");
  EXPECT_EQ(alive_, 1);
  EXPECT_TRUE(warm_.Take(Key("b")).has_value());
}

TEST_F(WarmStrategiesTest, TheOldestGoesWhenMemoryIsNeeded) {
  warm_.Keep(Key("a"), Make());
  warm_.Keep(Key("b"), Make());
  MemoryLedger::Reservation large;
  strategy::MemoryEstimate estimate;
  estimate.Add("cache", 85);
  EXPECT_TRUE(ledger_.Reserve(estimate, large).ok());
  EXPECT_FALSE(warm_.Take(Key("a")).has_value());
  EXPECT_TRUE(warm_.Take(Key("b")).has_value());
}

}  // namespace
}  // namespace hearth::job
