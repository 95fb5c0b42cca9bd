#include <stdlib.h>
#include <sys/resource.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/step/torch_step.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"
#include "engine/train/rank_group.h"
#include "engine/train/testing/local_group.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using store::LabelKind;
using store::NodeId;

constexpr int64_t kNodes = 900;
constexpr int64_t kFeatureDim = 24;
constexpr int64_t kWidth = 5;
constexpr LabelKind kKinds[] = {LabelKind::kClasses, LabelKind::kMultiLabel,
                                LabelKind::kTargets};

// A random graph whose nodes have features and labels, sampled in two layers.
class Graph {
 public:
  explicit Graph(LabelKind kind) {
    RandomStream random(11, RandomPurpose::kGenerator);
    indptr_.push_back(0);
    for (int64_t node = 0; node < kNodes; ++node) {
      const uint64_t degree = random.Below(16);
      for (uint64_t i = 0; i < degree; ++i) {
        indices_.push_back(static_cast<int32_t>(random.Below(kNodes)));
      }
      indptr_.push_back(static_cast<int64_t>(indices_.size()));
    }
    // Nodes, inputs and labels of the graph.
    nodes_ = MakeBatch({.nodes = {kNodes, kNodes},
                        .feature_dim = kFeatureDim,
                        .label_kind = kind,
                        .label_width = kWidth,
                        .seed = 12});
    sampler_ = sample::NewNeighborSampler(
        {.indptr = indptr_, .indices = absl::MakeConstSpan(indices_)},
        {.fanouts = {5, 4}, .data_seed = 13});
  }

  // Seeds [begin, end) of batch `number`.
  SyntheticBatch Sample(uint64_t number, int64_t begin, int64_t end) const {
    std::vector<NodeId> seeds;
    for (int64_t i = begin; i < end; ++i) {
      seeds.push_back((static_cast<NodeId>(number) * 100 + i) % kNodes);
    }
    SyntheticBatch batch;
    batch.sample = *sampler_->Sample({.epoch_key = 0, .batch = number}, seeds);
    batch.feature_dim = kFeatureDim;
    batch.labels = nodes_.labels.Gather(seeds);
    const std::vector<NodeId>& inputs = batch.sample.input_nodes;
    batch.inputs.reset(static_cast<float*>(
        aligned_alloc(64, (inputs.size() + 1) * kFeatureDim * 64)));
    float* row = batch.inputs.get();
    for (const NodeId node : inputs) {
      const float* from = &nodes_.inputs[node * kFeatureDim];
      row = std::copy(from, from + kFeatureDim, row);
    }
    return batch;
  }

  // Shards of batch number `number`, of `seeds` seeds in all.
  std::vector<SyntheticBatch> Shards(uint64_t number, int64_t seeds,
                                     int64_t shards) const {
    std::vector<SyntheticBatch> result;
    for (int64_t i = 0; i < shards; ++i) {
      result.push_back(
          Sample(number, seeds * i / shards, seeds * (i + 1) / shards));
    }
    return result;
  }

 private:
  std::vector<int64_t> indptr_;
  std::vector<int32_t> indices_;
  SyntheticBatch nodes_;
  std::unique_ptr<sample::NeighborSampler> sampler_;
};

std::vector<train::BatchView> Views(const std::vector<SyntheticBatch>& shards) {
  std::vector<train::BatchView> views;
  for (const SyntheticBatch& shard : shards) views.push_back(shard.View());
  return views;
}

train::TrainOptions Options(const train::ModelOptions& model,
                            double dropout = 0) {
  train::TrainOptions options;
  options.model = model;
  options.optimizer = train::AdamOptions{.learning_rate = 0.01};
  options.dropout = dropout;
  options.model_seed = 7;
  return options;
}

const train::SageOptions kSage = {.hidden = 16};

std::vector<train::ModelOptions> Models() {
  return {kSage,
          train::GcnOptions{.hidden = 16},
          train::GatOptions{.hidden = 16, .heads = 2},
          train::Gatv2Options{.hidden = 16, .heads = 2},
          train::GinOptions{.hidden = 16},
          train::RgcnOptions{.hidden = 16, .bases = 2},
          train::RsageOptions{.hidden = 16},
          train::RgatOptions{.hidden = 16, .heads = 2}};
}

train::ModelShape Shape(LabelKind kind, int64_t trainers) {
  return {.feature_dim = kFeatureDim,
          .label_kind = kind,
          .label_width = kWidth,
          .num_layers = 2,
          .trainers = trainers};
}

std::unique_ptr<train::TrainStep> NewStep(const train::TrainOptions& options,
                                          LabelKind kind, int64_t trainers) {
  auto step = NewTrainStep(options, Shape(kind, trainers));
  EXPECT_TRUE(step.ok()) << step.status();
  return *std::move(step);
}

// Seeds of the batches of a test: an even number, numbers that leave shards of
// several sizes, and numbers too small for all shards.
constexpr int64_t kSeeds[] = {60, 61, 59, 7, 2, 1, 60};

train::BatchResult TrainBatch(train::TrainStep& step, const Graph& graph,
                              uint64_t number, int64_t trainers) {
  const auto shards =
      graph.Shards(number, kSeeds[number % std::size(kSeeds)], trainers);
  const auto result = step.Train(Views(shards), {.epoch = 0, .batch = number});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(train::BatchResult{});
}

// Losses of batches first .. end - 1.
std::vector<float> Losses(train::TrainStep& step, const Graph& graph,
                          uint64_t first, uint64_t end, int64_t trainers) {
  std::vector<float> losses;
  for (uint64_t number = first; number < end; ++number) {
    losses.push_back(TrainBatch(step, graph, number, trainers).loss);
  }
  return losses;
}

void ExpectLossesOfOneTrainer(const train::TrainOptions& options,
                              LabelKind kind, int64_t trainers) {
  const Graph graph(kind);
  const auto one = NewStep(options, kind, 1);
  const auto several = NewStep(options, kind, trainers);
  for (uint64_t number = 0; number < std::size(kSeeds); ++number) {
    const train::BatchResult expected = TrainBatch(*one, graph, number, 1);
    const train::BatchResult result =
        TrainBatch(*several, graph, number, trainers);
    // Adam makes a whole step of the rounding of a small gradient.
    EXPECT_NEAR(result.loss, expected.loss, 5e-5) << "batch " << number;
    EXPECT_EQ(result.num_seeds, expected.num_seeds);
    EXPECT_EQ(result.tally.num_predictions, expected.tally.num_predictions);
    // A sum over the seeds, of parameters that differ in rounding.
    EXPECT_NEAR(result.tally.squared_error, expected.tally.squared_error,
                1e-4 * (1 + expected.tally.squared_error));
  }
}

TEST(ParallelStepTest, LossesAreThoseOfOneTrainerWithTheWholeBatch) {
  const std::vector<train::ModelOptions> models = Models();
  for (size_t model = 0; model < models.size(); ++model) {
    for (const LabelKind kind : kKinds) {
      for (const int64_t trainers : {2, 3}) {
        SCOPED_TRACE("model " + std::to_string(model) + ", " +
                     store::Name(kind) + ", trainers " +
                     std::to_string(trainers));
        ExpectLossesOfOneTrainer(Options(models[model]), kind, trainers);
      }
    }
  }
}

// Shards count by the class weights of their seeds, not by their number.
TEST(ParallelStepTest, ClassWeightsAreThoseOfTheWholeBatch) {
  train::TrainOptions options = Options(kSage);
  options.optimizer = train::SgdOptions{.learning_rate = 0.1};
  options.class_weights = train::ClassWeights{.values = {0.1, 20, 1, 1, 5}};
  for (const int64_t trainers : {2, 3}) {
    ExpectLossesOfOneTrainer(options, LabelKind::kClasses, trainers);
    ExpectLossesOfOneTrainer(options, LabelKind::kMultiLabel, trainers);
  }
}

TEST(ParallelStepTest, EveryOptimizerTakesTheStepsOfOneTrainer) {
  for (const train::OptimizerOptions& optimizer :
       {train::OptimizerOptions(train::AdamWOptions{}),
        train::OptimizerOptions(train::SgdOptions{
            .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01})}) {
    train::TrainOptions options = Options(kSage);
    options.optimizer = optimizer;
    ExpectLossesOfOneTrainer(options, LabelKind::kClasses, 3);
  }
}

// The clipped norm is of the sum of the shards' gradients.
TEST(ParallelStepTest, ClippingIsThatOfOneTrainer) {
  train::TrainOptions options = Options(kSage);
  options.optimizer = train::SgdOptions{.learning_rate = 0.5};
  options.clip_norm = 0.05;
  ExpectLossesOfOneTrainer(options, LabelKind::kClasses, 3);
}

TEST(ParallelStepTest, EvaluationAddsUpOverTheShards) {
  for (const LabelKind kind : kKinds) {
    const Graph graph(kind);
    const auto one = NewStep(Options(kSage), kind, 1);
    const auto three = NewStep(Options(kSage), kind, 3);
    // Trained replicas, so that a difference would show.
    Losses(*three, graph, 0, 4, 3);
    ASSERT_TRUE(one->Load(*three->Save()).ok());
    for (const int64_t seeds : {100, 1}) {
      const auto whole = graph.Shards(9, seeds, 1);
      const auto shards = graph.Shards(9, seeds, 3);
      const auto expected = one->Evaluate(Views(whole));
      const auto result = three->Evaluate(Views(shards));
      ASSERT_TRUE(expected.ok() && result.ok());
      EXPECT_NEAR(result->loss, expected->loss, 1e-5);
      EXPECT_EQ(result->num_seeds, seeds);
      const train::Metric metric = train::MetricFor(kind);
      EXPECT_NEAR(result->tally.Value(metric), expected->tally.Value(metric),
                  1e-5);
    }
  }
}

TEST(ParallelStepTest, RankingsAreOfAllShardsInOrder) {
  for (const LabelKind kind : {LabelKind::kClasses, LabelKind::kMultiLabel}) {
    const Graph graph(kind);
    train::TrainOptions options = Options(kSage);
    options.metric = train::Metric::kRocAuc;
    const auto one = NewStep(options, kind, 1);
    const auto three = NewStep(options, kind, 3);
    const auto expected = one->Evaluate(Views(graph.Shards(9, 100, 1)));
    const auto result = three->Evaluate(Views(graph.Shards(9, 100, 3)));
    ASSERT_TRUE(expected.ok() && result.ok());
    const auto& scores = result->tally.ranking.scores;
    ASSERT_EQ(scores.size(), 100 * kWidth);
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_NEAR(scores[i].score, expected->tally.ranking.scores[i].score,
                  1e-5);
      EXPECT_EQ(scores[i].is_positive,
                expected->tally.ranking.scores[i].is_positive);
    }
    // Training ranks nothing.
    EXPECT_TRUE(TrainBatch(*three, graph, 0, 3).tally.ranking.scores.empty());
  }
}

TEST(ParallelStepTest, ThreadsAndRepetitionChangeNoBit) {
  const Graph graph(LabelKind::kClasses);
  for (const int64_t trainers : {2, 3}) {
    std::vector<std::vector<float>> losses;
    for (const int threads : {1, 1, 3}) {
      train::TrainOptions options = Options(kSage, /*dropout=*/0.3);
      options.train_threads = threads;
      const auto step = NewStep(options, LabelKind::kClasses, trainers);
      losses.push_back(Losses(*step, graph, 0, 10, trainers));
    }
    EXPECT_EQ(losses[1], losses[0]);
    EXPECT_EQ(losses[2], losses[0]);
  }
}

// The shards of this batch are equal: with equal patterns, all would have equal
// losses.
TEST(ParallelStepTest, RowsInPlaceChangeNoBit) {
  const Graph graph(LabelKind::kClasses);
  // Sums first, and products first.
  for (const int64_t hidden : {64, 4}) {
    const train::TrainOptions options =
        Options(train::SageOptions{.hidden = hidden}, /*dropout=*/0.2);
    const auto dense = NewStep(options, LabelKind::kClasses, 3);
    const auto in_place = NewStep(options, LabelKind::kClasses, 3);
    for (uint64_t number = 0; number < std::size(kSeeds); ++number) {
      const auto shards = graph.Shards(number, kSeeds[number], 3);
      std::vector<PlacedBatch> placed;
      for (const SyntheticBatch& shard : shards) {
        placed.emplace_back(shard, store::DType::kFloat32);
      }
      std::vector<train::BatchView> views;
      for (const PlacedBatch& shard : placed) views.push_back(shard.View());
      const train::StepPosition position = {.epoch = 0, .batch = number};
      const auto expected = dense->Train(Views(shards), position);
      const auto result = in_place->Train(views, position);
      ASSERT_TRUE(expected.ok() && result.ok()) << result.status();
      EXPECT_EQ(result->loss, expected->loss) << "batch " << number;
    }
  }
}

TEST(ParallelStepTest, EachShardDropsByItsOwnPattern) {
  const Graph graph(LabelKind::kClasses);
  const SyntheticBatch batch = graph.Sample(0, 0, 40);
  const std::vector<train::BatchView> twice = {batch.View(), batch.View()};
  const auto loss = [&](absl::Span<const train::BatchView> shards,
                        double dropout) {
    const auto step = NewStep(Options(kSage, dropout), LabelKind::kClasses,
                              static_cast<int64_t>(shards.size()));
    return step->Train(shards, {})->loss;
  };
  const absl::Span<const train::BatchView> once(twice.data(), 1);
  EXPECT_NEAR(loss(twice, 0), loss(once, 0), 1e-6);
  EXPECT_GT(std::abs(loss(twice, 0.5) - loss(once, 0.5)), 1e-4);
}

TEST(ParallelStepTest, LoadedStateGoesOnBitForBit) {
  const Graph graph(LabelKind::kClasses);
  const train::TrainOptions options = Options(kSage, /*dropout=*/0.2);
  const auto undisturbed = NewStep(options, LabelKind::kClasses, 2);
  Losses(*undisturbed, graph, 0, 3, 2);
  const auto saved = undisturbed->Save();
  ASSERT_TRUE(saved.ok()) << saved.status();
  const std::vector<float> expected = Losses(*undisturbed, graph, 3, 9, 2);
  const auto resumed = NewStep(options, LabelKind::kClasses, 2);
  Losses(*resumed, graph, 5, 6, 2);
  ASSERT_TRUE(resumed->Load(*saved).ok());
  EXPECT_EQ(Losses(*resumed, graph, 3, 9, 2), expected);
}

TEST(ParallelStepTest, AStateThatDoesNotFitChangesNothing) {
  const Graph graph(LabelKind::kClasses);
  const auto step = NewStep(Options(kSage), LabelKind::kClasses, 2);
  auto state = *step->Save();
  state.erase("optimizer.step");
  const absl::Status status = step->Load(state);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StrContains(status.message(), "optimizer.step"));
  const auto other = NewStep(Options(kSage), LabelKind::kClasses, 2);
  EXPECT_EQ(Losses(*step, graph, 0, 3, 2), Losses(*other, graph, 0, 3, 2));
}

TEST(ParallelStepTest, ExportsTheModelOfOneTrainer) {
  const auto one = NewStep(Options(kSage), LabelKind::kClasses, 1)->Export();
  const auto two = NewStep(Options(kSage), LabelKind::kClasses, 2)->Export();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(two->metadata, one->metadata);
  ASSERT_EQ(two->tensors.size(), one->tensors.size());
  for (const auto& [name, tensor] : one->tensors) {
    EXPECT_EQ(two->tensors.at(name).data, tensor.data) << name;
  }
}

TEST(ParallelStepTest, EachTrainerTakesTheMemoryOfOne) {
  const sample::BatchShape shape = {.nodes = {1000, 300, 50},
                                    .edges = {2000, 400}};
  const uint64_t one =
      NewStep(Options(kSage), LabelKind::kClasses, 1)->MemoryBytes(shape);
  EXPECT_GT(one, 0u);
  const auto three = NewStep(Options(kSage), LabelKind::kClasses, 3);
  // Each has the gradients of the whole batch, too, as one array, in memory of
  // which an eighth more may be there.
  const uint64_t array = three->ParameterBytes() * 9 / 8;
  EXPECT_NEAR(static_cast<double>(three->MemoryBytes(shape)),
              static_cast<double>(3 * (one + array)), 3);
}

TEST(ParallelStepTest, RefusesShardsThatDoNotFit) {
  const Graph graph(LabelKind::kClasses);
  const auto step = NewStep(Options(kSage), LabelKind::kClasses, 3);
  EXPECT_EQ(step->Train(Views(graph.Shards(0, 60, 2)), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  auto shards = graph.Shards(0, 60, 3);
  shards[1].labels =
      store::Labels::Classes(std::vector<int32_t>(20, kWidth), kWidth);
  EXPECT_EQ(step->Train(Views(shards), {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(step->Evaluate(Views(shards)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(NewTrainStep(Options(kSage), Shape(LabelKind::kClasses, 17))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// Ranks that are threads, each with a step of its own.
class RankedStepTest : public ::testing::Test {
 protected:
  // `each` trainers on each of `size` ranks.
  void Open(const train::TrainOptions& options, LabelKind kind, int size,
            int64_t each = 1) {
    each_ = each;
    groups_ = train::NewLocalGroup(size);
    steps_.clear();
    for (int rank = 0; rank < size; ++rank) {
      train::ModelShape shape = Shape(kind, each);
      shape.window = {.first = rank * each, .all = size * each};
      auto step = NewRankedStep(options, shape, *groups_[rank]);
      EXPECT_TRUE(step.ok()) << step.status();
      steps_.push_back(*std::move(step));
    }
  }

  using Results = std::vector<absl::StatusOr<train::BatchResult>>;
  using Call = absl::FunctionRef<absl::StatusOr<train::BatchResult>(
      train::TrainStep& step, absl::Span<const train::BatchView> shards)>;

  // Calls the step of each rank with its shards of a batch, which `change` may
  // change before.
  Results OnRanks(
      const Graph& graph, uint64_t number, int64_t seeds, Call call,
      absl::FunctionRef<void(int, std::vector<train::BatchView>&)> change =
          [](int, std::vector<train::BatchView>&) {}) {
    const auto size = std::ssize(steps_);
    const auto shards = graph.Shards(number, seeds, size * each_);
    const SyntheticBatch whole = graph.Sample(number, 0, seeds);
    Results results(steps_.size(), absl::UnknownError("not called"));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<train::BatchView> views;
        for (int64_t i = 0; i < each_; ++i) {
          views.push_back(shards[rank * each_ + i].View());
          views.back().batch_labels = whole.labels.view();
        }
        change(rank, views);
        results[rank] = call(*steps_[rank], views);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  Results Train(const Graph& graph, uint64_t number) {
    return OnRanks(graph, number, kSeeds[number % std::size(kSeeds)],
                   [&](train::TrainStep& step, auto shards) {
                     return step.Train(shards, {.epoch = 0, .batch = number});
                   });
  }

  // Expects that `steps_` and `expected` do the same in every bit: training,
  // evaluation, and the state afterwards.
  void ExpectStepsOf(train::TrainStep& expected, const Graph& graph) {
    const int64_t all = std::ssize(steps_) * each_;
    for (uint64_t number = 0; number < std::size(kSeeds); ++number) {
      const train::BatchResult one = TrainBatch(expected, graph, number, all);
      for (const auto& result : Train(graph, number)) {
        ASSERT_TRUE(result.ok()) << result.status();
        ExpectSame(*result, one);
      }
    }
    for (const int64_t seeds : {100, 1}) {
      const auto one = expected.Evaluate(Views(graph.Shards(9, seeds, all)));
      ASSERT_TRUE(one.ok()) << one.status();
      for (const auto& result :
           OnRanks(graph, 9, seeds, [](train::TrainStep&step, auto shards) {
             return step.Evaluate(shards);
           })) {
        ASSERT_TRUE(result.ok()) << result.status();
        ExpectSame(*result, *one);
      }
    }
    const auto state = expected.Save();
    ASSERT_TRUE(state.ok()) << state.status();
    for (const auto& step : steps_) {
      const auto other = step->Save();
      ASSERT_TRUE(other.ok()) << other.status();
      ASSERT_EQ(other->size(), state->size());
      for (const auto& [name, tensor] : *state) {
        EXPECT_EQ(other->at(name).data, tensor.data) << name;
      }
    }
  }

  static void ExpectSame(const train::BatchResult& a,
                         const train::BatchResult& b) {
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.num_seeds, b.num_seeds);
    EXPECT_EQ(a.weight, b.weight);
    EXPECT_EQ(a.tally.num_correct, b.tally.num_correct);
    EXPECT_EQ(a.tally.true_positives, b.tally.true_positives);
    EXPECT_EQ(a.tally.squared_error, b.tally.squared_error);
    ASSERT_EQ(a.tally.ranking.scores.size(), b.tally.ranking.scores.size());
    for (size_t i = 0; i < a.tally.ranking.scores.size(); ++i) {
      EXPECT_EQ(a.tally.ranking.scores[i].score,
                b.tally.ranking.scores[i].score);
    }
  }

  int64_t each_ = 1;
  std::vector<std::unique_ptr<train::RankGroup>> groups_;
  std::vector<std::unique_ptr<train::TrainStep>> steps_;
};

TEST_F(RankedStepTest, TakesTheStepsOfAsManyTrainersOnOneMachine) {
  for (const train::ModelOptions& model : Models()) {
    for (const LabelKind kind : kKinds) {
      const Graph graph(kind);
      const train::TrainOptions options = Options(model, /*dropout=*/0.3);
      Open(options, kind, 3);
      ExpectStepsOf(*NewStep(options, kind, 3), graph);
    }
  }
}

TEST_F(RankedStepTest, WithWeightsClippingAndAnyOptimizer) {
  const Graph graph(LabelKind::kClasses);
  for (const train::OptimizerOptions& optimizer :
       {train::OptimizerOptions(train::AdamWOptions{}),
        train::OptimizerOptions(train::SgdOptions{
            .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01})}) {
    train::TrainOptions options = Options(kSage);
    options.optimizer = optimizer;
    options.class_weights = train::ClassWeights{.values = {0.1, 20, 1, 1, 5}};
    options.clip_norm = 0.05;
    options.metric = train::Metric::kRocAuc;
    Open(options, LabelKind::kClasses, 2);
    ExpectStepsOf(*NewStep(options, LabelKind::kClasses, 2), graph);
  }
}

// With several trainers on each machine the order of additions is another.
TEST_F(RankedStepTest, SeveralTrainersOnEachMachineTakeItsStepsButForRounding) {
  const Graph graph(LabelKind::kClasses);
  const auto one = NewStep(Options(kSage), LabelKind::kClasses, 4);
  std::vector<std::vector<float>> losses;
  for (int repetition = 0; repetition < 2; ++repetition) {
    Open(Options(kSage), LabelKind::kClasses, 2, 2);
    losses.emplace_back();
    for (uint64_t number = 0; number < std::size(kSeeds); ++number) {
      const Results results = Train(graph, number);
      ASSERT_TRUE(results[0].ok() && results[1].ok()) << results[0].status();
      EXPECT_EQ(results[0]->loss, results[1]->loss);
      losses.back().push_back(results[0]->loss);
    }
  }
  EXPECT_EQ(losses[0], losses[1]);
  for (uint64_t number = 0; number < std::size(kSeeds); ++number) {
    EXPECT_NEAR(losses[0][number], TrainBatch(*one, graph, number, 4).loss,
                5e-5);
  }
}

// Another number of machines goes on as as many trainers would.
TEST_F(RankedStepTest, GoesOnFromTheStateOfAnotherNumberOfMachines) {
  const Graph graph(LabelKind::kClasses);
  const train::TrainOptions options = Options(kSage, /*dropout=*/0.2);
  Open(options, LabelKind::kClasses, 3);
  for (uint64_t number = 0; number < 3; ++number) Train(graph, number);
  const auto state = steps_.front()->Save();
  ASSERT_TRUE(state.ok()) << state.status();
  const auto two = NewStep(options, LabelKind::kClasses, 2);
  ASSERT_TRUE(two->Load(*state).ok());
  Open(options, LabelKind::kClasses, 2);
  for (const auto& step : steps_) ASSERT_TRUE(step->Load(*state).ok());
  ExpectStepsOf(*two, graph);
}

TEST_F(RankedStepTest, AnErrorOfOneIsThatOfAllAndChangesNothing) {
  const Graph graph(LabelKind::kClasses);
  Open(Options(kSage), LabelKind::kClasses, 3);
  const store::Labels wrong =
      store::Labels::Classes(std::vector<int32_t>(20, kWidth), kWidth);
  const auto train = [](train::TrainStep& step, auto shards) {
    return step.Train(shards, {});
  };
  for (const auto& result :
       OnRanks(graph, 0, 60, train,
               [&](int rank, std::vector<train::BatchView>&views) {
                 if (rank == 1) views.front().labels = wrong.view();
               })) {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    EXPECT_TRUE(absl::StrContains(result.status().message(), "label 5"));
  }
  ExpectStepsOf(*NewStep(Options(kSage), LabelKind::kClasses, 3), graph);
}

TEST_F(RankedStepTest, TheEndOfOneIsThatOfAll) {
  const Graph graph(LabelKind::kClasses);
  Open(Options(kSage), LabelKind::kClasses, 3);
  const Results results =
      OnRanks(graph, 0, 60,
              [&](train::TrainStep& step,
                  auto shards) -> absl::StatusOr<train::BatchResult> {
                if (&step == steps_[2].get()) {
                  groups_[2]->End(absl::UnavailableError("host-c has gone"));
                  return absl::CancelledError();
                }
                return step.Train(shards, {});
              });
  for (const int rank : {0, 1}) {
    EXPECT_TRUE(absl::IsUnavailable(results[rank].status()))
        << results[rank].status();
  }
}

TEST_F(RankedStepTest, RefusesWhatMachinesCannotAgreeOn) {
  Open(Options(kSage), LabelKind::kClasses, 2);
  train::ModelShape shape = Shape(LabelKind::kClasses, 1);
  shape.window = {.first = 0, .all = 2};
  EXPECT_TRUE(absl::IsInvalidArgument(
      NewRankedStep(Options(train::NoModelOptions()), shape, *groups_[0])
          .status()));
  train::TrainOptions on_gpu = Options(kSage);
  on_gpu.gpu = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(
      NewRankedStep(on_gpu, shape, *groups_[0]).status()));
  shape.window = {.first = 2, .all = 2};
  EXPECT_TRUE(absl::IsInvalidArgument(
      NewRankedStep(Options(kSage), shape, *groups_[0]).status()));
}

// While it lives, the process can have this much more writable memory.
class DataLimit {
 public:
  explicit DataLimit(uint64_t more) {
    getrlimit(RLIMIT_DATA, &before_);
    uint64_t kibibytes = 0;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (std::sscanf(line.c_str(), "VmData: %" SCNu64, &kibibytes) == 1) break;
    }
    rlimit limit = before_;
    limit.rlim_cur = (kibibytes << 10) + more;
    setrlimit(RLIMIT_DATA, &limit);
  }
  ~DataLimit() { setrlimit(RLIMIT_DATA, &before_); }

 private:
  rlimit before_;
};

TEST(ParallelStepTest, OneShardThatFailsEndsTheStepForAll) {
  const Graph graph(LabelKind::kClasses);
  train::TrainOptions options = Options(kSage);
  options.train_threads = 1;
  const auto step = NewStep(options, LabelKind::kClasses, 3);
  const auto undisturbed = NewStep(options, LabelKind::kClasses, 3);
  EXPECT_EQ(Losses(*step, graph, 0, 2, 3),
            Losses(*undisturbed, graph, 0, 2, 3));
  // Its activations take at least 64 MB; those of the others fit.
  const SyntheticBatch large = MakeBatch({.nodes = {20, 1 << 20, 1 << 20},
                                          .max_neighbors = 1,
                                          .feature_dim = kFeatureDim,
                                          .label_width = kWidth,
                                          .seed = 3});
  for (int failing = 0; failing < 3; ++failing) {
    const auto small = graph.Shards(0, 60, 3);
    std::vector<train::BatchView> views;
    for (int i = 0; i < 3; ++i) {
      views.push_back(i == failing ? large.View() : small[i].View());
    }
    const DataLimit limit(32 << 20);
    const absl::Status status = step->Train(views, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  }
  EXPECT_EQ(Losses(*step, graph, 2, 6, 3),
            Losses(*undisturbed, graph, 2, 6, 3));
}

}  // namespace
}  // namespace hearth::model
