#include "engine/model/layers/network.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/model/testing/synthetic_batch.h"
#include "gtest/gtest.h"

namespace hearth::model {
namespace {

using Parameters = std::map<std::string, at::Tensor>;

constexpr int64_t kFeatureDim = 7;
constexpr int64_t kClasses = 5;
// Tolerance of gradients against differences.
constexpr double kTolerance = 5e-3;

SyntheticBatch SmallBatch() {
  return MakeBatch({.nodes = {6, 11, 19},
                    .max_neighbors = 4,
                    .feature_dim = kFeatureDim,
                    .label_width = kClasses,
                    .seed = 3});
}

train::ModelShape SmallShape() {
  return {.feature_dim = kFeatureDim, .label_width = kClasses, .num_layers = 2};
}

train::TrainOptions Options(const train::ModelOptions& model) {
  train::TrainOptions options;
  options.model = model;
  options.dropout = 0.3;
  options.model_seed = 5;
  return options;
}

// Models that take only graphs of one type.
std::vector<train::ModelOptions> ModelsOfOneType() {
  return {train::SageOptions{.hidden = 8}, train::GcnOptions{.hidden = 8},
          train::GatOptions{.hidden = 8, .heads = 2},
          train::Gatv2Options{.hidden = 8, .heads = 2},
          train::GinOptions{.hidden = 8}};
}

std::vector<train::ModelOptions> AllModels() {
  std::vector<train::ModelOptions> models = ModelsOfOneType();
  models.push_back(train::RgcnOptions{.hidden = 8});
  models.push_back(train::RgcnOptions{.hidden = 8, .bases = 2});
  models.push_back(train::RsageOptions{.hidden = 8});
  models.push_back(train::RgatOptions{.hidden = 8, .heads = 2});
  return models;
}

// Whether the model has ReLU between layers.
bool HasRelu(const train::ModelOptions& model) {
  return !std::holds_alternative<train::RsageOptions>(model) &&
         !std::holds_alternative<train::RgatOptions>(model);
}

// Definitions of the layers, in double precision with dense matrices.

at::Tensor SageLayer(const Parameters& p, const at::Tensor& x,
                     const sample::Block& block) {
  at::Tensor mean = at::zeros({block.num_destinations, x.size(1)}, at::kDouble);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const int64_t count = block.indptr[row + 1] - block.indptr[row];
    for (int64_t e = block.indptr[row]; e < block.indptr[row + 1]; ++e) {
      mean[row] += x[block.indices[e]] / count;
    }
  }
  return at::matmul(mean, p.at("lin_l.weight").t()) + p.at("lin_l.bias") +
         at::matmul(x.narrow(0, 0, block.num_destinations),
                    p.at("lin_r.weight").t());
}

at::Tensor GcnLayer(const Parameters& p, const at::Tensor& x,
                    const sample::Block& block,
                    const std::vector<int64_t>& degrees) {
  at::Tensor sum = at::zeros({block.num_destinations, x.size(1)}, at::kDouble);
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const double own = static_cast<double>(degrees[row]) + 1;
    sum[row] += x[row] / own;
    const int64_t count = block.indptr[row + 1] - block.indptr[row];
    for (int64_t e = block.indptr[row]; e < block.indptr[row + 1]; ++e) {
      const int64_t source = block.indices[e];
      // The graph has no self loops, according to the degrees.
      if (source == row) continue;
      const double other = static_cast<double>(degrees[source]) + 1;
      sum[row] += x[source] / std::sqrt(own * other) *
                  (static_cast<double>(degrees[row]) / count);
    }
  }
  return at::matmul(sum, p.at("lin.weight").t()) + p.at("bias");
}

// Sources to which a destination attends.
std::vector<int64_t> WithSelfLoop(const sample::Block& block, int64_t row) {
  std::vector<int64_t> sources = {row};
  for (int64_t e = block.indptr[row]; e < block.indptr[row + 1]; ++e) {
    if (block.indices[e] != row) sources.push_back(block.indices[e]);
  }
  return sources;
}

at::Tensor GatLayer(const Parameters& p, const at::Tensor& x,
                    const sample::Block& block, bool last) {
  const int64_t heads = p.at("att_src").size(1);
  const at::Tensor h =
      at::matmul(x, p.at("lin.weight").t()).view({x.size(0), heads, -1});
  const at::Tensor as_source = (h * p.at("att_src")).sum(2);
  const at::Tensor as_destination = (h * p.at("att_dst")).sum(2);
  std::vector<at::Tensor> rows;
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const at::Tensor index = at::tensor(WithSelfLoop(block, row));
    const at::Tensor attention = at::softmax(
        at::leaky_relu(as_source.index_select(0, index) + as_destination[row],
                       0.2),
        0);
    const at::Tensor sum =
        (h.index_select(0, index) * attention.unsqueeze(2)).sum(0);
    rows.push_back(last ? sum.mean(0) : sum.flatten());
  }
  return at::stack(rows) + p.at("bias");
}

at::Tensor Gatv2Layer(const Parameters& p, const at::Tensor& x,
                      const sample::Block& block, bool last) {
  const int64_t heads = p.at("att").size(1);
  const auto rows = [&](const std::string& lin) {
    const at::Tensor product = at::matmul(x, p.at(lin + ".weight").t());
    return (product + p.at(lin + ".bias")).view({x.size(0), heads, -1});
  };
  const at::Tensor as_source = rows("lin_l");
  const at::Tensor as_destination = rows("lin_r");
  std::vector<at::Tensor> result;
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    const at::Tensor sources =
        as_source.index_select(0, at::tensor(WithSelfLoop(block, row)));
    const at::Tensor scores =
        (at::leaky_relu(sources + as_destination[row], 0.2) * p.at("att"))
            .sum(2);
    const at::Tensor sum =
        (sources * at::softmax(scores, 0).unsqueeze(2)).sum(0);
    result.push_back(last ? sum.mean(0) : sum.flatten());
  }
  return at::stack(result) + p.at("bias");
}

at::Tensor GinLayer(const Parameters& p, const at::Tensor& x,
                    const sample::Block& block) {
  at::Tensor sum = x.narrow(0, 0, block.num_destinations).clone();
  for (int64_t row = 0; row < block.num_destinations; ++row) {
    for (int64_t e = block.indptr[row]; e < block.indptr[row + 1]; ++e) {
      sum[row] += x[block.indices[e]];
    }
  }
  const at::Tensor inner =
      at::matmul(sum, p.at("nn.lins.0.weight").t()) + p.at("nn.lins.0.bias");
  return at::matmul(inner.relu(), p.at("nn.lins.1.weight").t()) +
         p.at("nn.lins.1.bias");
}

// One layer, by the definition of its kind.
struct ReferenceLayer {
  at::Tensor operator()(const train::SageOptions&) const {
    return SageLayer(p, x, block);
  }
  at::Tensor operator()(const train::GcnOptions&) const {
    return GcnLayer(p, x, block, in_degrees);
  }
  at::Tensor operator()(const train::GatOptions&) const {
    return GatLayer(p, x, block, last);
  }
  at::Tensor operator()(const train::Gatv2Options&) const {
    return Gatv2Layer(p, x, block, last);
  }
  at::Tensor operator()(const train::GinOptions&) const {
    return GinLayer(p, x, block);
  }
  // Relational models have their own references (relational_test.cc).
  template <typename Other>
  at::Tensor operator()(const Other&) const {
    return x;
  }

  const Parameters& p;
  const at::Tensor& x;
  const sample::Block& block;
  const std::vector<int64_t>& in_degrees;
  bool last;
};

Parameters ParametersOf(const Network& network, int64_t layer) {
  const std::string prefix = "convs." + std::to_string(layer) + ".";
  Parameters p;
  for (const NamedTensor& named : network.parameters()) {
    if (named.name.compare(0, prefix.size(), prefix) != 0) continue;
    p[named.name.substr(prefix.size())] = named.tensor.detach().to(at::kDouble);
  }
  return p;
}

at::Tensor Reference(const train::ModelOptions& model, const Network& network,
                     const SyntheticBatch& batch) {
  at::Tensor x =
      at::from_blob(
          batch.inputs.get(),
          {static_cast<int64_t>(batch.sample.input_nodes.size()), kFeatureDim})
          .to(at::kDouble);
  for (int64_t layer = 0; layer < 2; ++layer) {
    const Parameters p = ParametersOf(network, layer);
    x = std::visit(ReferenceLayer{p, x, batch.sample.blocks[layer],
                                  batch.sample.in_degrees, layer == 1},
                   model);
    if (layer == 0) x = x.relu();
  }
  return x;
}

TEST(NetworkTest, ForwardFollowsTheDefinition) {
  const SyntheticBatch batch = SmallBatch();
  for (const train::ModelOptions& model : ModelsOfOneType()) {
    const Network network(Options(model), SmallShape());
    const at::Tensor scores = network.Forward(batch.View(), std::nullopt);
    EXPECT_TRUE(at::allclose(scores.to(at::kDouble),
                             Reference(model, network, batch), 1e-4, 1e-5))
        << "model " << model.index();
  }
}

double Loss(const Network& network, const SyntheticBatch& batch,
            const at::Tensor& direction) {
  const at::Tensor scores =
      network.Forward(batch.View(), train::StepPosition{1, 2});
  return (scores.detach().to(at::kDouble) * direction).sum().item<double>();
}

// Slopes of the loss below and above an element's value.
struct Slopes {
  double below;
  double above;

  // A kink of a ReLU lies in between: slopes say nothing about the gradient.
  bool Differ() const { return std::abs(above - below) > kTolerance; }
};

Slopes SlopesAt(float& value, const std::function<double()>& loss) {
  constexpr float kStep = 1e-3f;
  const float before = value;
  const double here = loss();
  value = before + kStep;
  const double above = loss();
  value = before - kStep;
  const double below = loss();
  value = before;
  return {(here - below) / kStep, (above - here) / kStep};
}

// Gradient of Loss by each parameter.
std::vector<at::Tensor> Gradients(const Network& network,
                                  const SyntheticBatch& batch,
                                  const at::Tensor& direction) {
  std::vector<at::Tensor> leaves;
  for (const auto& named : network.parameters()) leaves.push_back(named.tensor);
  const at::Tensor scores =
      network.Forward(batch.View(), train::StepPosition{1, 2});
  return torch::autograd::grad({(scores * direction.to(at::kFloat)).sum()},
                               leaves);
}

TEST(NetworkTest, GradientsAgreeWithFiniteDifferences) {
  const SyntheticBatch batch = SmallBatch();
  const at::Tensor direction =
      at::linspace(-1, 1, 6 * kClasses, at::kDouble).view({6, kClasses});
  for (const train::ModelOptions& model : AllModels()) {
    const Network network(Options(model), SmallShape());
    const auto loss = [&] { return Loss(network, batch, direction); };
    const auto gradients = Gradients(network, batch, direction);
    int64_t kinks = 0;
    int64_t elements = 0;
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto& [name, leaf] = network.parameters()[i];
      const at::Tensor gradient = gradients[i].contiguous();
      elements += leaf.numel();
      for (int64_t j = 0; j < leaf.numel(); ++j) {
        const Slopes slopes = SlopesAt(leaf.mutable_data_ptr<float>()[j], loss);
        kinks += slopes.Differ();
        if (slopes.Differ()) continue;
        ASSERT_NEAR(gradient.const_data_ptr<float>()[j],
                    (slopes.below + slopes.above) / 2, kTolerance)
            << "model " << model.index() << " " << name << " " << j;
      }
    }
    EXPECT_LT(kinks, elements / 10) << "model " << model.index();
  }
}

TEST(NetworkTest, DropoutChangesWithThePositionAlone) {
  const SyntheticBatch batch = SmallBatch();
  const Network network(Options(train::SageOptions{.hidden = 64}),
                        SmallShape());
  const auto forward = [&](train::StepPosition position) {
    return network.Forward(batch.View(), position);
  };
  EXPECT_TRUE(at::equal(forward({1, 2}), forward({1, 2})));
  EXPECT_FALSE(at::equal(forward({1, 2}), forward({1, 3})));
  EXPECT_FALSE(at::equal(forward({1, 2}), forward({2, 2})));
  EXPECT_FALSE(
      at::equal(forward({1, 2}), network.Forward(batch.View(), std::nullopt)));
}

// Embeddings of all top nodes of SmallBatch, as training pushes them.
std::vector<float> AllEmbeddings(const Network& network) {
  const SyntheticBatch whole = SmallBatch();
  PrunedBatch all = WithTopLayer(whole, network.top_width());
  network.Forward(all.View(), train::StepPosition{1, 2});
  return all.pushed;
}

std::vector<int32_t> EveryThirdTopNode() { return {0, 3, 6, 9}; }
std::vector<int32_t> AllTopNodes() {
  return {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
}

TEST(NetworkTest, PulledEmbeddingsStandForThoseThatWouldBeComputed) {
  const SyntheticBatch whole = SmallBatch();
  const train::StepPosition position{1, 2};
  for (const train::ModelOptions& model : AllModels()) {
    const Network network(Options(model), SmallShape());
    EXPECT_EQ(network.top_width(), 8);
    const std::vector<float> embeddings = AllEmbeddings(network);
    if (HasRelu(model)) {
      EXPECT_GE(*std::min_element(embeddings.begin(), embeddings.end()), 0);
    }
    EXPECT_GT(*std::max_element(embeddings.begin(), embeddings.end()), 0);
    const at::Tensor expected = network.Forward(whole.View(), position);
    for (const auto& pulled :
         {std::vector<int32_t>(), EveryThirdTopNode(), AllTopNodes()}) {
      PrunedBatch pruned = Prune(whole, pulled, embeddings, 8);
      ASSERT_EQ(pruned.View().Validate(SmallShape()), absl::OkStatus());
      EXPECT_TRUE(at::allclose(network.Forward(pruned.View(), position),
                               expected, 1e-5, 1e-6))
          << "model " << model.index() << ", " << pulled.size() << " pulled";
      // It pushes the same embeddings as the whole batch.
      const sample::TopLayer& top = *pruned.batch.sample.top;
      for (size_t i = 0; i < top.pushed.size(); ++i) {
        for (int64_t j = 0; j < 8; ++j) {
          EXPECT_NEAR(pruned.pushed[i * 8 + j],
                      embeddings[top.pushed[i] * 8 + j], 1e-5);
        }
      }
    }
  }
}

// Gradients by all parameters of the scores, weighted by `weights`.
std::vector<at::Tensor> GradientsOf(const Network& network,
                                    const train::BatchView& batch,
                                    const at::Tensor& weights) {
  std::vector<at::Tensor> leaves;
  for (const auto& named : network.parameters()) {
    leaves.push_back(named.tensor);
  }
  const at::Tensor scores = network.Forward(batch, train::StepPosition{1, 2});
  return torch::autograd::grad({(scores * weights).sum()}, leaves);
}

// Gradients that a batch lacks because it pulls embeddings are added by a later
// batch that computes them, even if its own loss has none.
TEST(NetworkTest, GradientsByPulledEmbeddingsComeWithLaterBatches) {
  const SyntheticBatch whole = SmallBatch();
  const at::Tensor weights =
      at::linspace(-1, 1, 6 * kClasses).view({6, kClasses});
  for (const auto& pulled : {EveryThirdTopNode(), AllTopNodes()}) {
    for (const train::ModelOptions& model : AllModels()) {
      const Network network(Options(model), SmallShape());
      PrunedBatch pruned = Prune(whole, pulled, AllEmbeddings(network), 8);
      std::vector<float> by_pulled(pulled.size() * 8);
      train::BatchView first = pruned.View();
      first.top_rows.pulled_gradients = by_pulled.data();
      const auto of_first = GradientsOf(network, first, weights);
      PrunedBatch later = WithTopLayer(whole, 8);
      std::vector<float> owed(later.pushed.size());
      for (size_t i = 0; i < pulled.size(); ++i) {
        std::copy_n(by_pulled.data() + i * 8, 8, owed.data() + pulled[i] * 8);
      }
      train::BatchView second = later.View();
      second.top_rows.pushed_gradients = owed.data();
      const auto of_second =
          GradientsOf(network, second, at::zeros_like(weights));
      const auto expected = GradientsOf(network, whole.View(), weights);
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(
            at::allclose(of_first[i] + of_second[i], expected[i], 1e-4, 1e-5))
            << "model " << model.index() << " " << network.parameters()[i].name;
      }
    }
  }
}

TEST(NetworkTest, PulledEmbeddingsAreConstants) {
  const SyntheticBatch whole = SmallBatch();
  const at::Tensor direction =
      at::linspace(-1, 1, 6 * kClasses, at::kDouble).view({6, kClasses});
  for (const auto& pulled : {EveryThirdTopNode(), AllTopNodes()}) {
    for (const train::ModelOptions& model : AllModels()) {
      const Network network(Options(model), SmallShape());
      PrunedBatch pruned = Prune(whole, pulled, AllEmbeddings(network), 8);
      const train::BatchView view = pruned.View();
      const auto forward = [&] {
        return network.Forward(view, train::StepPosition{1, 2});
      };
      std::vector<at::Tensor> leaves;
      for (const auto& named : network.parameters()) {
        leaves.push_back(named.tensor);
      }
      const auto gradients = torch::autograd::grad(
          {(forward() * direction.to(at::kFloat)).sum()}, leaves);
      for (size_t i = 0; i < leaves.size(); ++i) {
        const at::Tensor gradient = gradients[i].contiguous();
        for (int64_t j = 0; j < leaves[i].numel(); ++j) {
          const Slopes slopes =
              SlopesAt(leaves[i].mutable_data_ptr<float>()[j], [&] {
                return (forward().detach().to(at::kDouble) * direction)
                    .sum()
                    .item<double>();
              });
          if (slopes.Differ()) continue;
          ASSERT_NEAR(gradient.const_data_ptr<float>()[j],
                      (slopes.below + slopes.above) / 2, kTolerance)
              << "model " << model.index() << " "
              << network.parameters()[i].name << " " << j;
        }
      }
    }
  }
}

// Bound of the uniform distribution from which a large parameter is drawn.
double Bound(const Network& network, const std::string& name) {
  for (const NamedTensor& named : network.parameters()) {
    if (named.name == name) return named.tensor.abs().max().item<double>();
  }
  ADD_FAILURE() << name << " is missing";
  return 0;
}

TEST(NetworkTest, InitialWeightsHaveTheDistributionsOfPyG) {
  const train::ModelShape shape{
      .feature_dim = 400, .label_width = 100, .num_layers = 1};
  const Network sage(Options(train::SageOptions{}), shape);
  EXPECT_NEAR(Bound(sage, "convs.0.lin_l.weight"), 1 / std::sqrt(400.0), 1e-4);
  EXPECT_NEAR(Bound(sage, "convs.0.lin_r.weight"), 1 / std::sqrt(400.0), 1e-4);
  EXPECT_NEAR(Bound(sage, "convs.0.lin_l.bias"), 1 / std::sqrt(400.0), 4e-3);
  const Network gcn(Options(train::GcnOptions{}), shape);
  EXPECT_NEAR(Bound(gcn, "convs.0.lin.weight"), std::sqrt(6 / 500.0), 1e-4);
  EXPECT_EQ(Bound(gcn, "convs.0.bias"), 0);
  const Network gat(Options(train::GatOptions{.hidden = 8, .heads = 2}), shape);
  EXPECT_NEAR(Bound(gat, "convs.0.lin.weight"), std::sqrt(6 / 600.0), 1e-4);
  EXPECT_NEAR(Bound(gat, "convs.0.att_src"), std::sqrt(6 / 102.0), 1e-2);
  EXPECT_EQ(Bound(gat, "convs.0.bias"), 0);
  const Network gatv2(Options(train::Gatv2Options{.hidden = 8, .heads = 2}),
                      shape);
  EXPECT_NEAR(Bound(gatv2, "convs.0.lin_l.weight"), std::sqrt(6 / 600.0), 1e-4);
  EXPECT_NEAR(Bound(gatv2, "convs.0.lin_r.bias"), 1 / std::sqrt(400.0), 4e-3);
  EXPECT_NEAR(Bound(gatv2, "convs.0.att"), std::sqrt(6 / 102.0), 1e-2);
  EXPECT_EQ(Bound(gatv2, "convs.0.bias"), 0);
  const Network gin(Options(train::GinOptions{}), shape);
  EXPECT_NEAR(Bound(gin, "convs.0.nn.lins.0.weight"), 1 / std::sqrt(400.0),
              1e-4);
  EXPECT_NEAR(Bound(gin, "convs.0.nn.lins.0.bias"), 1 / std::sqrt(400.0), 4e-3);
  EXPECT_NEAR(Bound(gin, "convs.0.nn.lins.1.weight"), 1 / std::sqrt(100.0),
              1e-4);
  EXPECT_NEAR(Bound(gin, "convs.0.nn.lins.1.bias"), 1 / std::sqrt(100.0), 4e-3);
}

TEST(NetworkTest, InitialWeightsOfRelationalModelsHaveTheDistributionsOfPyG) {
  const train::ModelShape shape{
      .feature_dim = 400, .label_width = 100, .num_layers = 1};
  const Network rgcn(Options(train::RgcnOptions{.bases = 3}), shape);
  EXPECT_NEAR(Bound(rgcn, "convs.0.weight"), std::sqrt(6 / 500.0), 1e-4);
  EXPECT_NEAR(Bound(rgcn, "convs.0.root"), std::sqrt(6 / 500.0), 1e-4);
  EXPECT_LE(Bound(rgcn, "convs.0.comp"), std::sqrt(6 / 4.0));
  EXPECT_EQ(Bound(rgcn, "convs.0.bias"), 0);
  const Network rsage(Options(train::RsageOptions{.hidden = 80}), shape);
  const std::string edge = "convs.0.convs.<node___edge___node>.";
  EXPECT_NEAR(Bound(rsage, edge + "lin_l.weight"), 1 / std::sqrt(400.0), 1e-4);
  EXPECT_NEAR(Bound(rsage, edge + "lin_l.bias"), 1 / std::sqrt(400.0), 4e-3);
  EXPECT_NEAR(Bound(rsage, "lin.weight"), 1 / std::sqrt(80.0), 1e-4);
  EXPECT_NEAR(Bound(rsage, "lin.bias"), 1 / std::sqrt(80.0), 6e-3);
  const Network rgat(Options(train::RgatOptions{.hidden = 200, .heads = 2}),
                     shape);
  EXPECT_NEAR(Bound(rgat, edge + "lin.weight"), std::sqrt(6 / 600.0), 1e-4);
  EXPECT_NEAR(Bound(rgat, edge + "att_src"), std::sqrt(6 / 102.0), 1e-2);
  EXPECT_EQ(Bound(rgat, edge + "bias"), 0);
}

TEST(NetworkTest, InitialWeightsComeFromTheSeed) {
  train::TrainOptions options = Options(train::GcnOptions{.hidden = 8});
  const Network first(options, SmallShape());
  const Network again(options, SmallShape());
  options.model_seed += 1;
  const Network other(options, SmallShape());
  const auto weight = [](const Network& network) {
    return network.parameters()[0].tensor;
  };
  EXPECT_TRUE(at::equal(weight(first), weight(again)));
  EXPECT_FALSE(at::equal(weight(first), weight(other)));
}

}  // namespace
}  // namespace hearth::model
