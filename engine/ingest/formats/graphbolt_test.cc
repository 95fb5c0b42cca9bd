#include "engine/ingest/formats/graphbolt.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/ingest/formats/imported_graph_fixture.h"
#include "engine/store/labels.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

enum class From { kRaw, kPreprocessed };

/// Removes the files from which the other form would be read.
void Prepare(const ImportFolder& folder, From from) {
  if (from == From::kRaw) {
    folder.Remove("preprocessed");
  } else {
    folder.Remove("metadata.yaml");
    folder.Remove("edges");
    folder.Remove("data");
    folder.Remove("set");
  }
}

/// Expects the labels of the nodes of each part.
void ExpectLabels(const ImportedNodes& nodes, const std::string& expected,
                  const std::string& suffix) {
  const std::vector<std::string> parts = {"train", "valid", "test"};
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<int64_t>& ids = nodes.split[i];
    EXPECT_EQ(ids, ExpectedInts(expected + parts[i] + suffix + ".npy"));
    std::vector<int64_t> labels;
    for (const int64_t id : ids) {
      labels.push_back(nodes.labels[static_cast<size_t>(id)]);
    }
    const std::string type = suffix.empty() ? "" : "___" + suffix.substr(1);
    EXPECT_EQ(labels,
              ExpectedInts(expected + "labels." + parts[i] + type + ".npy"));
  }
}

class GraphBoltFormatTest : public testing::Test {
 protected:
  void ExpectRefused(const ImportFolder& folder, absl::StatusCode code,
                     const std::string& message) {
    const absl::Status status = folder.Import().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  void ExpectInvalid(const ImportFolder& folder, const std::string& message) {
    ExpectRefused(folder, absl::StatusCode::kInvalidArgument, message);
  }

  ImportFolder one_{"graphbolt_homogeneous/dataset"};
  ImportFolder several_{"graphbolt_heterogeneous/dataset"};
};

TEST_F(GraphBoltFormatTest, OneTypeIsReadAsGraphBoltReadsIt) {
  for (const std::string fixture :
       {"graphbolt_homogeneous", "graphbolt_homogeneous_int64"}) {
    for (const From from : {From::kRaw, From::kPreprocessed}) {
      SCOPED_TRACE(fixture);
      const ImportFolder folder(fixture + "/dataset");
      Prepare(folder, from);
      const auto graph = folder.Import();
      ASSERT_TRUE(graph.ok()) << graph.status();
      const std::string expected = fixture + "/expected/";
      EXPECT_EQ(Sorted(graph->edges.at("edge")),
                ExpectedEdges(expected + "edges.npy"));
      const ImportedNodes& nodes = graph->nodes.at("node");
      EXPECT_EQ(nodes.features, ExpectedFloats(expected + "features.feat.npy"));
      ExpectLabels(nodes, expected, "");
      EXPECT_THAT(graph->manifest.transforms,
                  Contains(from == From::kRaw ? "read from the raw dataset"
                                              : "read from preprocessed"));
      EXPECT_THAT(graph->warnings,
                  Contains("the node feature \"age\" is left out"));
      EXPECT_THAT(graph->warnings,
                  Contains(From::kRaw == from
                               ? "the edge feature \"weight\" is left out"
                               : "the graph's attribute \"weight\" is left "
                                 "out"));
    }
  }
}

TEST_F(GraphBoltFormatTest, SeveralTypesAreReadAsGraphBoltReadsThem) {
  for (const std::string fixture :
       {"graphbolt_heterogeneous", "graphbolt_heterogeneous_int64"}) {
    for (const From from : {From::kRaw, From::kPreprocessed}) {
      SCOPED_TRACE(fixture);
      const ImportFolder folder(fixture + "/dataset");
      Prepare(folder, from);
      // With little memory, the types are unpacked in several passes.
      for (const uint64_t limit : {uint64_t{1} << 20, uint64_t{64} << 20}) {
        const auto graph = folder.Import({.memory_limit_bytes = limit});
        ASSERT_TRUE(graph.ok()) << graph.status();
        const std::string expected = fixture + "/expected/";
        ASSERT_EQ(graph->manifest.edge_types.size(), 3u);
        for (const std::string name :
             {"author:affiliated_with:institution", "author:writes:paper",
              "paper:cites:paper"}) {
          std::string file = name;
          for (size_t at; (at = file.find(':')) != std::string::npos;) {
            file.replace(at, 1, "___");
          }
          EXPECT_EQ(Sorted(graph->edges.at(name)),
                    ExpectedEdges(expected + "edges." + file + ".npy"));
        }
        EXPECT_THAT(
            (std::vector<std::string>{graph->manifest.node_types[0].name,
                                      graph->manifest.node_types[1].name,
                                      graph->manifest.node_types[2].name}),
            ElementsAre("author", "institution", "paper"));
        const ImportedNodes& papers = graph->nodes.at("paper");
        EXPECT_EQ(papers.features,
                  ExpectedFloats(expected + "features.paper___feat.npy"));
        EXPECT_EQ(graph->nodes.at("author").features,
                  ExpectedFloats(expected + "features.author___feat.npy"));
        EXPECT_EQ(graph->nodes.at("author").feature_type, "float16");
        EXPECT_EQ(graph->nodes.at("institution").num_nodes, 5);
        EXPECT_TRUE(graph->nodes.at("institution").features.empty());
        ExpectLabels(papers, expected, ".paper");
      }
    }
  }
}

TEST_F(GraphBoltFormatTest, WithoutRawEdgesThePreprocessedAreRead) {
  one_.Remove("edges");
  const auto graph = one_.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->manifest.transforms, Contains("read from preprocessed"));
  one_.Remove("preprocessed");
  ExpectInvalid(one_, "bond.csv: is missing");
}

TEST_F(GraphBoltFormatTest, TheFolderPreprocessedItselfCanBeGiven) {
  for (const std::string source : {"preprocessed", "preprocessed/"}) {
    const auto graph = several_.Import({.source = source});
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_EQ(graph->edges.at("paper:cites:paper").size(), 70u);
  }
}

TEST_F(GraphBoltFormatTest, FeaturesCanStayInPlace) {
  const auto graph = several_.Import({.in_place = true});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.at("paper").features,
            ExpectedFloats("graphbolt_heterogeneous/expected/"
                           "features.paper___feat.npy"));
}

TEST_F(GraphBoltFormatTest, TorchFeaturesAreRead) {
  one_.Replace("metadata.yaml", "name: feat", "name: other");
  ExpectInvalid(one_, "have the features other, age, embedding; one must be");
  one_.Replace("metadata.yaml", "name: embedding", "name: feat");
  const auto graph = one_.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.at("node").feature_type, "float32");
  EXPECT_EQ(graph->nodes.at("node").features.size(), 90u);
}

TEST_F(GraphBoltFormatTest, AListOfFeaturesIsOneColumn) {
  one_.Replace("metadata.yaml", "name: feat", "name: other");
  one_.Replace("metadata.yaml", "name: age", "name: feat");
  const auto graph = one_.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes.at("node").features,
            ExpectedFloats("graphbolt_homogeneous/expected/features.age.npy"));
}

TEST_F(GraphBoltFormatTest, ANodeWithTwoLabelsIsRefused) {
  // The training set serves as the validation set, with other labels.
  one_.Write("set/validation_set_seeds.npy",
             one_.Read("set/train_set_seeds.npy"));
  std::string labels = one_.Read("set/train_set_labels.npy");
  labels[labels.size() - 8] ^= 1;
  one_.Write("set/validation_set_labels.npy", labels);
  ExpectInvalid(one_, "has the label");
}

TEST_F(GraphBoltFormatTest, LinkPredictionIsLeftOut) {
  std::string yaml = one_.Read("metadata.yaml");
  for (size_t at; (at = yaml.find("name: seeds")) != std::string::npos;) {
    yaml.replace(at, 11, "name: node_pairs");
  }
  one_.Write("metadata.yaml", yaml);
  const auto graph = one_.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(graph->nodes.at("node").labels.empty());
  EXPECT_TRUE(graph->nodes.at("node").split[0].empty());
  EXPECT_THAT(graph->warnings,
              Contains("the task \"node_classification\" is left out: its "
                       "seeds are not single nodes"));
}

/// Writes float labels for each set, `width` per node: node n has n + 0.25, n +
/// 1.25, ...
void WriteNumbers(const ImportFolder& folder, int64_t width) {
  for (const std::string part : {"train", "validation", "test"}) {
    const std::string path = "set/" + part + "_set_";
    const std::string seeds = folder.Read(path + "seeds.npy");
    const auto count = (seeds.size() - 128) / sizeof(int64_t);
    std::vector<float> labels;
    for (size_t i = 0; i < count; ++i) {
      int64_t seed = 0;
      std::memcpy(&seed, seeds.data() + 128 + i * sizeof(seed), sizeof(seed));
      for (int64_t column = 0; column < width; ++column) {
        labels.push_back(static_cast<float>(seed + column) + 0.25f);
      }
    }
    folder.Write(
        path + "labels.npy",
        store::ToBytes({.shape = absl::StrCat("(", count, ", ", width, ")"),
                        .data = store::Raw(labels)}));
  }
}

TEST_F(GraphBoltFormatTest, LabelsThatAreNumbersAreTakenAsToldSo) {
  for (const int64_t width : {1, 3}) {
    WriteNumbers(one_, width);
    ImportFolder::Choices choices;
    choices.options.graphbolt.labels = store::LabelKind::kTargets;
    const auto graph = one_.Import(choices);
    ASSERT_TRUE(graph.ok()) << graph.status();
    const ImportedNodes& nodes = graph->nodes.at("node");
    EXPECT_EQ(nodes.num_classes, width);
    ASSERT_EQ(nodes.targets.size(), static_cast<size_t>(30 * width));
    for (const std::vector<int64_t>& part : nodes.split) {
      EXPECT_FALSE(part.empty());
      for (const int64_t node : part) {
        for (int64_t i = 0; i < width; ++i) {
          EXPECT_EQ(nodes.targets[static_cast<size_t>(node * width + i)],
                    static_cast<double>(node + i) + 0.25);
        }
      }
    }
  }
  WriteNumbers(one_, 1);
  ExpectInvalid(one_, "not a whole number; --labels targets");
}

TEST_F(GraphBoltFormatTest, ArraysOfSetsThatAreLeftOutAreNamed) {
  one_.Replace("metadata.yaml", "    - name: labels",
               "    - name: negative_dsts\n      format: numpy\n"
               "      path: set/train_set_seeds.npy\n    - name: labels");
  const auto graph = one_.Import();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(graph->warnings,
              Contains("\"negative_dsts\" of the task's sets is left out"));
}

TEST_F(GraphBoltFormatTest, OfSeveralTasksOneMustBeKept) {
  const std::string yaml = one_.Read("metadata.yaml");
  const std::string task = yaml.substr(yaml.find("- name: node_class"));
  one_.Write("metadata.yaml", yaml + task);
  ExpectInvalid(one_, "has several tasks over nodes: \"node_classification\"");
}

TEST_F(GraphBoltFormatTest, PathsThatLeadOutAreRefused) {
  one_.Replace("metadata.yaml", "edges/bond.csv", "../bond.csv");
  ExpectInvalid(one_, "must be relative to the dataset's folder");
  one_.Replace("metadata.yaml", "../bond.csv", "/etc/passwd");
  ExpectInvalid(one_, "must be relative to the dataset's folder");
}

TEST_F(GraphBoltFormatTest, UnknownTypesAreRefused) {
  several_.Replace("metadata.yaml", "author:writes:paper", "author:writes:x");
  ExpectInvalid(several_, "joins nodes of type \"x\"");
  several_.Replace("metadata.yaml", "author:writes:x", "author_writes_paper");
  ExpectInvalid(several_, "source:relation:destination is needed");
}

TEST_F(GraphBoltFormatTest, EdgesMustFit) {
  one_.Write("edges/bond.csv", "0,1\n2,30\n");
  ExpectInvalid(one_, "bond.csv: line 2: has id 30; node ids are 0 .. 29");
  one_.Write("edges/bond.csv", "0,1\n2,-1\n");
  ExpectInvalid(one_, "bond.csv: line 2: has id -1");
  one_.Write("edges/bond.csv", "0,1\nsrc,dst\n");
  ExpectInvalid(one_, "bond.csv: line 2, field 1");
  one_.Write("edges/bond.csv", "0,1,2\n");
  ExpectInvalid(one_, "bond.csv: line 1");
  several_.Replace("metadata.yaml", "num: 24", "num: 23");
  ExpectInvalid(several_, "node ids are 0 .. 22");
}

TEST_F(GraphBoltFormatTest, ASpoiledGraphIsRefused) {
  Prepare(several_, From::kPreprocessed);
  const std::string name = "preprocessed/fused_csc_sampling_graph.pt";
  const std::string graph = several_.Read(name);
  for (const size_t size :
       {size_t{0}, size_t{100}, graph.size() / 2, graph.size() - 1}) {
    several_.Write(name, graph.substr(0, size));
    const absl::Status status = several_.Import().status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("fused_csc_sampling_graph.pt"));
  }
  several_.Remove(name);
  ExpectInvalid(several_, "fused_csc_sampling_graph.pt: is missing");
}

TEST_F(GraphBoltFormatTest, MissingFilesAreNamed) {
  one_.Remove("set/test_set_seeds.npy");
  ExpectInvalid(one_, "test_set_seeds.npy: is missing");
  several_.Remove("data/author_feat.npy");
  ExpectInvalid(several_, "author_feat.npy: is missing");
}

}  // namespace
}  // namespace hearth::ingest
