#include "engine/ingest/formats/metadata_yaml.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

constexpr char kGood[] = R"(dataset_name: toy
graph:
  nodes:
  - num: 30
    type: paper
  edges:
  - type: paper:cites:paper
    format: csv
    path: edges/bond.csv
  feature_data:
  - {domain: edge, name: weight, format: numpy, path: data/weight.npy}
feature_data:
- domain: node
  type: paper
  name: feat
  format: torch
  path: data/feat.pt
  in_memory: false
tasks:
- name: node_classification
  num_classes: 4
  train_set:
  - type: paper
    data:
    - {name: seeds, format: numpy, path: set/seeds.npy, in_memory: true}
    - {name: labels, format: numpy, path: set/labels.npy}
  test_set: null
)";

TEST(MetadataYamlTest, ReadsWhatThereIs) {
  const auto yaml = ParseMetadataYaml(kGood, "m.yaml");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_TRUE(yaml->has_graph);
  ASSERT_EQ(yaml->nodes.size(), 1u);
  EXPECT_EQ(yaml->nodes[0].type, "paper");
  EXPECT_EQ(yaml->nodes[0].num, 30);
  ASSERT_EQ(yaml->edges.size(), 1u);
  EXPECT_EQ(yaml->edges[0].type, "paper:cites:paper");
  EXPECT_EQ(yaml->edges[0].file.format, MetadataFile::Format::kCsv);
  EXPECT_EQ(yaml->edges[0].file.path, "edges/bond.csv");
  EXPECT_EQ(yaml->edges[0].place, "m.yaml:7");
  ASSERT_EQ(yaml->graph_features.size(), 1u);
  EXPECT_EQ(yaml->graph_features[0].domain, "edge");
  ASSERT_EQ(yaml->features.size(), 1u);
  EXPECT_EQ(yaml->features[0].name, "feat");
  EXPECT_EQ(yaml->features[0].file.format, MetadataFile::Format::kTorch);
  ASSERT_EQ(yaml->tasks.size(), 1u);
  const MetadataTask& task = yaml->tasks[0];
  EXPECT_EQ(task.name, "node_classification");
  ASSERT_EQ(task.sets[0].size(), 1u);
  EXPECT_EQ(task.sets[0][0].Find("labels")->file.path, "set/labels.npy");
  EXPECT_EQ(task.sets[0][0].Find("indexes"), nullptr);
  EXPECT_TRUE(task.sets[1].empty());
  EXPECT_TRUE(task.sets[2].empty());
  EXPECT_FALSE(yaml->topology_path.has_value());
}

TEST(MetadataYamlTest, ReadsThePreprocessedGraph) {
  const auto yaml = ParseMetadataYaml(
      "graph_topology: {type: FusedCSCSamplingGraph, path: preprocessed/g.pt}",
      "m.yaml");
  ASSERT_TRUE(yaml.ok()) << yaml.status();
  EXPECT_FALSE(yaml->has_graph);
  EXPECT_EQ(yaml->topology_path, "preprocessed/g.pt");
}

void ExpectRefused(const std::string& from, const std::string& to,
                   const std::string& message) {
  std::string text = kGood;
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  const auto status = ParseMetadataYaml(text, "m.yaml").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << to << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(MetadataYamlTest, PathsStayWithinTheFolder) {
  for (const char* const path :
       {"/etc/passwd", "../bond.csv", "edges/../../bond.csv", "edges/..",
        "\"\"", "\"a\\0b\""}) {
    ExpectRefused("edges/bond.csv", path, "m.yaml:9: path is \"");
  }
  ExpectRefused("data/feat.pt", "../feat.pt", "m.yaml:17: path is \"");
  ExpectRefused("set/labels.npy", "/labels.npy", "m.yaml:26: path is \"");
}

TEST(MetadataYamlTest, MistakesNameTheLine) {
  ExpectRefused("num: 30", "num: -1", "m.yaml:4: num is \"-1\"");
  ExpectRefused("num: 30", "num: many", "m.yaml:4: num is \"many\"");
  ExpectRefused("num: 30", "num: 9223372036854775808", "m.yaml:4: num is");
  ExpectRefused("format: csv", "format: torch",
                "m.yaml:8: format is \"torch\"; numpy or csv is needed");
  ExpectRefused("format: torch", "format: csv",
                "m.yaml:16: format is \"csv\"; numpy or torch is needed");
  ExpectRefused("domain: node", "domain: moon", "domain is \"moon\"");
  ExpectRefused("    path: edges/bond.csv\n", "", "m.yaml:7: path is missing");
  ExpectRefused("name: feat", "name: [feat]", "m.yaml:15: name is no text");
  ExpectRefused("tasks:\n- name", "tasks:\n  name", "tasks is no list");
  ExpectRefused("  - num: 30\n    type: paper", "  - paper",
                "m.yaml:4: nodes holds no mapping");
}

TEST(MetadataYamlTest, WhatIsNoYamlIsRefused) {
  for (const std::string& text :
       {std::string("a: [1"), std::string("\t- a: : b"), std::string("- 1"),
        std::string("just text"), std::string(), std::string("a: *nothing"),
        std::string(10'000, '['), std::string("\0\1\2", 3)}) {
    const auto status = ParseMetadataYaml(text, "m.yaml").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("m.yaml:"));
  }
}

TEST(MetadataYamlTest, LongTextsAreRefused) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      ParseMetadataYaml(std::string(kMaxMetadataBytes + 1, ' '), "m.yaml")
          .status()));
}

TEST(MetadataYamlTest, AliasesDoNotMultiply) {
  std::string text = "a: &a\n- {name: x, format: numpy, path: p}\nb: &b\n";
  for (int i = 0; i < 1000; ++i) text += "- {data: *a}\n";
  text += "tasks:\n";
  for (int i = 0; i < 1000; ++i) text += "- {train_set: *b}\n";
  const auto status = ParseMetadataYaml(text, "m.yaml").status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

}  // namespace
}  // namespace hearth::ingest
