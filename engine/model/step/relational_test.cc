#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "engine/model/layers/network.h"
#include "engine/model/step/new_train_step.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

// Relational models on heterographs; network_test and train_step_test cover
// graphs of one type.

namespace hearth::model {
namespace {

constexpr int64_t kClasses = 4;

// Three node types of several widths. No edges lead to the last one, so
// `tagged` has no part in the second layer.
train::ModelShape Shape(int64_t trainers = 1) {
  return {.feature_dim = 6,
          .label_width = kClasses,
          .num_layers = 2,
          .trainers = trainers,
          .node_types = {{.name = "author", .feature_dim = 4},
                         {.name = "paper", .feature_dim = 6},
                         {.name = "tag", .feature_dim = 3}},
          .edge_types = {{.name = "cites", .source = 1, .destination = 1},
                         {.name = "writes", .source = 0, .destination = 1},
                         {.name = "written", .source = 1, .destination = 0},
                         {.name = "tagged", .source = 2, .destination = 1}},
          .target_type = 1};
}

TypedGraph SmallGraph() { return MakeTypedGraph(Shape(), 24, 14, 3); }
TypedGraph LargeGraph() { return MakeTypedGraph(Shape(), 6000, 8000, 4); }

std::vector<train::ModelOptions> Models(int64_t hidden = 8) {
  return {train::RgcnOptions{.hidden = hidden},
          train::RgcnOptions{.hidden = hidden, .bases = 2},
          train::RsageOptions{.hidden = hidden},
          train::RgatOptions{.hidden = hidden, .heads = 2}};
}

train::TrainOptions Options(const train::ModelOptions& model,
                            double dropout = 0, int threads = 2) {
  train::TrainOptions options;
  options.model = model;
  options.optimizer = train::AdamOptions{.learning_rate = 0.01};
  options.dropout = dropout;
  options.model_seed = 5;
  options.train_threads = threads;
  return options;
}

double WeightedSum(const at::Tensor& scores, const at::Tensor& weights) {
  return (scores.detach().to(at::kDouble) * weights).sum().item<double>();
}

// Differences say nothing about the gradient where a kink lies between them.
void ExpectGradient(float& value, float gradient,
                    const std::function<double()>& loss, int64_t& kinks) {
  constexpr float kStep = 1e-3f;
  constexpr double kTolerance = 5e-3;
  const float before = value;
  const double here = loss();
  value = before + kStep;
  const double above = (loss() - here) / kStep;
  value = before - kStep;
  const double below = (here - loss()) / kStep;
  value = before;
  if (std::abs(above - below) > kTolerance) {
    ++kinks;
    return;
  }
  ASSERT_NEAR(gradient, (above + below) / 2, kTolerance);
}

TEST(RelationalTest, GradientsAgreeWithFiniteDifferences) {
  const TypedGraph graph = SmallGraph();
  const SyntheticBatch batch = WholeNeighborhood(graph, TargetNodes(graph));
  const at::Tensor weights =
      at::linspace(-1, 1, batch.sample.num_seeds * kClasses, at::kDouble)
          .view({-1, kClasses});
  for (const train::ModelOptions& model : Models(/*hidden=*/4)) {
    const Network network(Options(model, /*dropout=*/0.3), Shape());
    const auto forward = [&] {
      return network.Forward(batch.View(), train::StepPosition{1, 2});
    };
    std::vector<at::Tensor> leaves;
    for (const auto& named : network.parameters()) {
      leaves.push_back(named.tensor);
    }
    const auto gradients = torch::autograd::grad(
        {(forward() * weights.to(at::kFloat)).sum()}, leaves);
    int64_t kinks = 0;
    int64_t elements = 0;
    for (size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor gradient = gradients[i].contiguous();
      elements += leaves[i].numel();
      for (int64_t j = 0; j < leaves[i].numel(); ++j) {
        SCOPED_TRACE(network.parameters()[i].name + " " + std::to_string(j));
        ASSERT_NO_FATAL_FAILURE(ExpectGradient(
            leaves[i].mutable_data_ptr<float>()[j],
            gradient.const_data_ptr<float>()[j],
            [&] { return WeightedSum(forward(), weights); }, kinks));
      }
    }
    EXPECT_LT(kinks, elements / 5) << train::Name(model);
  }
}

std::unique_ptr<train::TrainStep> NewStep(const train::TrainOptions& options,
                                          int64_t trainers = 1) {
  auto step = NewTrainStep(options, Shape(trainers));
  EXPECT_TRUE(step.ok()) << step.status();
  return *std::move(step);
}

// Nodes [begin, end) of the target type, wrapping around.
std::vector<int32_t> Seeds(const TypedGraph& graph, size_t begin, size_t end) {
  const std::vector<int32_t> nodes = TargetNodes(graph);
  std::vector<int32_t> seeds;
  for (size_t i = begin; i < end; ++i) seeds.push_back(nodes[i % nodes.size()]);
  return seeds;
}

constexpr size_t kSeeds = 150;

// Losses of batches first .. end - 1, each in as many shards as there are
// trainers.
std::vector<float> Losses(train::TrainStep& step, const TypedGraph& graph,
                          uint64_t first, uint64_t end, size_t trainers = 1) {
  std::vector<float> losses;
  for (uint64_t number = first; number < end; ++number) {
    std::vector<SyntheticBatch> shards;
    std::vector<train::BatchView> views;
    for (size_t i = 0; i < trainers; ++i) {
      const size_t begin = number * kSeeds;
      shards.push_back(
          WholeNeighborhood(graph, Seeds(graph, begin + kSeeds * i / trainers,
                                         begin + kSeeds * (i + 1) / trainers)));
    }
    for (const SyntheticBatch& shard : shards) views.push_back(shard.View());
    const auto result = step.Train(views, {.epoch = 0, .batch = number});
    EXPECT_TRUE(result.ok()) << result.status();
    losses.push_back(result.value_or(train::BatchResult{}).loss);
  }
  return losses;
}

TEST(RelationalTest, ThreadsAndRepetitionChangeNoBit) {
  const TypedGraph graph = LargeGraph();
  for (const train::ModelOptions& model : Models(32)) {
    std::vector<std::vector<float>> losses;
    for (const int threads : {1, 1, 2, 5}) {
      losses.push_back(
          Losses(*NewStep(Options(model, 0.2, threads)), graph, 0, 4));
    }
    for (size_t i = 1; i < losses.size(); ++i) {
      EXPECT_EQ(losses[i], losses[0]) << train::Name(model);
    }
  }
}

TEST(RelationalTest, SeveralTrainersTakeTheStepsOfOne) {
  const TypedGraph graph = LargeGraph();
  for (const train::ModelOptions& model : Models(16)) {
    const auto expected = Losses(*NewStep(Options(model)), graph, 0, 5);
    const auto losses = Losses(*NewStep(Options(model), 2), graph, 0, 5, 2);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(losses[i], expected[i], 1e-5) << train::Name(model);
    }
  }
}

TEST(RelationalTest, LoadedStateGoesOnBitForBit) {
  const TypedGraph graph = LargeGraph();
  for (const train::ModelOptions& model : Models(16)) {
    const auto undisturbed = NewStep(Options(model, 0.2));
    Losses(*undisturbed, graph, 0, 2);
    const auto saved = undisturbed->Save();
    ASSERT_TRUE(saved.ok());
    const std::vector<float> expected = Losses(*undisturbed, graph, 2, 4);
    const auto resumed = NewStep(Options(model, 0.2));
    Losses(*resumed, graph, 5, 6);
    ASSERT_EQ(resumed->Load(*saved), absl::OkStatus());
    EXPECT_EQ(Losses(*resumed, graph, 2, 4), expected) << train::Name(model);
  }
}

// Columns that narrow types lack are NaN in these batches.
TEST(RelationalTest, UnspecifiedColumnsChangeNothing) {
  const TypedGraph graph = LargeGraph();
  for (const train::ModelOptions& model : Models()) {
    SyntheticBatch batch = WholeNeighborhood(graph, Seeds(graph, 0, kSeeds));
    std::vector<float> losses;
    for (const bool zeroed : {false, true}) {
      for (int64_t i = 0; zeroed && i < std::ssize(batch.sample.input_nodes) *
                                            batch.feature_dim;
           ++i) {
        if (std::isnan(batch.inputs[i])) batch.inputs[i] = 1e9f;
      }
      const auto step = NewStep(Options(model));
      for (uint64_t number = 0; number < 3; ++number) {
        const auto result = step->Train({batch.View()}, {.batch = number});
        ASSERT_TRUE(result.ok()) << result.status();
        losses.push_back(result->loss);
      }
    }
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::isfinite(losses[i])) << train::Name(model);
      EXPECT_EQ(losses[i], losses[i + 3]) << train::Name(model);
    }
  }
}

// Pulled nodes of all types, whose types the last layer must know.
TEST(RelationalTest, PulledEmbeddingsStandForThoseThatWouldBeComputed) {
  const SyntheticBatch whole =
      WholeNeighborhood(LargeGraph(), Seeds(LargeGraph(), 0, kSeeds));
  const train::StepPosition position{1, 2};
  for (const train::ModelOptions& model : Models()) {
    const Network network(Options(model), Shape());
    PrunedBatch all = WithTopLayer(whole, network.top_width());
    network.Forward(all.View(), position);
    std::vector<int32_t> pulled;
    const int64_t num_top = whole.sample.blocks[1].num_sources;
    for (int32_t node = 0; node < num_top; node += 3) pulled.push_back(node);
    PrunedBatch pruned = Prune(whole, pulled, all.pushed, network.top_width());
    ASSERT_EQ(pruned.View().Validate(Shape()), absl::OkStatus());
    EXPECT_TRUE(at::allclose(network.Forward(pruned.View(), position),
                             network.Forward(whole.View(), position), 1e-5,
                             1e-6))
        << train::Name(model);
  }
}

TEST(RelationalTest, BatchesWithoutEdgesTrain) {
  TypedGraph graph = SmallGraph();
  graph.edges.clear();
  const SyntheticBatch batch = WholeNeighborhood(graph, TargetNodes(graph));
  for (const train::ModelOptions& model : Models()) {
    const auto result = NewStep(Options(model))->Train({batch.View()}, {});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(std::isfinite(result->loss)) << train::Name(model);
  }
}

TEST(RelationalTest, TypesThatNoEdgesReachDropOut) {
  for (const train::ModelOptions& model : Models()) {
    const auto exported = NewStep(Options(model))->Export();
    ASSERT_TRUE(exported.ok());
    for (const auto& [name, tensor] : exported->tensors) {
      EXPECT_FALSE(absl::StrContains(name, "convs.1.convs.<tag")) << name;
    }
    if (!std::holds_alternative<train::RgcnOptions>(model)) {
      EXPECT_EQ(exported->tensors.count("lin.weight"), 1u);
    }
  }
}

absl::Status Refusal(const train::ModelOptions& model,
                     const train::ModelShape& shape) {
  return NewTrainStep(Options(model), shape).status();
}

TEST(RelationalTest, RefusesATargetToWhichNoEdgesLead) {
  train::ModelShape shape = Shape();
  shape.target_type = 2;
  for (const train::ModelOptions& model :
       {train::ModelOptions(train::RsageOptions{}),
        train::ModelOptions(train::RgatOptions{})}) {
    EXPECT_EQ(Refusal(model, shape),
              absl::InvalidArgumentError("no edge type leads to tag"));
  }
  // Root weights give every node a row.
  EXPECT_EQ(Refusal(train::RgcnOptions{}, shape), absl::OkStatus());
}

TEST(RelationalTest, RefusesATargetThatLaterLayersDoNotReach) {
  train::ModelShape shape = Shape();
  shape.edge_types = {{.name = "tagged", .source = 2, .destination = 1}};
  const absl::Status status = Refusal(train::RsageOptions{}, shape);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "leads to paper from nodes"))
      << status;
}

TEST(RelationalTest, OtherModelsTakeOneType) {
  EXPECT_EQ(Refusal(train::SageOptions{}, Shape()),
            absl::InvalidArgumentError(
                "sage trains on graphs of one node type and one edge type; "
                "rgcn, rsage and rgat take several"));
  EXPECT_FALSE(Refusal(train::GatOptions{}, Shape()).ok());
  EXPECT_EQ(Refusal(train::NoModelOptions{}, Shape()), absl::OkStatus());
  train::ModelShape shape = Shape();
  shape.node_types = {{.name = "paper", .feature_dim = 6}};
  shape.edge_types = {{.name = "cites"}};
  shape.target_type = 0;
  EXPECT_EQ(Refusal(train::SageOptions{}, shape), absl::OkStatus());
}

}  // namespace
}  // namespace hearth::model
