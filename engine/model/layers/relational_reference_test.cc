#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/layers/network.h"
#include "engine/model/operators/objective.h"
#include "engine/model/testing/synthetic_batch.h"
#include "gtest/gtest.h"

// Compares the relational models with PyG's on the same graph.
// relational_reference.json, written by tests/accuracy/relational_reference.py,
// has PyG's results.

namespace hearth::model {
namespace {

using nlohmann::json;

json Examples() {
  std::ifstream file("engine/model/layers/relational_reference.json");
  return json::parse(file);
}

train::ModelShape ShapeOf(const json& config) {
  train::ModelShape shape = {.feature_dim = config["in_channels"],
                             .label_width = config["out_channels"],
                             .num_layers = config["num_layers"]};
  std::map<std::string, size_t> types;
  for (const json& type : config["node_types"]) {
    types[type["name"]] = shape.node_types.size();
    shape.node_types.push_back(
        {.name = type["name"], .feature_dim = type["in_channels"]});
  }
  for (const json& type : config["edge_types"]) {
    shape.edge_types.push_back({.name = type[1],
                                .source = types.at(type[0]),
                                .destination = types.at(type[2])});
  }
  shape.target_type = types.at(config["target"]);
  return shape;
}

train::TrainOptions OptionsOf(const json& config) {
  train::TrainOptions options;
  const int64_t hidden = config["hidden_channels"];
  if (config["model"] == "rgcn") {
    options.model =
        train::RgcnOptions{.hidden = hidden, .bases = config["num_bases"]};
  } else if (config["model"] == "rsage") {
    options.model = train::RsageOptions{.hidden = hidden};
  } else {
    options.model =
        train::RgatOptions{.hidden = hidden, .heads = config["heads"]};
  }
  options.dropout = config["dropout"];
  return options;
}

// The example's graph; nodes are numbered type by type.
TypedGraph GraphOf(const json& example) {
  TypedGraph graph = {.shape = ShapeOf(example["config"])};
  std::vector<int32_t> first;
  for (size_t type = 0; type < graph.shape.node_types.size(); ++type) {
    first.push_back(static_cast<int32_t>(graph.node_types.size()));
    for (const json& row : example["x"][graph.shape.node_types[type].name]) {
      graph.node_types.push_back(static_cast<store::TypeId>(type));
      graph.features.push_back(row);
    }
  }
  for (size_t type = 0; type < graph.shape.edge_types.size(); ++type) {
    const train::EdgeTypeShape& ends = graph.shape.edge_types[type];
    const std::vector<int32_t> sources = example["edges"][type][0];
    const std::vector<int32_t> destinations = example["edges"][type][1];
    for (size_t i = 0; i < sources.size(); ++i) {
      graph.edges.push_back({first[ends.source] + sources[i],
                             first[ends.destination] + destinations[i],
                             static_cast<store::TypeId>(type)});
    }
  }
  graph.labels.resize(graph.node_types.size());
  const std::vector<int32_t> labels = example["labels"];
  std::copy(labels.begin(), labels.end(),
            graph.labels.begin() + first[graph.shape.target_type]);
  return graph;
}

// Copies PyG's parameters into the network; all names and shapes must be equal.
void LoadStrictly(const json& state, const Network& network) {
  ASSERT_EQ(network.parameters().size(), state.size());
  for (const NamedTensor& parameter : network.parameters()) {
    ASSERT_TRUE(state.contains(parameter.name)) << parameter.name;
    const json& entry = state[parameter.name];
    EXPECT_EQ(parameter.tensor.sizes().vec(),
              entry["shape"].get<std::vector<int64_t>>())
        << parameter.name;
    const std::vector<float> values = entry["values"];
    std::copy(values.begin(), values.end(),
              parameter.tensor.mutable_data_ptr<float>());
  }
}

class RelationalReferenceTest : public ::testing::TestWithParam<size_t> {
 protected:
  RelationalReferenceTest()
      : example_(Examples().at(GetParam())),
        graph_(GraphOf(example_)),
        batch_(WholeNeighborhood(graph_, TargetNodes(graph_))),
        network_(OptionsOf(example_["config"]), graph_.shape) {}

  const json example_;
  const TypedGraph graph_;
  const SyntheticBatch batch_;
  const Network network_;
};

TEST_P(RelationalReferenceTest, ScoresAndLossesAreThoseOfPyG) {
  ASSERT_EQ(batch_.View().Validate(graph_.shape), absl::OkStatus());
  ASSERT_NO_FATAL_FAILURE(LoadStrictly(example_["state_dict"], network_));
  const at::Tensor scores = network_.Forward(batch_.View(), std::nullopt);
  const std::vector<float> expected = example_["logits"];
  ASSERT_EQ(scores.numel(), std::ssize(expected));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(scores.const_data_ptr<float>()[i], expected[i], 1e-4) << i;
  }
  EXPECT_NEAR(Loss(scores, batch_.labels.view()).item<float>(),
              example_["loss"].get<float>(), 1e-5);
}

TEST_P(RelationalReferenceTest, GradientsAreAsLongAsThoseOfPyG) {
  ASSERT_NO_FATAL_FAILURE(LoadStrictly(example_["state_dict"], network_));
  std::vector<at::Tensor> leaves;
  for (const auto& named : network_.parameters()) {
    leaves.push_back(named.tensor);
  }
  const auto gradients = torch::autograd::grad(
      {Loss(network_.Forward(batch_.View(), train::StepPosition{}),
            batch_.labels.view())},
      leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    const std::string& name = network_.parameters()[i].name;
    EXPECT_NEAR(gradients[i].norm().item<double>(),
                example_["gradient_norms"][name].get<double>(), 1e-5)
        << name;
  }
}

TEST_P(RelationalReferenceTest, TheConfigIsThatOfPyG) {
  json config =
      json::parse(ModelConfig(OptionsOf(example_["config"]), graph_.shape));
  EXPECT_EQ(config["format"], "hearth-model-1");
  config.erase("format");
  EXPECT_EQ(config, example_["config"]);
}

INSTANTIATE_TEST_SUITE_P(Examples, RelationalReferenceTest,
                         ::testing::Range(size_t{0}, Examples().size()));

}  // namespace
}  // namespace hearth::model
