#include "engine/job/data/passes.h"

#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/job/interface/train_job_options.h"
#include "engine/sample/seed_order.h"
#include "engine/store/manifest.h"
#include "engine/strategy/pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A dataset that has nothing but a manifest.
class ManifestOnly final : public store::Dataset {
 public:
  explicit ManifestOnly(store::Manifest manifest)
      : manifest_(std::move(manifest)) {}
  const store::Manifest& manifest() const override { return manifest_; }
  const std::string& path() const override { return manifest_.name; }
  absl::Status CheckUnchanged() const override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<store::LoadedTopology>> LoadTopology(
      store::TopologyResidency, const std::stop_token&, size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<store::StoredTopology> OpenTopology(
      const io::BlockDeviceOptions&, const std::stop_token&,
      size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<store::StoredFeatures> OpenFeatures(
      const io::BlockDeviceOptions&, size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<std::unique_ptr<store::LoadedFeatures>> LoadFeatures(
      store::Residency, const std::stop_token&, size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanFeatures(
      const std::stop_token&, size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<std::unique_ptr<store::RowChecksums>> LoadRowChecksums(
      const std::stop_token&, size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::Status VerifyFeatures(const std::stop_token&, size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<store::Labels> LoadLabels(size_t) const override {
    return absl::InternalError("not asked for");
  }
  absl::StatusOr<store::Split> LoadSplit(size_t) const override {
    return absl::InternalError("not asked for");
  }

 private:
  const store::Manifest manifest_;
};

store::Manifest Whole() {
  store::Manifest manifest;
  manifest.name = "graph";
  manifest.node_types.resize(1);
  manifest.node_types[0].name = "paper";
  manifest.node_types[0].features.path = "f";
  manifest.node_types[0].labels.path = "l";
  manifest.node_types[0].train.path = "t";
  manifest.edge_types.resize(1);
  manifest.edge_types[0].name = "cites";
  return manifest;
}

void ExpectLacks(const store::Manifest& manifest, const std::string& what) {
  const absl::Status status = CheckTrainable(ManifestOnly(manifest), {});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("dataset graph has no " + what));
}

TEST(CheckTrainableTest, ValidationAndTestMayBeMissing) {
  EXPECT_TRUE(CheckTrainable(ManifestOnly(Whole()), {}).ok());
}

TEST(CheckTrainableTest, SaysWhatIsLacking) {
  store::Manifest manifest = Whole();
  manifest.node_types[0].train.path.clear();
  ExpectLacks(manifest, "training nodes");
  manifest.node_types[0].labels.path.clear();
  ExpectLacks(manifest, "labels");
  manifest.node_types[0].features.path.clear();
  ExpectLacks(manifest, "features");
  manifest = Whole();
  manifest.edge_types.clear();
  ExpectLacks(manifest, "edges");
}

// Default options with a change.
template <typename Change>
BatchOptions Asking(Change change) {
  BatchOptions data;
  change(data);
  return data;
}

TEST(CheckTrainableTest, FeedsNeedNoLabels) {
  store::Manifest manifest = Whole();
  manifest.node_types[0].labels.path.clear();
  const BatchOptions feed =
      Asking([](BatchOptions& data) { data.needs_labels = false; });
  EXPECT_EQ(CheckTrainable(ManifestOnly(manifest), feed), absl::OkStatus());
  manifest.node_types[0].train.path.clear();
  EXPECT_TRUE(
      absl::IsFailedPrecondition(CheckTrainable(ManifestOnly(manifest), feed)));
}

// Papers cite papers, and authors write them.
store::Manifest Typed() {
  store::Manifest manifest = Whole();
  manifest.edge_types[0].name = "paper:cites:paper";
  manifest.edge_types[0].source_type = "paper";
  manifest.edge_types[0].destination_type = "paper";
  manifest.node_types.push_back(manifest.node_types[0]);
  manifest.node_types[1].name = "author";
  manifest.edge_types.push_back(manifest.edge_types[0]);
  manifest.edge_types[1].name = "author:writes:paper";
  manifest.edge_types[1].source_type = "author";
  return manifest;
}

TEST(CheckTrainableTest, LayersAreNotDrawnOfSeveralTypes) {
  const ManifestOnly dataset(Typed());
  EXPECT_EQ(CheckTrainable(dataset, {}), absl::OkStatus());
  const absl::Status status = CheckTrainable(
      dataset, Asking([](BatchOptions& data) { data.layer_nodes = {10}; }));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("node types paper, author and edge types "
                        "paper:cites:paper, author:writes:paper; layer_nodes"));
}

TEST(CheckTrainableTest, FanoutsOfEdgeTypesNeedSeveral) {
  const absl::Status status =
      CheckTrainable(ManifestOnly(Whole()), Asking([](BatchOptions& data) {
                       data.fanouts_of = {{"cites", {1, 2, 3}}};
                     }));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("fanouts_of: "));
}

TEST(CheckTrainableTest, EachTypeNeedsFeatures) {
  store::Manifest manifest = Typed();
  manifest.node_types[1].features.path.clear();
  ExpectLacks(manifest, "features of nodes of type \"author\"");
}

TEST(CheckTrainableTest, TheTargetIsTheFirstTypeThatCanBe) {
  store::Manifest manifest = Typed();
  manifest.node_types[0].labels.path.clear();
  EXPECT_EQ(CheckTrainable(ManifestOnly(manifest), {}), absl::OkStatus());
  manifest.node_types[1].train.path.clear();
  ExpectLacks(manifest, "labels of nodes of type \"paper\"");
}

TEST(FanoutsByTypeTest, NamesAnEdgeTypeByItsTripleOrRelation) {
  store::Manifest manifest = Typed();
  manifest.edge_types.push_back(manifest.edge_types[1]);
  manifest.edge_types[2].name = "author:writes:author";
  manifest.edge_types[2].destination_type = "author";
  const auto fanouts =
      FanoutsByType(manifest, Asking([](BatchOptions& data) {
                      data.fanouts_of = {{"author:writes:author", {1, 2}},
                                         {"cites", {3, -1}}};
                    }));
  ASSERT_TRUE(fanouts.ok()) << fanouts.status();
  EXPECT_THAT(*fanouts,
              ElementsAre(ElementsAre(3, -1), IsEmpty(), ElementsAre(1, 2)));
  EXPECT_THAT(*FanoutsByType(manifest, {}), IsEmpty());
  const absl::Status twice =
      FanoutsByType(
          manifest, Asking([](BatchOptions& data) {
            data.fanouts_of = {{"cites", {1}}, {"paper:cites:paper", {2}}};
          }))
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(twice)) << twice;
  EXPECT_THAT(std::string(twice.message()), HasSubstr("names it again"));
  const absl::Status status =
      FanoutsByType(manifest, Asking([](BatchOptions& data) {
                      data.fanouts_of = {{"reads", {1, 2}}};
                    }))
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no edge type \"reads\", but paper:cites:paper, "));
}

TEST(WithoutUnlabeledTest, LabeledNodesStayInTheirOrder) {
  const auto labels = store::Labels::Classes({0, -1, 1, 0, -1, 2}, 3);
  const auto split =
      WithoutUnlabeled({.train = {0, 1, 2}, .valid = {3}, .test = {4}}, labels);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->nodes.train, ElementsAre(0, 2));
  EXPECT_THAT(split->nodes.valid, ElementsAre(3));
  EXPECT_THAT(split->nodes.test, IsEmpty());
  EXPECT_THAT(split->warnings,
              ElementsAre("1 of 3 training nodes have no label: left out",
                          "1 of 1 test nodes have no label: left out"));
}

TEST(WithoutUnlabeledTest, KnowsEveryKindOfLabels) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  // Node 0 has none of the labels, node 1 is unlabeled.
  for (const auto& labels :
       {store::Labels::MultiLabel({4, 0}, 2, 2),
        store::Labels::Targets({0, 0, kNaN, kNaN}, 2, 2)}) {
    const auto split =
        WithoutUnlabeled({.train = {0}, .valid = {1}, .test = {}}, labels);
    ASSERT_TRUE(split.ok()) << split.status();
    EXPECT_THAT(split->nodes.train, ElementsAre(0));
    EXPECT_THAT(split->nodes.valid, IsEmpty());
  }
}

TEST(WithoutUnlabeledTest, SomeTrainingNodeMustRemain) {
  const auto labels = store::Labels::Classes({-1, 1}, 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      WithoutUnlabeled({.train = {0}, .valid = {1}, .test = {}}, labels)
          .status()));
}

// A file of nodes with this digest.
NodesFile FileOf(const std::string& sha256) {
  NodesFile file;
  file.sha256 = sha256;
  return file;
}

TEST(WithoutUnlabeledTest, NodesThatClientsChooseStay) {
  const auto labels = store::Labels::Classes({-1, 1, -1}, 2);
  OwnNodes own;
  own.train = own.test = FileOf("a");
  const auto split = WithoutUnlabeled(
      {.train = {0, 1}, .valid = {2}, .test = {2}}, labels, own);
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->nodes.train, ElementsAre(0, 1));
  EXPECT_THAT(split->nodes.valid, IsEmpty());
  EXPECT_THAT(split->nodes.test, ElementsAre(2));
  EXPECT_THAT(split->warnings,
              ElementsAre("1 of 1 validation nodes have no label: left out"));
}

TEST(CheckTrainableTest, TrainingNodesMayBeTheClients) {
  store::Manifest manifest = Whole();
  manifest.node_types[0].train.path.clear();
  BatchOptions data;
  data.own_nodes.train = NodesFile();
  EXPECT_EQ(CheckTrainable(ManifestOnly(manifest), data), absl::OkStatus());
}

// What is measured and planned for nodes must be found by them alone.
TEST(PassScheduleTest, PassesOverOwnNodesHaveTheirIdentity) {
  const auto identities = [](const OwnNodes& own) {
    BatchOptions data;
    data.own_nodes = own;
    const PassSchedule schedule(data, sample::NewShuffledOrder({1, 2}, 0), {3},
                                {4});
    std::vector<std::string> found;
    for (const strategy::Pass& pass : schedule.Kinds()) {
      found.push_back(pass.order->identity());
    }
    return found;
  };
  EXPECT_THAT(identities({}), ElementsAre("", "", ""));
  OwnNodes own;
  own.train = FileOf("a");
  EXPECT_THAT(identities(own), ElementsAre(";nodes a", "", ""));
  own = {};
  own.valid = FileOf("b");
  own.test = FileOf("c");
  EXPECT_THAT(identities(own), ElementsAre("", ";nodes b", ";nodes c"));
}

TEST(PassScheduleTest, ASequenceHasTheWholeJobAndWhatComesNext) {
  BatchOptions data;
  data.epochs = 3;
  data.distinct_epochs = 2;
  const PassSchedule schedule(data, sample::NewShuffledOrder({1, 2}, 0), {3},
                              {4});
  strategy::PassSequence sequence = schedule.SequenceOf(data, 1);
  // Two distinct training passes, validation and test.
  EXPECT_THAT(sequence.order, ElementsAre(0u, 1u, 2u, 1u, 0u, 1u, 3u));
  EXPECT_EQ(sequence.next, 2u);
  EXPECT_THAT(sequence.Rest().order, ElementsAre(2u, 1u, 0u, 1u, 3u));
  EXPECT_EQ(sequence.Rest().next, 0u);
  EXPECT_EQ(schedule.SequenceOf(data, 3).next, 6u) << "the test";
  EXPECT_EQ(schedule.SequenceOf(data, 0).next, 0u);
  // A job that begins with the second epoch's batches and goes on longer.
  data.epochs = 5;
  data.first_epoch_key = 1;
  EXPECT_THAT(schedule.SequenceOf(data, 2).order,
              ElementsAre(0u, 1u, 2u, 1u, 0u, 1u, 2u, 1u, 0u, 1u, 3u));
  EXPECT_EQ(schedule.SequenceOf(data, 2).passes[0].epoch_key, 1u);
}

TEST(OwnNodesTest, HaveNamesOfTheirOwn) {
  EXPECT_EQ(OwnNodes().Name(), "");
  std::set<std::string> names;
  for (std::optional<NodesFile> OwnNodes::*part :
       {&OwnNodes::train, &OwnNodes::valid, &OwnNodes::test}) {
    for (const char* sha256 : {"a", "b"}) {
      OwnNodes own;
      own.*part = FileOf(sha256);
      names.insert(own.Name());
    }
  }
  EXPECT_EQ(names.size(), 6u);
}

}  // namespace
}  // namespace hearth::job
