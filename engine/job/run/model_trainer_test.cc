#include "engine/job/run/model_trainer.h"

#include <cmath>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/job/data/batch_source.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/job_fixture.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/safetensors.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using Shards = absl::Span<const train::BatchView>;

// Several trainers on one batch source.
class MemberTest : public JobTest {
 protected:
  // Opens a batch source with its strategy, for jobs with the data of
  // `options`.
  void OpenData(const TrainJobOptions& options) {
    environment_.emplace(Environment());
    auto run = BatchSource::Open(
        *environment_, {.data = options.data, .pipeline = options.pipeline},
        observer_, {});
    ASSERT_TRUE(run.ok()) << run.status();
    data_ = *std::move(run);
    ASSERT_TRUE(data_
                    ->TakeStrategy({.bytes =
                                        [](const sample::BatchShape&) {
                                          return uint64_t{0};
                                        }})
                    .ok());
  }

  std::unique_ptr<ModelTrainer> NewTrainer(const TrainJobOptions& options) {
    EXPECT_TRUE(environment_->files.CreateDirectory(options.directory).ok());
    auto trainer = ModelTrainer::Make({.environment = *environment_,
                                       .options = options,
                                       .observer = observer_,
                                       .metrics = *metrics_,
                                       .memory = *memory_sampler_},
                                      data_->dataset(), data_->passes());
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    const absl::Status begun = (*trainer)->Begin(/*self_loops=*/nullptr);
    EXPECT_TRUE(begun.ok()) << begun;
    return *std::move(trainer);
  }

  // Runs a pass for its trainers. A trainer skips batches that it has trained
  // already; a trainer that fails is removed, and the others continue.
  void RunPass(const strategy::Pass& pass,
               std::vector<ModelTrainer*>& trainers) {
    for (ModelTrainer* trainer : trainers) {
      const auto wish = trainer->Next();
      ASSERT_TRUE(wish.ok() && trainer->BeginPass(*wish).ok());
    }
    strategy::PassReport report;
    int64_t batch = 0;
    const auto take_all = [&](Shards shards) {
      std::erase_if(trainers, [&](ModelTrainer* trainer) {
        return trainer->next_batch() == batch &&
               !trainer->Take(shards, [&] { return report; }).ok();
      });
      ++batch;
      return absl::OkStatus();
    };
    ASSERT_TRUE(data_->RunPass(pass, take_all, report).ok());
    for (ModelTrainer* trainer : trainers) {
      ASSERT_TRUE(trainer->EndPass(report).ok());
    }
  }

  // Runs the epoch for its trainers.
  void RunEpoch(int64_t epoch, std::vector<ModelTrainer*>& trainers) {
    ASSERT_TRUE(data_->PrepareEpoch(epoch).ok());
    RunPass(data_->passes().Training(epoch), trainers);
    RunPass(data_->passes().Validation(), trainers);
    for (ModelTrainer* trainer : trainers) {
      ASSERT_TRUE(observer_.OnEpoch(*trainer->TakeReport()).ok());
    }
  }

  // Report of a trainer without a test.
  TrainReport Finish(ModelTrainer& trainer) {
    auto report = trainer.Finish();
    EXPECT_TRUE(report.ok()) << report.status();
    return *std::move(report);
  }

  const std::unique_ptr<TrainMetrics> metrics_ =
      NewTrainMetrics(*registry_, "train-1", "memory");
  const std::unique_ptr<MemorySampler> memory_sampler_ = NewMemorySampler();
  std::optional<JobEnvironment> environment_;
  std::unique_ptr<BatchSource> data_;
};

// Fails at a batch of the first epoch.
class FailingStep final : public LinearStep {
 public:
  using LinearStep::LinearStep;

  absl::StatusOr<train::BatchResult> Train(
      Shards shards, const train::StepPosition& position) override {
    if (position.batch == 3) return absl::InternalError("out of luck");
    return LinearStep::Train(shards, position);
  }
};

// Has a result only when it is awaited, like a device.
class LateStep final : public LinearStep {
 public:
  // The loss of batch `diverges_at` of each epoch is NaN.
  LateStep(const train::ModelShape& shape, int64_t diverges_at)
      : LinearStep(shape), diverges_at_(diverges_at) {}

  absl::StatusOr<train::AwaitResult> BeginTrain(
      Shards shards, const train::StepPosition& position) override {
    EXPECT_LE(begun_ - awaited_, MostPending());
    absl::StatusOr<train::BatchResult> result = Train(shards, position);
    if (static_cast<int64_t>(position.batch) == diverges_at_) {
      result->loss = NAN;
    }
    return [this, result, number = begun_++] {
      EXPECT_EQ(number, awaited_++);
      return result;
    };
  }
  int MostPending() const override { return 2; }

  absl::StatusOr<train::BatchResult> Evaluate(Shards shards) override {
    EXPECT_EQ(begun_, awaited_);
    return LinearStep::Evaluate(shards);
  }
  absl::StatusOr<store::TensorMap> Save() override {
    EXPECT_EQ(begun_, awaited_);
    return LinearStep::Save();
  }

 private:
  const int64_t diverges_at_;
  int begun_ = 0;
  int awaited_ = 0;
};

TEST_F(MemberTest, ResultsMayComeLate) {
  const auto undisturbed = Run(Options("alone"));
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();

  new_train_step_ = [](const train::TrainOptions&,
                       const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return std::make_unique<LateStep>(shape, /*diverges_at=*/-1);
  };
  for (const int64_t every : {0, 1, 2, 4}) {
    SCOPED_TRACE(every);
    TrainJobOptions late = Options(absl::StrCat("late", every));
    late.checkpoint_every = every;
    std::stop_source stop;
    observer_ = {};
    observer_.act_at = 9;
    observer_.act = [&] { stop.request_stop(); };
    EXPECT_TRUE(absl::IsCancelled(Run(late, stop.get_token()).status()));
    observer_ = {};
    const auto report = Run(late);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->resumes, 1u);
    EXPECT_EQ(report->loss_digest, undisturbed->loss_digest);
  }
}

TEST_F(MemberTest, ALateLossThatDivergesIsToldWithItsBatch) {
  new_train_step_ = [](const train::TrainOptions&,
                       const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    return std::make_unique<LateStep>(shape, /*diverges_at=*/3);
  };
  const absl::Status status = Run(Options("late")).status();
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("the loss of epoch 1, batch 3 is nan"));
}

TEST_F(MemberTest, OneDataRunFeedsSeveralMembersAsEachAloneWouldBe) {
  TrainJobOptions alone = Options("alone");
  const auto undisturbed = Run(alone);
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();

  observer_ = {};
  TrainJobOptions first = Options("first");
  TrainJobOptions second = Options("second");
  first.checkpoint_every = 2;
  OpenData(first);
  const auto a = NewTrainer(first);
  const auto b = NewTrainer(second);
  std::vector<ModelTrainer*> trainers = {a.get(), b.get()};
  for (int64_t epoch = 0; epoch < 4; ++epoch) RunEpoch(epoch, trainers);
  for (ModelTrainer* trainer : trainers) {
    EXPECT_TRUE(trainer->Done());
    EXPECT_EQ(Finish(*trainer).loss_digest, undisturbed->loss_digest);
  }
  // Both report each epoch.
  ASSERT_EQ(observer_.epochs.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(observer_.epochs[i].valid_metric,
              undisturbed->epochs[i / 2].valid_metric);
    EXPECT_EQ(observer_.epochs[i].training.batches, 6);
  }
}

TEST_F(MemberTest, TheFailureOfOneIsNotThatOfTheOthers) {
  const auto undisturbed = Run(Options("alone"));
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();

  TrainJobOptions good = Options("good");
  TrainJobOptions bad = Options("bad");
  bad.train.model_seed = 1;
  new_train_step_ = [](const train::TrainOptions& options,
                       const train::ModelShape& shape)
      -> absl::StatusOr<std::unique_ptr<train::TrainStep>> {
    if (options.model_seed == 1) return std::make_unique<FailingStep>(shape);
    return std::make_unique<LinearStep>(shape);
  };
  OpenData(good);
  const auto lasting = NewTrainer(good);
  const auto failing = NewTrainer(bad);
  std::vector<ModelTrainer*> trainers = {failing.get(), lasting.get()};
  for (int64_t epoch = 0; epoch < 4; ++epoch) RunEpoch(epoch, trainers);
  EXPECT_THAT(trainers, ::testing::ElementsAre(lasting.get()));
  EXPECT_EQ(failing->next_batch(), 3);
  EXPECT_EQ(Finish(*lasting).loss_digest, undisturbed->loss_digest);
}

// A trainer that was stopped continues on another source, at its epoch.
TEST_F(MemberTest, AResumedMemberJoinsAtItsEpoch) {
  const auto undisturbed = Run(Options("alone"));
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();

  const TrainJobOptions late = Options("late");
  std::stop_source stop;
  observer_ = {};
  observer_.act_at = 7;  // The first batch of the second epoch.
  observer_.act = [&] { stop.request_stop(); };
  EXPECT_TRUE(absl::IsCancelled(Run(late, stop.get_token()).status()));
  observer_ = {};

  const TrainJobOptions early = Options("early");
  OpenData(early);
  const auto resumed = NewTrainer(late);
  EXPECT_EQ(resumed->epoch(), 1);
  EXPECT_EQ(resumed->Next()->first_batch, 1);
  const auto fresh = NewTrainer(early);
  std::vector<ModelTrainer*> trainers = {fresh.get()};
  RunEpoch(0, trainers);
  trainers.push_back(resumed.get());
  for (int64_t epoch = 1; epoch < 4; ++epoch) RunEpoch(epoch, trainers);
  for (ModelTrainer* trainer : trainers) {
    EXPECT_TRUE(trainer->Done());
    EXPECT_EQ(Finish(*trainer).loss_digest, undisturbed->loss_digest);
  }
}

}  // namespace
}  // namespace hearth::job
