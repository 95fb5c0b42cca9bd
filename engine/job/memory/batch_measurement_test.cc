#include "engine/job/memory/batch_measurement.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/io/file_system.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::job {
namespace {

namespace fs = std::filesystem;

class BatchMeasurementTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(root_);
    fs::create_directories(root_);
    const auto path = hearth::testing::ImportPlantedGraph({}, root_);
    ASSERT_TRUE(path.ok()) << path.status();
    dataset_ = *store::Dataset::Open(io::FileSystem::Posix(), *path);
    labels_ = *dataset_->LoadLabels();
    store::Split split = *dataset_->LoadSplit();
    train_ = sample::NewShuffledOrder(std::move(split.train), 7);
    valid_ = sample::NewSequentialOrder(std::move(split.valid));
    passes_ = {NewPass(*train_, 0), NewPass(*valid_, 9)};
  }

  static strategy::Pass NewPass(const sample::SeedOrder& order, uint64_t key) {
    return {.order = &order,
            .sampler = {.fanouts = {4, 3}, .data_seed = 7},
            .batch_size = 60,
            .epoch_key = key};
  }

  MeasuredPasses Measured() const {
    return {.dataset = *dataset_, .labels = labels_, .passes = passes_};
  }

  std::vector<std::string> Kept() const {
    std::vector<std::string> names;
    if (!fs::exists(root_ + "/plans")) return names;
    for (const auto& entry : fs::directory_iterator(root_ + "/plans")) {
      names.push_back(entry.path());
    }
    return names;
  }

  const std::string root_ = ::testing::TempDir() + "/batch_measurement_test";
  std::unique_ptr<store::Dataset> dataset_;
  store::Labels labels_;
  std::unique_ptr<sample::SeedOrder> train_;
  std::unique_ptr<sample::SeedOrder> valid_;
  std::vector<strategy::Pass> passes_;
  BatchMeasurement measurement_{io::FileSystem::Posix(), Clock::Real(),
                                root_ + "/plans"};
};

TEST_F(BatchMeasurementTest, FindsLessThanTheFanOutsAllow) {
  const strategy::BatchBound bound = BoundBatches(Measured());
  EXPECT_EQ(bound.largest, bound.bound);
  const auto measured = measurement_.Measure(Measured(), {.samplers = 2}, {});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_EQ(measured->bound, bound.bound);
  EXPECT_LT(measured->largest.num_inputs(), bound.bound.num_inputs());
  EXPECT_GT(measured->largest.num_inputs(), 60);
  EXPECT_EQ(measured->largest.nodes.back(), 60);
}

TEST_F(BatchMeasurementTest, IsDoneOnce) {
  const auto first = measurement_.Measure(Measured(), {.samplers = 1}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(Kept().size(), 1u);
  // A stopped job could not sample.
  std::stop_source stopped;
  stopped.request_stop();
  const auto second =
      measurement_.Measure(Measured(), {.samplers = 1}, stopped.get_token());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, *first);
}

TEST_F(BatchMeasurementTest, OtherBatchesAreMeasuredApart) {
  ASSERT_TRUE(measurement_.Measure(Measured(), {.samplers = 1}, {}).ok());
  passes_[0].sampler.data_seed = 8;
  ASSERT_TRUE(measurement_.Measure(Measured(), {.samplers = 1}, {}).ok());
  passes_[0].batch_size = 61;
  ASSERT_TRUE(measurement_.Measure(Measured(), {.samplers = 1}, {}).ok());
  passes_.pop_back();
  ASSERT_TRUE(measurement_.Measure(Measured(), {.samplers = 1}, {}).ok());
  passes_[0].sampler.once = true;
  ASSERT_TRUE(measurement_.Measure(Measured(), {.samplers = 1}, {}).ok());
  EXPECT_EQ(Kept().size(), 5u);
}

TEST_F(BatchMeasurementTest, IsTheSameInSlabs) {
  const auto mapped = measurement_.Measure(Measured(), {.samplers = 1}, {});
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  fs::remove_all(root_ + "/plans");
  const auto in_slabs = measurement_.Measure(
      Measured(), {.samplers = 2, .topology = strategy::TopologyPlace::kSlabs},
      {});
  ASSERT_TRUE(in_slabs.ok()) << in_slabs.status();
  EXPECT_EQ(*in_slabs, *mapped);
  EXPECT_EQ(Kept().size(), 1u) << "no scratch file is left";
}

TEST_F(BatchMeasurementTest, ShardsAreMeasuredInsteadOfBatches) {
  const auto whole = measurement_.Measure(Measured(), {.samplers = 1}, {});
  for (strategy::Pass& pass : passes_) pass.shards = 7;
  const strategy::BatchBound bound = BoundBatches(Measured());
  EXPECT_EQ(bound.bound.nodes.back(), 9) << "of 60 seeds in 7 shards";
  const auto shards = measurement_.Measure(Measured(), {.samplers = 1}, {});
  ASSERT_TRUE(whole.ok() && shards.ok());
  EXPECT_EQ(Kept().size(), 2u);
  EXPECT_EQ(shards->bound, bound.bound);
  EXPECT_EQ(shards->largest.nodes.back(), 9);
  EXPECT_LT(shards->largest.num_inputs(), whole->largest.num_inputs());
}

TEST_F(BatchMeasurementTest, ADamagedFileIsReplaced) {
  const auto first = measurement_.Measure(Measured(), {.samplers = 1}, {});
  ASSERT_TRUE(first.ok());
  const std::string path = Kept().front();
  for (const char* text : {"", "{}", "nonsense"}) {
    std::ofstream(path, std::ios::trunc) << text;
    const auto again = measurement_.Measure(Measured(), {.samplers = 1}, {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *first);
    EXPECT_GT(fs::file_size(path), 100u);
  }
}

TEST_F(BatchMeasurementTest, StopsWhenAsked) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      measurement_.Measure(Measured(), {.samplers = 1}, stop.get_token())
          .status()));
  EXPECT_TRUE(Kept().empty());
}

}  // namespace
}  // namespace hearth::job
