#include "engine/job/interface/train_job_options.h"

#include "absl/strings/string_view.h"
#include "engine/strategy/kinds.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

TEST(TrainJobOptionsTest, EachBoundIsChecked) {
  const auto expect_refused = [&](auto change, const char* name) {
    TrainJobOptions options;
    ASSERT_TRUE(options.Validate().ok());
    change(options);
    const absl::Status status = options.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find(name), absl::string_view::npos) << status;
  };
  expect_refused([](auto& o) { o.data.fanouts = {}; }, "fanouts");
  expect_refused([](auto& o) { o.data.fanouts = {5, 0}; }, "fanouts");
  expect_refused([](auto& o) { o.data.fanouts = {-2}; }, "fanouts");
  expect_refused(
      [](auto& o) {
        o.data.layer_nodes = {5, 5, 0};
      },
      "layer_nodes");
  expect_refused([](auto& o) { o.data.layer_nodes = {5, 5, 5}; }, "fan-out");
  const auto draw_layers = [](auto& o) {
    o.data.fanouts = {-1, -1};
    o.data.layer_nodes = {5, 5};
  };
  expect_refused(
      [&](auto& o) {
        draw_layers(o);
        o.data.trainers = 2;
      },
      "one trainer");
  expect_refused(
      [&](auto& o) {
        draw_layers(o);
        o.data.history.emplace();
      },
      "no history");
  expect_refused(
      [&](auto& o) {
        draw_layers(o);
        o.train.model = train::GatOptions{};
      },
      "gat");
  expect_refused([](auto& o) { o.data.batch_size = 0; }, "batch_size");
  expect_refused([](auto& o) { o.data.trainers = 0; }, "trainers");
  expect_refused([](auto& o) { o.data.trainers = 17; }, "trainers");
  expect_refused(
      [](auto& o) {
        o.data.trainers = 3;
        o.data.batch_size = 2;
      },
      "batch_size");
  expect_refused([](auto& o) { o.data.epochs = 0; }, "epochs");
  expect_refused([](auto& o) { o.data.refresh_epochs = -1; }, "refresh");
  expect_refused(
      [](auto& o) {
        o.data.refresh_epochs = 2;
        o.data.distinct_epochs = 3;
      },
      "distinct_epochs");
  expect_refused(
      [](auto& o) { o.data.partition_order = PartitionOrder{.parts = -1}; },
      "parts");
  expect_refused(
      [](auto& o) {
        o.data.partition_order = PartitionOrder{.macro_batch_parts = 0};
      },
      "macro_batch_parts");
  expect_refused(
      [](auto& o) { o.data.partition_order = PartitionOrder{.rounds = 0}; },
      "rounds");
  expect_refused(
      [](auto& o) {
        o.data.partition_order = PartitionOrder{.rounds = 2, .bloom = true};
      },
      "rounds");
  expect_refused(
      [](auto& o) {
        o.data.locality_order = true;
        o.data.partition_order = PartitionOrder();
      },
      "order locality");
  expect_refused(
      [](auto& o) {
        o.data.locality_order = true;
        o.data.first_epoch_key = 1;
      },
      "first_epoch_key");
  expect_refused([](auto& o) { o.data.first_epoch_key = -1; },
                 "first_epoch_key");
  expect_refused([](auto& o) { o.data.first_epoch_key = o.data.epochs; },
                 "first_epoch_key");
  expect_refused(
      [](auto& o) {
        o.data.first_epoch_key = 1;
        o.data.distinct_epochs = o.data.epochs + 1;
      },
      "first_epoch_key");
  expect_refused(
      [](auto& o) {
        o.data.first_epoch_key = 1;
        o.data.refresh_epochs = 2;
      },
      "first_epoch_key");
  expect_refused([](auto& o) { o.pipeline.samplers = 0; }, "samplers");
  expect_refused([](auto& o) { o.pipeline.extractors = 0; }, "extractors");
  expect_refused([](auto& o) { o.patience = -1; }, "patience");
  expect_refused([](auto& o) { o.pipeline.sampling_gpu = 0; }, "sample_on");
  expect_refused(
      [](auto& o) {
        o.pipeline.sampling_gpu = o.train.gpu = 1;
        o.data.strategy = strategy::GinexOptions{};
      },
      "strategy ginex samples beforehand");
  expect_refused(
      [](auto& o) {
        o.pipeline.sampling_gpu = o.train.gpu = 0;
        o.data.layer_nodes = {5};
        o.data.fanouts = {-1};
      },
      "layers are drawn as a whole");
  expect_refused(
      [](auto& o) {
        o.pipeline.sampling_gpu = o.train.gpu = 0;
        o.data.once = true;
      },
      "each node draws once");
  expect_refused(
      [&](auto& o) {
        draw_layers(o);
        o.data.once = true;
      },
      "once must be false with layer_nodes");
  expect_refused(
      [](auto& o) {
        o.data.once = true;
        o.data.history.emplace();
      },
      "once must be false with a history");
}

TEST(TrainJobOptionsTest, EpochKeysAreAsManyAsIsSaid) {
  BatchOptions options;
  options.epochs = 7;
  EXPECT_EQ(options.NumEpochKeys(), 7);
  options.refresh_epochs = 3;
  EXPECT_EQ(options.NumEpochKeys(), 3);
  options.distinct_epochs = 2;
  EXPECT_EQ(options.NumEpochKeys(), 2);
}

TEST(TrainJobOptionsTest, TheFirstEpochMayHaveTheBatchesOfALaterOne) {
  BatchOptions options;
  options.epochs = 7;
  options.distinct_epochs = 3;
  EXPECT_EQ(options.EpochOfBatches(4), 1);
  options.first_epoch_key = 2;
  EXPECT_TRUE(options.Validate().ok());
  EXPECT_EQ(options.EpochOfBatches(0), 2);
  EXPECT_EQ(options.EpochOfBatches(1), 0);
  EXPECT_EQ(options.EpochOfBatches(6), 2);
  options.refresh_epochs = 3;
  EXPECT_EQ(options.EpochOfBatches(4), 4);
}

TEST(TrainJobOptionsTest, PassesAreSharedThatDependOnNothingButTheData) {
  BatchOptions options;
  EXPECT_TRUE(options.CanShare());
  options.strategy = strategy::GnndriveOptions{.reorder = true};
  EXPECT_FALSE(options.CanShare());
  options = BatchOptions();
  options.refresh_epochs = 2;
  EXPECT_FALSE(options.CanShare());
  options = BatchOptions();
  options.history.emplace();
  EXPECT_FALSE(options.CanShare());
}

}  // namespace
}  // namespace hearth::job
