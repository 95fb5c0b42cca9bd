#include "engine/job/data/history.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/job/run/job_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/safetensors.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/pass.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kWidth = 4;

// A model of one weight, whose embedding of a node is a function of the node
// and the weight. Checks that the embeddings that it is given are, bit for bit,
// the ones that it returned when they were pushed; its loss depends on them.
class EmbeddingStep final : public train::TrainStep {
 public:
  absl::StatusOr<train::BatchResult> Train(
      absl::Span<const train::BatchView> shards,
      const train::StepPosition& position) override {
    if (position.batch == 0) kept_.clear();
    float loss = weight_;
    for (const train::BatchView& shard : shards) {
      if (!shard.sample.top.has_value()) continue;
      const sample::TopLayer& top = *shard.sample.top;
      for (size_t i = 0; i < top.pulled.size(); ++i) {
        const float* row = shard.top_rows.pulled + i * kWidth;
        const auto kept = kept_.find(top.nodes[top.pulled[i]]);
        // After a resume, embeddings pushed before are unknown here.
        if (kept != kept_.end()) {
          EXPECT_EQ(std::vector<float>(row, row + kWidth), kept->second);
        }
        loss += 1e-4f * row[i % kWidth];
      }
      for (size_t i = 0; i < top.pushed.size(); ++i) {
        float* row = shard.top_rows.pushed + i * kWidth;
        const store::NodeId node = top.nodes[top.pushed[i]];
        for (int64_t j = 0; j < kWidth; ++j) {
          row[j] = weight_ * static_cast<float>(1 + (node + j) % 7);
        }
        kept_[node] = std::vector<float>(row, row + kWidth);
      }
    }
    weight_ += 0.01f * loss / static_cast<float>(position.batch + 1);
    return train::BatchResult{.loss = loss,
                              .num_seeds = train::NumSeeds(shards)};
  }

  absl::StatusOr<train::BatchResult> Evaluate(
      absl::Span<const train::BatchView> shards) override {
    for (const train::BatchView& shard : shards) {
      EXPECT_FALSE(shard.sample.top.has_value());
    }
    return train::BatchResult{.loss = weight_,
                              .num_seeds = train::NumSeeds(shards)};
  }

  absl::StatusOr<store::TensorMap> Save() override {
    store::Tensor tensor;
    tensor.shape = {1};
    tensor.data.resize(sizeof(weight_));
    std::memcpy(tensor.data.data(), &weight_, sizeof(weight_));
    return store::TensorMap{{"model.weight", tensor}};
  }

  absl::Status Load(const store::TensorMap& state) override {
    std::memcpy(&weight_, state.at("model.weight").data.data(),
                sizeof(weight_));
    return absl::OkStatus();
  }

  int64_t TopWidth() const override { return kWidth; }

  absl::StatusOr<store::SafeTensors> Export() override {
    store::SafeTensors model;
    model.tensors = *Save();
    model.metadata["config"] = "{}";
    return model;
  }

 private:
  float weight_ = 0.5f;
  std::map<store::NodeId, std::vector<float>> kept_;
};

class JobHistoryTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    new_train_step_ = [](const train::TrainOptions&, const train::ModelShape&)
        -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
      return std::make_unique<EmbeddingStep>();
    };
  }

  TrainJobOptions WithHistory(const std::string& directory,
                              int64_t staleness = 3) const {
    TrainJobOptions options = Options(directory);
    options.train.model = train::SageOptions{.hidden = kWidth};
    options.data.history = HistoryOptions{.cache_bytes = uint64_t{16} << 10,
                                          .staleness = staleness};
    return options;
  }

  // Stops the job at training batch `batch`, runs it again, and returns the
  // report.
  absl::StatusOr<TrainReport> RunInTwo(const TrainJobOptions& options,
                                       int64_t batch) {
    std::stop_source stop;
    observer_.act_at = batch;
    observer_.training_batches = 0;
    observer_.act = [&stop] { stop.request_stop(); };
    const auto stopped = Run(options, stop.get_token());
    EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
    observer_.act_at = -1;
    return Run(options);
  }
};

TEST_F(JobHistoryTest, EmbeddingsAreReusedAndTheReportSaysSo) {
  const auto exact = Run(Options("exact"));
  ASSERT_TRUE(exact.ok()) << exact.status();
  EXPECT_TRUE(exact->exact);
  EXPECT_EQ(exact->epochs[0].training.pulled, 0);
  const auto report = Run(WithHistory("history"));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->exact);
  EXPECT_NE(report->loss_digest, exact->loss_digest);
  EXPECT_THAT(observer_.log, HasSubstr("history: embeddings of "));
  for (const EpochReport& epoch : report->epochs) {
    EXPECT_GT(epoch.training.pulled, 0);
    EXPECT_GT(epoch.training.pushed, 0);
    EXPECT_EQ(epoch.training.seeds, 360);
    EXPECT_LT(epoch.training.rows_needed,
              exact->epochs[epoch.epoch - 1].training.rows_needed);
    EXPECT_EQ(epoch.validation.pulled, 0);
  }
  bool reserved = false;
  for (const strategy::MemoryShare& share : report->memory.shares) {
    reserved = reserved || (share.owner == "histories" && share.bytes > 0);
  }
  EXPECT_TRUE(reserved);
  EXPECT_EQ(memory_->reserved_bytes(), 0u);
}

TEST_F(JobHistoryTest, AStalenessOfOneIsNoHistory) {
  const auto exact = Run(Options("exact"));
  const auto report = Run(WithHistory("history", 1));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, exact->loss_digest);
  EXPECT_EQ(report->epochs[0].training.rows_needed,
            exact->epochs[0].training.rows_needed);
}

TEST_F(JobHistoryTest, EveryStrategyAndAnyWidthsGiveTheLossesOfMemory) {
  for (const int64_t trainers : {1, 2}) {
    const std::string name = std::to_string(trainers);
    TrainJobOptions options = WithHistory("memory" + name);
    options.data.trainers = trainers;
    const auto expected = Run(options);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const auto& strategy : std::vector<strategy::StrategyOptions>{
             strategy::MmapOptions{},
             strategy::GnndriveOptions{.cpu_cache_bytes = 65536},
             strategy::DiskgnnOptions{.cpu_cache_bytes = 8192}}) {
      // With part of the topology on disk, which changes the choice of
      // embeddings.
      TrainJobOptions one = options;
      one.data.strategy = strategy;
      one.directory = root_ + "/" + strategy::Name(strategy) + name;
      TrainJobOptions other = one;
      other.pipeline = {.samplers = 3, .extractors = 2};
      other.directory += "wide";
      const auto narrow = Run(one);
      const auto wide = Run(other);
      ASSERT_TRUE(narrow.ok() && wide.ok()) << narrow.status() << wide.status();
      EXPECT_EQ(narrow->loss_digest, wide->loss_digest);
    }
  }
}

TEST_F(JobHistoryTest, SlabsGiveTheSameProfileAndLosses) {
  TrainJobOptions options = WithHistory("mapped");
  options.data.strategy = strategy::DiskgnnOptions{.cpu_cache_bytes = 8192};
  const auto mapped = Run(options);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  // Nothing is left to be found.
  const std::vector<plan::PlanInfo> plans = *plans_->List();
  for (const plan::PlanInfo& plan : plans) {
    ASSERT_TRUE(plans_->Remove(plan.name).ok());
  }
  options.directory = root_ + "/slabs";
  options.pipeline.topology = strategy::TopologyPlace::kSlabs;
  const auto in_slabs = Run(options);
  ASSERT_TRUE(in_slabs.ok()) << in_slabs.status();
  EXPECT_THAT(observer_.log, HasSubstr("slab by slab"));
  EXPECT_EQ(in_slabs->loss_digest, mapped->loss_digest);
  EXPECT_EQ(in_slabs->history->profile, mapped->history->profile);
  EXPECT_EQ(in_slabs->history->embeddings, mapped->history->embeddings);
}

TEST_F(JobHistoryTest, StoppedAnywhereItGoesOnAsIfUndisturbed) {
  const auto expected = Run(WithHistory("whole"));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int64_t batch : {1, 3, 5, 6, 7, 14, 23}) {
    TrainJobOptions options = WithHistory("stop" + std::to_string(batch));
    options.checkpoint_every = 2;
    const auto report = RunInTwo(options, batch);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected->loss_digest) << batch;
    EXPECT_EQ(report->resumes, 1u);
  }
}

TEST_F(JobHistoryTest, WhatIsSampledBeforehandGoesOnFromAnywhere) {
  TrainJobOptions options = WithHistory("diskgnn");
  options.data.strategy = strategy::DiskgnnOptions{.cpu_cache_bytes = 8192};
  const auto expected = Run(options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int64_t batch : {2, 3, 6, 23}) {
    options.directory = root_ + "/stop" + std::to_string(batch);
    options.checkpoint_every = 2;
    const auto report = RunInTwo(options, batch);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->loss_digest, expected->loss_digest) << batch;
    EXPECT_TRUE(report->preparations.at(0).preparation.reused);
  }
}

// Another history needs another plan; a job without one the plan of a job
// without a history.
TEST_F(JobHistoryTest, PlansAreThoseOfTheHistory) {
  const auto diskgnn = [this](TrainJobOptions options, const char* directory) {
    options.directory = root_ + "/" + directory;
    options.data.strategy = strategy::DiskgnnOptions{.cpu_cache_bytes = 8192};
    return options;
  };
  const auto plan_of = [&](const TrainJobOptions& options,
                           const char* directory) {
    const auto report = Run(diskgnn(options, directory));
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->preparations.at(0).preparation
                       : strategy::PreparationReport();
  };
  const std::string kept = plan_of(WithHistory("a"), "a").plan;
  const std::string exact = plan_of(Options("b"), "b").plan;
  EXPECT_NE(exact, kept);
  EXPECT_NE(plan_of(WithHistory("c", 4), "c").plan, kept);
  TrainJobOptions fewer = WithHistory("d");
  fewer.data.history->cache_bytes -= 1000;
  EXPECT_NE(plan_of(fewer, "d").plan, kept);
  const auto again = plan_of(WithHistory("e"), "e");
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(again.plan, kept);
  // A run that only tests finds the plan with which the model was trained.
  const auto test = plan_of(ForTest(diskgnn(WithHistory("a"), "a")), "a");
  EXPECT_TRUE(test.reused);
  EXPECT_EQ(test.plan, kept);
}

TEST_F(JobHistoryTest, TheProfileIsAPlanThatLaterJobsFind) {
  const auto first = Run(WithHistory("first"));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->history.has_value());
  const std::string plan = first->history->profile;
  const auto info = plans_->Get(plan);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->strategy(), plan::kProfilePlans);
  EXPECT_EQ(info->state, plan::PlanInfo::State::kWhole);
  EXPECT_FALSE(info->in_use);

  // Another model, staleness or number of epochs uses the same profile.
  TrainJobOptions options = WithHistory("second", 5);
  options.train.model = train::SageOptions{.hidden = 2 * kWidth};
  options.data.epochs = 1;
  const absl::Time made = info->created;
  auto second = Run(options);
  EXPECT_EQ(plans_->Get(plan)->created, made);

  // A damaged profile is made again.
  const std::string file = root_ + "/plans/" + plan + "/profile";
  ASSERT_TRUE(
      io::WriteFileAtomically(io::FileSystem::Posix(), file, "damaged").ok());
  const auto third = Run(WithHistory("third"));
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(third->loss_digest, first->loss_digest);
  EXPECT_THAT(observer_.log, HasSubstr("is removed and made again"));
}

TEST_F(JobHistoryTest, RowsAndEmbeddingsShareTheCacheOfAStrategy) {
  TrainJobOptions options = WithHistory("split");
  options.data.history->cache_bytes = 0;
  options.data.strategy = strategy::GinexOptions{.cpu_cache_bytes = 40000};
  const auto automatic = Run(options);
  ASSERT_TRUE(automatic.ok()) << automatic.status();
  const HistoryChoice& choice = *automatic->history;
  ASSERT_TRUE(choice.share.has_value());
  EXPECT_GT(*choice.share, 0);
  EXPECT_GT(choice.embeddings, 0);
  EXPECT_EQ(choice.bytes, static_cast<uint64_t>(40000 * *choice.share));
  EXPECT_FALSE(automatic->exact);

  // The same share given as an option leads to the same job.
  options.directory = root_ + "/told";
  options.data.history->share = *choice.share;
  const auto told = Run(options);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_EQ(told->loss_digest, automatic->loss_digest);
  EXPECT_EQ(told->history->embeddings, choice.embeddings);

  // Rows have the rest: at most the memory that they would have alone.
  for (const strategy::MemoryShare& share : told->memory.shares) {
    if (share.owner != "cache") continue;
    EXPECT_EQ(share.bytes, 40000 - choice.bytes);
  }
}

TEST_F(JobHistoryTest, NoShareIsNoHistory) {
  const auto exact = Run(Options("exact"));
  TrainJobOptions options = WithHistory("none");
  options.data.history->cache_bytes = 0;
  options.data.history->share = 0;
  options.data.strategy = strategy::GinexOptions{.cpu_cache_bytes = 40000};
  const auto report = Run(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->loss_digest, exact->loss_digest);
  EXPECT_TRUE(report->exact);
  EXPECT_EQ(report->history->embeddings, 0);
  EXPECT_EQ(report->epochs[0].training.pulled, 0);
}

// The choice of embeddings was made when the job began.
TEST_F(JobHistoryTest, GoesOnWithAnotherCacheAsItBegan) {
  TrainJobOptions options = WithHistory("whole");
  options.data.history->cache_bytes = 0;
  options.data.strategy = strategy::GinexOptions{.cpu_cache_bytes = 40000};
  const auto expected = Run(options);
  ASSERT_TRUE(expected.ok()) << expected.status();

  options.directory = root_ + "/stopped";
  std::stop_source stop;
  observer_.act_at = 7;
  observer_.training_batches = 0;
  observer_.act = [&stop] { stop.request_stop(); };
  ASSERT_TRUE(absl::IsCancelled(Run(options, stop.get_token()).status()));
  observer_.act_at = -1;

  options.data.strategy =
      strategy::GinexOptions{.cpu_cache_bytes = expected->history->bytes - 1};
  const auto refused = Run(options);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(refused.status().message(),
              HasSubstr("budgets.cpu_cache_bytes: "));

  options.data.strategy = strategy::GinexOptions{.cpu_cache_bytes = 90000};
  const auto resumed = Run(options);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->loss_digest, expected->loss_digest);
  EXPECT_EQ(resumed->history->embeddings, expected->history->embeddings);
  EXPECT_EQ(resumed->resumes, 1u);
}

TEST_F(JobHistoryTest, AShareThatCannotBeIsRefused) {
  TrainJobOptions options = WithHistory("share");
  options.data.history->share = 0.5;
  EXPECT_THAT(Run(options).status().message(),
              HasSubstr("share must be unset where cache_bytes is given"));
  options.data.history->cache_bytes = 0;
  EXPECT_THAT(Run(options).status().message(),
              HasSubstr("share: strategy memory has no cache to share"));
  options.data.strategy = strategy::GinexOptions{.cpu_cache_bytes = 40000};
  options.data.history->share = 1.5;
  EXPECT_THAT(Run(options).status().message(),
              HasSubstr("share must be within 0 .. 1, not 1.5"));
  options.data.history->share = 0.5;
  options.data.history->sample_weight = -1;
  EXPECT_THAT(Run(options).status().message(),
              HasSubstr("sample_weight must be at least 0, not -1"));
}

TEST_F(JobHistoryTest, MemoryForNoEmbeddingIsRefusedWithTheNumbers) {
  TrainJobOptions options = WithHistory("small");
  options.data.history->cache_bytes = 1000;
  const auto report = Run(options);
  EXPECT_TRUE(absl::IsInvalidArgument(report.status()));
  EXPECT_THAT(report.status().message(),
              HasSubstr("history.cache_bytes: 1000 B hold no embedding"));
}

TEST_F(JobHistoryTest, IsRefusedWhereThereCanBeNone) {
  TrainJobOptions options = WithHistory("layers");
  options.data.fanouts = {4};
  EXPECT_TRUE(absl::IsInvalidArgument(Run(options).status()));
  options = WithHistory("order");
  options.data.strategy = strategy::GnndriveOptions{.reorder = true};
  EXPECT_TRUE(absl::IsInvalidArgument(Run(options).status()));
}

}  // namespace
}  // namespace hearth::job
