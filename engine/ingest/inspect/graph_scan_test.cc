#include "engine/ingest/inspect/graph_scan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/inspect/topology_scan.h"
#include "engine/store/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {

namespace {

TEST(DegreeCountsTest, IsExactBelowAndAboveWhatIsCountedInATable) {
  std::vector<uint64_t> degrees;
  for (uint64_t i = 0; i < 1003; ++i) degrees.push_back(i * i % 70'001 * 7);
  DegreeCounts counts;
  uint64_t sum = 0;
  for (const uint64_t degree : degrees) {
    counts.Add(degree);
    sum += degree;
  }
  std::sort(degrees.begin(), degrees.end());
  ASSERT_GT(degrees.back(), 65'536u);
  EXPECT_EQ(counts.Mean(), static_cast<double>(sum) / 1003);
  // Ranks 501.5 and 992.97, rounded up.
  EXPECT_EQ(counts.Percentile(50), degrees[501]);
  EXPECT_EQ(counts.Percentile(99), degrees[992]);
  EXPECT_EQ(counts.Percentile(100), degrees.back());
  EXPECT_EQ(counts.NumOf(0), 1u);
  EXPECT_EQ(counts.NumOf(degrees.back()),
            static_cast<uint64_t>(
                std::count(degrees.begin(), degrees.end(), degrees.back())));
  EXPECT_EQ(counts.NumOf(degrees.back() + 1), 0u);
}

TEST(DegreeCountsTest, HalfOfAnEvenNumberIsTheLowerMedian) {
  DegreeCounts counts;
  for (const uint64_t degree : {5, 1, 2, 9}) counts.Add(degree);
  EXPECT_EQ(counts.Percentile(50), 2u);
  EXPECT_EQ(counts.Percentile(99), 9u);
}

TEST(DegreeCountsTest, WithoutNodesAllIsZero) {
  const DegreeCounts counts;
  EXPECT_EQ(counts.Mean(), 0);
  EXPECT_EQ(counts.Percentile(50), 0u);
  EXPECT_EQ(counts.NumOf(0), 0u);
}

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Each test makes one thing just remarkable, then just not.
class WarningsTest : public testing::Test {
 protected:
  WarningsTest() {
    store::NodeTypeEntry nodes;
    nodes.name = "paper";
    nodes.num_nodes = 1000;
    nodes.features.path = "paper.features.npy";
    nodes.features.shape = {1000, 8};
    nodes.labels.path = "paper.labels.npy";
    nodes.train.path = "paper.train.npy";
    nodes.train.shape = {100};
    nodes.valid.path = "paper.valid.npy";
    nodes.test.path = "paper.test.npy";
    nodes.label_width = 4;
    manifest_.node_types = {nodes};
    store::EdgeTypeEntry edges;
    edges.name = "cites";
    edges.source_type = edges.destination_type = "paper";
    edges.num_edges = 10'001;
    manifest_.edge_types = {edges};
    statistics_.nodes.resize(1);
    statistics_.nodes[0].num_isolated = 0;
    statistics_.nodes[0].features.emplace();
    statistics_.edges.resize(1);
    statistics_.edges[0].homophily = 0.8;
    probes_.num_train_only_sources = 0;
    probes_.chance_homophily = 0.3;
  }

  std::vector<std::string> Find() const {
    return FindWarnings(manifest_, statistics_, {&probes_, 1});
  }
  void ExpectWarning(const std::string& text) const {
    EXPECT_THAT(Find(), ElementsAre(HasSubstr(text)));
  }
  void ExpectNone() const { EXPECT_THAT(Find(), IsEmpty()); }

  NodeStatistics& nodes() { return statistics_.nodes[0]; }
  FeatureStatistics& features() { return *statistics_.nodes[0].features; }

  store::Manifest manifest_;
  DatasetStatistics statistics_;
  NodeProbes probes_;
};

TEST_F(WarningsTest, AUsualGraphHasNone) { ExpectNone(); }

TEST_F(WarningsTest, TrainingNodesThatAreSourcesAlone) {
  probes_.num_train_only_sources = 51;
  ExpectWarning(
      "nodes \"paper\": 51 of 100 training nodes have edges from them but none "
      "to them");
  probes_.num_train_only_sources = 50;
  ExpectNone();
  probes_.num_train_only_sources.reset();
  ExpectNone();
}

TEST_F(WarningsTest, IsolatedNodes) {
  nodes().num_isolated = 501;
  ExpectWarning("nodes \"paper\": 501 of 1000 have no edge");
  nodes().num_isolated = 500;
  ExpectNone();
  nodes().num_isolated.reset();
  ExpectNone();
}

TEST_F(WarningsTest, TrainingNodesWithoutALabel) {
  probes_.num_train_unlabeled = 1;
  ExpectWarning("1 of 100 training nodes have no label");
  manifest_.node_types[0].labels.path.clear();
  ExpectNone();
}

TEST_F(WarningsTest, ClassesWithoutATrainingNode) {
  probes_.num_untrained_classes = 2;
  probes_.first_untrained_class = 7;
  ExpectWarning("2 classes that nodes have are not among the training nodes");
  EXPECT_THAT(Find()[0], HasSubstr("the first of them 7"));
  // There are no training nodes.
  manifest_.node_types[0].train = {};
  ExpectNone();
}

TEST_F(WarningsTest, PartsOfTheSplitThatAreNotThere) {
  manifest_.node_types[0].valid = {};
  ExpectWarning("nodes \"paper\": there are no validation nodes");
  manifest_.node_types[0].test = {};
  EXPECT_THAT(Find(),
              ElementsAre(HasSubstr("validation"), HasSubstr("test nodes")));
  // Without training nodes nothing is trained.
  manifest_.node_types[0].train = {};
  ExpectNone();
}

TEST_F(WarningsTest, ClassesWithoutNodes) {
  probes_.num_empty_classes = 1;
  ExpectWarning(
      "1 of 4 classes have no nodes, class 0: do the labels begin at 1?");
  probes_.num_empty_classes = 2;
  probes_.first_empty_class = 1;
  ExpectWarning(
      "2 of 4 classes have no nodes, the first of them class 1: the model has "
      "an output for each");
  manifest_.node_types[0].label_width = 256;
  nodes().class_counts.assign(256, 0);
  nodes().class_counts[255] = 40;
  ExpectWarning("class 255, of 40 nodes, may stand for no label");
}

TEST_F(WarningsTest, OneLabelEach) {
  probes_.one_label_each = true;
  ExpectWarning(
      "each has exactly one of 4 labels: are they classes (one-hot)?");
}

TEST_F(WarningsTest, LabelsAmongTheFeatures) {
  probes_.suspects.labels = {3};
  ExpectWarning(
      "the label of every labeled node is among its features (column 3)");
  // All labels are equal, and all values.
  features().constant_columns = {3};
  ExpectWarning("have one value throughout");
}

TEST_F(WarningsTest, NumbersOfTheNodesAmongTheFeatures) {
  probes_.suspects.row_numbers = {0};
  ExpectWarning("features hold the number of the node (column 0)");
}

TEST_F(WarningsTest, LabelsInThePlaceOfFeatures) {
  manifest_.node_types[0].features.shape = {1000, 1};
  probes_.suspects.whole_numbers = {0};
  ExpectWarning("the only feature is a small whole number throughout");
  // Counts of words are whole numbers.
  manifest_.node_types[0].features.shape = {1000, 2};
  probes_.suspects.whole_numbers = {0, 1};
  ExpectNone();
}

TEST_F(WarningsTest, ConstantColumns) {
  features().constant_columns = {0, 1, 2, 3, 4, 6};
  ExpectWarning(
      "6 of 8 features have one value throughout (columns 0, 1, 2, 3, 4, ...)");
  // Every column of a single node is constant.
  manifest_.node_types[0].num_nodes = 1;
  ExpectNone();
}

TEST_F(WarningsTest, AHeaderTakenForFeatures) {
  probes_.begins_like_npy = true;
  ExpectWarning("begins like an .npy file");
}

TEST_F(WarningsTest, RowsOfZeros) {
  features().num_zero_rows = 101;
  ExpectWarning("101 of 1000 have nothing but 0 as features");
  features().num_zero_rows = 100;
  ExpectNone();
}

TEST_F(WarningsTest, ValuesThatAreNotFinite) {
  features().num_non_finite = 1;
  ExpectWarning("1 feature values are NaN or infinite");
}

TEST_F(WarningsTest, HomophilyNotAboveChance) {
  statistics_.edges[0].homophily = 0.3;
  ExpectWarning(
      "edges \"cites\": 30.0% of them join nodes of one class, random ones "
      "would be 30.0%");
  manifest_.edge_types[0].num_edges = 10'000;
  ExpectNone();
  manifest_.edge_types[0].num_edges = 10'001;
  probes_.chance_homophily.reset();
  ExpectNone();
  probes_.chance_homophily = 0.3;
  statistics_.edges[0].homophily.reset();
  ExpectNone();
}

TEST_F(WarningsTest, NodesWithoutFeaturesAreNotJudgedByThem) {
  nodes().features.reset();
  probes_.begins_like_npy = true;
  ExpectNone();
}

}  // namespace

}  // namespace hearth::ingest
