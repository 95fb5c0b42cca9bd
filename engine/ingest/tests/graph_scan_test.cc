#include "engine/ingest/inspect/graph_scan.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/tests/small_graphs_fixture.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::Contains;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;

class GraphScanTest : public testing::Test {
 protected:
  GraphScanTest() {
    options_.source = folder_.path();
    options_.name = "test";
    options_.destination = folder_.Destination();
  }

  /// Imports the folder and returns the statistics that were written.
  DatasetStatistics Import() {
    const auto result = ImportDataset(files_, {"numpy"}, options_, nullptr, {});
    EXPECT_TRUE(result.ok()) << result.status();
    return Load();
  }

  DatasetStatistics Load() {
    const auto statistics = LoadStatistics(files_, folder_.Destination());
    EXPECT_TRUE(statistics.ok() && statistics->has_value());
    EXPECT_TRUE(files_.RemoveTree(folder_.Destination()).ok());
    return **statistics;
  }

  /// Writes nodes of class 0 with one feature, and edges.
  void WriteGraph(int64_t num_nodes, const std::vector<int64_t>& sources,
                  const std::vector<int64_t>& destinations) {
    const std::string n = std::to_string(num_nodes);
    folder_.Write("edge_index.npy",
                  {.descr = "<i8",
                   .shape = "(2, " + std::to_string(sources.size()) + ")",
                   .data = store::Raw(sources) + store::Raw(destinations)});
    folder_.Write("node_feat.npy",
                  {.shape = "(" + n + ", 1)",
                   .data = store::Raw(std::vector<float>(num_nodes, 0.5f))});
    folder_.Write("node_label.npy", {.descr = "|i1",
                                     .shape = "(" + n + ",)",
                                     .data = std::string(num_nodes, '\0')});
  }

  store::NumpyFolder folder_;
  io::FileSystem& files_ = io::FileSystem::Posix();
  ImportOptions options_;
};

TEST_F(GraphScanTest, CountsTheUsualGraph) {
  const DatasetStatistics statistics = Import();
  ASSERT_EQ(statistics.nodes.size(), 1u);
  const NodeStatistics& nodes = statistics.nodes[0];
  EXPECT_EQ(nodes.type, "node");
  EXPECT_THAT(nodes.num_isolated, Optional(0u));
  EXPECT_EQ(nodes.num_unlabeled, 1u);
  EXPECT_THAT(nodes.class_counts, ElementsAre(2, 2, 1));
  ASSERT_TRUE(nodes.features.has_value());
  double sum = 0;
  for (const float value : store::NumpyFolder::Features()) sum += double{value};
  EXPECT_NEAR(nodes.features->mean, sum / 18, 1e-6);
  ASSERT_EQ(statistics.edges.size(), 1u);
  // In-degrees of the nodes: 1, 0, 4, 0, 1 and 1.
  const EdgeStatistics& edges = statistics.edges[0];
  EXPECT_EQ(edges.type, "edge");
  EXPECT_THAT(edges.mean_in_degree, DoubleEq(7.0 / 6));
  EXPECT_EQ(edges.median_in_degree, 1u);
  EXPECT_EQ(edges.percentile_99_in_degree, 4u);
  EXPECT_EQ(edges.max_in_degree, 4u);
  EXPECT_EQ(edges.num_without_in_edges, 2u);
  EXPECT_THAT(edges.num_without_out_edges, Optional(0u));
  EXPECT_EQ(edges.num_self_loops, 0u);
  // Five edges join labeled nodes, of different classes.
  EXPECT_THAT(edges.homophily, Optional(0.0));
  EXPECT_THAT(statistics.notes, IsEmpty());
  EXPECT_THAT(statistics.warnings,
              ElementsAre(HasSubstr("1 classes that nodes have are not among "
                                    "the training nodes, the first of them "
                                    "2")));
}

TEST_F(GraphScanTest, CountsSelfLoopsIsolatedNodesAndEqualClasses) {
  // Labels of the nodes: 0 0 1 1 1 -1. Nodes 3 and 4 have no edge.
  folder_.Write("node_label.npy",
                {.descr = "|i1",
                 .shape = "(6,)",
                 .data = store::Raw<int8_t>({0, 0, 1, 1, 1, -1})});
  folder_.Write("edge_index.npy",
                {.descr = "<i8",
                 .shape = "(2, 5)",
                 .data = store::Raw<int64_t>({0, 0, 2, 2, 5,  //
                                              1, 2, 2, 5, 0})});
  const DatasetStatistics statistics = Import();
  EXPECT_THAT(statistics.nodes[0].num_isolated, Optional(2u));
  const EdgeStatistics& edges = statistics.edges[0];
  EXPECT_EQ(edges.num_self_loops, 1u);
  EXPECT_THAT(edges.num_without_out_edges, Optional(3u));
  EXPECT_EQ(edges.num_without_in_edges, 2u);
  // Of 0 -> 1, 2 -> 2 and 0 -> 2, two join equal labels.
  EXPECT_THAT(edges.homophily, Optional(DoubleEq(2.0 / 3)));
}

TEST_F(GraphScanTest, IsTheSameAtAnyMemoryLimit) {
  std::vector<int64_t> sources, destinations;
  for (int64_t i = 0; i < 50'000; ++i) {
    sources.push_back(i * i % 9'973);
    destinations.push_back(i * 7 % 10'000);
  }
  WriteGraph(10'000, sources, destinations);
  const DatasetStatistics roomy = Import();
  options_.memory_limit_bytes = 1 << 20;
  EXPECT_EQ(Import(), roomy);
  EXPECT_EQ(roomy.edges[0].max_in_degree, 5u);
  EXPECT_THAT(roomy.edges[0].homophily, Optional(1.0));
  EXPECT_GT(roomy.edges[0].num_without_out_edges.value(), 4'000u);
}

TEST_F(GraphScanTest, WhatDoesNotFitIsNotCountedAndNoted) {
  // A quarter of 1 MiB holds three bits for about 699,000 nodes, or labels for
  // 65,536.
  options_.memory_limit_bytes = 1 << 20;
  WriteGraph(65'536, {0}, {1});
  EXPECT_THAT(Import().notes, IsEmpty());
  WriteGraph(65'537, {0}, {1});
  const DatasetStatistics without_labels = Import();
  EXPECT_THAT(without_labels.notes,
              ElementsAre(HasSubstr("the homophily of edges \"edge\"")));
  EXPECT_EQ(without_labels.edges[0].homophily, std::nullopt);
  EXPECT_THAT(without_labels.nodes[0].num_isolated, Optional(65'535u));
  WriteGraph(700'000, {0}, {1});
  const DatasetStatistics without_sets = Import();
  EXPECT_THAT(without_sets.notes, Contains(HasSubstr("isolated nodes")));
  EXPECT_EQ(without_sets.nodes[0].num_isolated, std::nullopt);
  EXPECT_EQ(without_sets.edges[0].num_without_out_edges, std::nullopt);
  EXPECT_EQ(without_sets.edges[0].num_without_in_edges, 699'999u);
}

TEST_F(GraphScanTest, CountsEachTypeOfAHeterogeneousGraph) {
  const auto result =
      ImportTwoTypes(files_, folder_.path(), folder_.Destination());
  ASSERT_TRUE(result.ok()) << result.status();
  const DatasetStatistics statistics = Load();
  ASSERT_EQ(statistics.nodes.size(), 2u);
  EXPECT_EQ(statistics.nodes[0].type, "author");
  // Only authors 0 and 3 have edges.
  EXPECT_THAT(statistics.nodes[0].num_isolated, Optional(4u));
  EXPECT_EQ(statistics.nodes[0].num_unlabeled, 6u);
  EXPECT_THAT(statistics.nodes[0].class_counts, IsEmpty());
  EXPECT_EQ(statistics.nodes[0].features, statistics.nodes[1].features);
  EXPECT_THAT(statistics.nodes[1].num_isolated, Optional(0u));
  ASSERT_EQ(statistics.edges.size(), 2u);
  EXPECT_EQ(statistics.edges[0].max_in_degree, 2u);
  EXPECT_THAT(statistics.edges[0].num_without_out_edges, Optional(4u));
  EXPECT_EQ(statistics.edges[0].homophily, std::nullopt);
  EXPECT_THAT(statistics.edges[1].homophily, Optional(0.0));
  EXPECT_THAT(statistics.warnings,
              Contains(HasSubstr("nodes \"author\": 4 of 6 have no edge")));
}

TEST_F(GraphScanTest, CountsMultiLabelsAndTargets) {
  options_.label_kind = store::LabelKind::kMultiLabel;
  folder_.Write(
      "node_label.npy",
      {.shape = "(6, 2)",
       .data = store::Raw<float>({1, 0, 1, 1, 0, 0, NAN, NAN, 0, 1, 1, 0})});
  NodeStatistics nodes = Import().nodes[0];
  EXPECT_THAT(nodes.class_counts, ElementsAre(3, 2));
  EXPECT_EQ(nodes.num_unlabeled, 1u);
  options_.label_kind = store::LabelKind::kTargets;
  nodes = Import().nodes[0];
  EXPECT_THAT(nodes.class_counts, IsEmpty());
  EXPECT_EQ(nodes.num_unlabeled, 1u);
}

TEST_F(GraphScanTest, FeaturesAreCountedAsTheyAreStored) {
  options_.non_finite = NonFinite::kZero;
  std::vector<double> values(18, 2);
  values[4] = NAN;
  folder_.Write(
      "node_feat.npy",
      {.descr = "<f8", .shape = "(6, 3)", .data = store::Raw(values)});
  const FeatureStatistics features = *Import().nodes[0].features;
  EXPECT_EQ(features.num_non_finite, 0u);
  EXPECT_EQ(features.num_zeros, 1u);
  EXPECT_EQ(features.max, 2);
  EXPECT_THAT(features.constant_columns, ElementsAre(0, 2));
}

TEST_F(GraphScanTest, FeaturesInPlaceAreCountedToo) {
  const DatasetStatistics copied = Import();
  options_.in_place = true;
  EXPECT_EQ(Import(), copied);
}

TEST_F(GraphScanTest, WarnsOfEdgesTheWrongWayRound) {
  // Training nodes 0 and 4 have out-edges only.
  const char* wrong = "2 of 2 training nodes have edges from them but none";
  folder_.Write("edge_index.npy",
                {.descr = "<i8",
                 .shape = "(2, 3)",
                 .data = store::Raw<int64_t>({0, 4, 0, 1, 2, 3})});
  EXPECT_THAT(Import().warnings, Contains(HasSubstr(wrong)));
  options_.edges.add_reverse = true;
  EXPECT_THAT(Import().warnings, Not(Contains(HasSubstr("none to them"))));
}

TEST_F(GraphScanTest, WarnsOfLabelsAmongTheFeatures) {
  // Node 5 has no label, but a feature.
  std::vector<float> values = {9, 0, 8, 1, 7, 2, 6, 0, 5, 1, 4, 3};
  folder_.Write("node_feat.npy",
                {.shape = "(6, 2)", .data = store::Raw(values)});
  EXPECT_THAT(Import().warnings,
              Contains(HasSubstr("is among its features (column 1)")));
  values[9] = 2;
  folder_.Write("node_feat.npy",
                {.shape = "(6, 2)", .data = store::Raw(values)});
  EXPECT_THAT(Import().warnings, Not(Contains(HasSubstr("among its"))));
}

TEST_F(GraphScanTest, WarnsOfAHeaderTakenForFeatures) {
  const std::string inner = store::ToBytes(
      {.shape = "(6, 3)", .data = store::Raw(store::NumpyFolder::Features())});
  std::string shifted = inner.substr(0, 18 * sizeof(float));
  folder_.Write("node_feat.npy", {.shape = "(6, 3)", .data = shifted});
  EXPECT_THAT(Import().warnings, Contains(HasSubstr("like an .npy file")));
  shifted[1] = 'M';
  folder_.Write("node_feat.npy", {.shape = "(6, 3)", .data = shifted});
  EXPECT_THAT(Import().warnings, Not(Contains(HasSubstr(".npy"))));
}

TEST_F(GraphScanTest, ItsFileIsAmongTheBytesWritten) {
  const auto result = ImportDataset(files_, {"numpy"}, options_, nullptr, {});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::string path =
      io::JoinPath(folder_.Destination(), DatasetStatistics::kFileName);
  const std::string text = *io::ReadWholeFile(files_, path, 1 << 20);
  EXPECT_TRUE(ParseStatistics(text, path).ok());
  EXPECT_EQ(result->bytes_written,
            text.size() + result->manifest.SizeBytes() +
                files_
                    .Stat(io::JoinPath(folder_.Destination(),
                                       store::Manifest::kFileName))
                    ->size_bytes);
}

}  // namespace
}  // namespace hearth::ingest
