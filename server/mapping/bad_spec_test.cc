// Specs out of bounds, each with the field that the refusal names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/spec_fixture.h"
#include "server/mapping/spec_mapping.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

struct BadSpec {
  std::string name;
  std::string spec;
  std::string field;
};

class BadSpecTest : public testing::TestWithParam<BadSpec> {};

TEST_P(BadSpecTest, NamesTheField) {
  v1::JobSpec spec = Parse(GetParam().spec);
  const absl::Status status = FillAndValidate(kLimits, spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(GetParam().field, ": must")));
  ASSERT_TRUE(status.GetPayload(kBadRequestTypeUrl).has_value());
  EXPECT_THAT(std::string(*status.GetPayload(kBadRequestTypeUrl)),
              HasSubstr(GetParam().field));
}

INSTANTIATE_TEST_SUITE_P(
    AllBounds, BadSpecTest,
    testing::Values(
        BadSpec{"FeedWithoutADataset", "feed { data { memory {} } }",
                "feed.data.dataset"},
        BadSpec{"FeedWithFewCredits", Feed("", "credits: 2"), "feed.credits"},
        BadSpec{"FeedWithManyCredits", Feed("", "credits: 17"), "feed.credits"},
        BadSpec{"FeedThatPreparesUnknownEpochs",
                "feed { data { dataset: 'x' ginex {} } }",
                "feed.data.distinct_epochs"},
        BadSpec{"FeedForTooManyTrainers", Feed("trainers: 17", ""),
                "feed.data.trainers"},
        BadSpec{"FeedWithARefresh", Feed("refresh_epochs: 2", ""),
                "feed.data.refresh_epochs"},
        BadSpec{"FeedWithAHistory", Feed("on {}", ""), "feed.data.history"},
        BadSpec{"FeedSampledOnAGpu", Feed("", "pipeline { sample_on: 'gpu' }"),
                "feed.pipeline.sample_on"},
        BadSpec{"FeedWithAnEmptyBatch", Feed("neighbor { fanouts: 0 }", ""),
                "feed.data.neighbor.fanouts[0]"},
        BadSpec{"FeedWithNodesOfNoSplit", Feed("", Nodes("all", 1, 'a')),
                "feed.nodes[0].split"},
        BadSpec{"FeedWithNodesTwice",
                Feed("", Nodes("test", 1, 'a') + Nodes("test", 2, 'b')),
                "feed.nodes[1].split"},
        BadSpec{"FeedWithNoNodes", Feed("", Nodes("train", 0, 'a')),
                "feed.nodes[0].count"},
        BadSpec{"FeedWithNodesWithoutADigest", Feed("", Nodes("train", 1, 'A')),
                "feed.nodes[0].sha256"},
        BadSpec{"UnknownPrecision", Train("", "sage {} precision: 'fp8'"),
                "train.trains[0].precision"},
        BadSpec{"UnknownDevice", Train("", "sage {} device: 'gpu'"),
                "train.trains[0].device"},
        BadSpec{"DeviceWithoutNumber", Train("", "sage {} device: 'cuda:'"),
                "train.trains[0].device"},
        BadSpec{"DeviceOfNegativeNumber",
                Train("", "sage {} device: 'cuda:-1'"),
                "train.trains[0].device"},
        BadSpec{"TrainersOnAGpu",
                Train("trainers: 2", "sage {} device: 'cuda'"),
                "train.data.trainers"},
        BadSpec{"HistoryOnAGpu",
                Train("on { staleness: 4 }", "sage {} device: 'cuda'"),
                "train.data.history"},
        BadSpec{"Bfloat16OnAGpu",
                Train("", "sage {} device: 'cuda' precision: 'bf16'"),
                "train.trains[0].precision"},
        BadSpec{"NoModelOnAGpu", Train("", "none {} device: 'cuda'"),
                "train.trains[0].device"},
        BadSpec{"SampledOnAnUnknownPlace",
                "train { data { dataset: 'x' memory {} } trains { sage {} "
                "device: 'cuda' } pipeline { sample_on: 'cuda' } }",
                "train.pipeline.sample_on"},
        BadSpec{"SampledOnAGpuThatDoesNotTrain",
                "train { data { dataset: 'x' memory {} } trains { sage {} } "
                "pipeline { sample_on: 'gpu' } }",
                "train.pipeline.sample_on"},
        BadSpec{"SampledOnAGpuBeforehand",
                "train { data { dataset: 'x' ginex {} } trains { sage {} "
                "device: 'cuda' } pipeline { sample_on: 'gpu' } }",
                "train.pipeline.sample_on"},
        BadSpec{"LayersSampledOnAGpu",
                "train { data { dataset: 'x' memory {} ladies { layer_nodes: 5 "
                "} } trains { sage {} device: 'cuda' } pipeline { sample_on: "
                "'gpu' } }",
                "train.pipeline.sample_on"},
        BadSpec{"SubgraphsSampledOnAGpu",
                "train { data { dataset: 'x' memory {} subgraph {} } trains { "
                "sage {} device: 'cuda' } pipeline { sample_on: 'gpu' } }",
                "train.pipeline.sample_on"},
        BadSpec{"PreparedOnAGpu",
                "prepare { data { dataset: 'x' gids {} } pipeline { sample_on: "
                "'gpu' } }",
                "prepare.pipeline.sample_on"},
        BadSpec{"UnknownMetric", Train("", "sage {} metric: 'auc'"),
                "train.trains[0].metric"},
        BadSpec{"WeightOfZero",
                Train("", "sage {} class_weights { values: [ 1, 0 ] }"),
                "train.trains[0].class_weights.values[1]"},
        BadSpec{"WeightOfNaN",
                Train("", "sage {} class_weights { values: [ nan ] }"),
                "train.trains[0].class_weights.values[0]"},
        BadSpec{"NoName", "import { path: '/a' }", "import.name"},
        BadSpec{"PathTrick", "import { name: '../x' path: '/a' }",
                "import.name"},
        BadSpec{"HiddenName", "import { name: '.x' path: '/a' }",
                "import.name"},
        BadSpec{"TemporaryName", "import { name: 'x.tmp' path: '/a' }",
                "import.name"},
        BadSpec{"LongName",
                absl::StrCat("import { name: '", std::string(129, 'x'),
                             "' path: '/a' }"),
                "import.name"},
        BadSpec{"RelativeSource", "import { name: 'x' path: 'a' }",
                "import.path"},
        BadSpec{"NoSource", "import { name: 'x' }", "import.path"},
        BadSpec{"NulInSource", "import { name: 'x' path: '/a\\000b' }",
                "import.path"},
        BadSpec{"LongSource",
                absl::StrCat("import { name: 'x' path: '/",
                             std::string(4096, 'x'), "' }"),
                "import.path"},
        BadSpec{"NoJob", "export { destination: '/a' }", "export.job_id"},
        BadSpec{"RelativeDestination",
                "export { job_id: 'train-1' destination: 'a' }",
                "export.destination"},
        BadSpec{"NoDataset", "train { data { mmap {} } trains { sage {} } }",
                "train.data.dataset"},
        BadSpec{"NoStrategy",
                "train { data { dataset: 'a' } trains { sage {} } }",
                "train.data.strategy"},
        BadSpec{"NoTrain", "train { data { dataset: 'a' mmap {} } }",
                "train.trains"},
        BadSpec{"NoModel", Train("", ""), "train.trains[0].model"},
        BadSpec{"BatchSize", Train("batch_size: 1048577", "sage {}"),
                "train.data.batch_size"},
        BadSpec{"Trainers", Train("trainers: 17", "sage {}"),
                "train.data.trainers"},
        BadSpec{"TrainersWithoutSeeds",
                Train("batch_size: 3 trainers: 4", "sage {}"),
                "train.data.trainers"},
        BadSpec{"Epochs", Train("epochs: 100001", "sage {}"),
                "train.data.epochs"},
        BadSpec{"DistinctEpochs", Train("distinct_epochs: 100001", "sage {}"),
                "train.data.distinct_epochs"},
        BadSpec{"FirstEpochKey",
                Train("first_epoch_key: 2 distinct_epochs: 2", "sage {}"),
                "train.data.first_epoch_key"},
        BadSpec{
            "FirstEpochKeyOfMoreEpochs",
            Train("first_epoch_key: 1 epochs: 2 distinct_epochs: 3", "sage {}"),
            "train.data.first_epoch_key"},
        BadSpec{"FirstEpochKeyWithRefresh",
                Train("first_epoch_key: 1 refresh_epochs: 2", "sage {}"),
                "train.data.first_epoch_key"},
        BadSpec{"TooManyFanouts", Train(Fanouts(17), "sage {}"),
                "train.data.neighbor.fanouts"},
        BadSpec{"ZeroFanout",
                Train("neighbor { fanouts: [ 5, 5, 0 ] }", "sage {}"),
                "train.data.neighbor.fanouts[2]"},
        BadSpec{"NegativeFanout",
                Train("neighbor { fanouts: [ 5, -2 ] }", "sage {}"),
                "train.data.neighbor.fanouts[1]"},
        BadSpec{"ZeroLayerNodes",
                Train("ladies { layer_nodes: [ 5, 0 ] }", "sage {}"),
                "train.data.ladies.layer_nodes[1]"},
        BadSpec{"LadiesWithAHistory",
                Train("ladies { layer_nodes: [ 5, 5 ] } on {}", "sage {}"),
                "train.data.history"},
        BadSpec{"LadiesForShards",
                Train("ladies { layer_nodes: 5 } trainers: 2", "sage {}"),
                "train.data.trainers"},
        BadSpec{"LadiesForAttention",
                Train("ladies { layer_nodes: 5 }", "gat {}"),
                "train.trains[0].model"},
        BadSpec{"ZeroFanoutOfASubgraph",
                Train("subgraph { fanouts: [ 5, 0 ] }", "sage {}"),
                "train.data.subgraph.fanouts[1]"},
        BadSpec{"SubgraphWithAHistory",
                Train("subgraph { fanouts: [ 5, 5 ] } on {}", "sage {}"),
                "train.data.history"},
        BadSpec{"HugeFanout", Train("neighbor { fanouts: 1048577 }", "sage {}"),
                "train.data.neighbor.fanouts[0]"},
        BadSpec{"SageHidden", Train("", "sage { hidden: 65537 }"),
                "train.trains[0].sage.hidden"},
        BadSpec{"GcnHidden", Train("", "gcn { hidden: 65537 }"),
                "train.trains[0].gcn.hidden"},
        BadSpec{"GinHidden", Train("", "gin { hidden: 65537 }"),
                "train.trains[0].gin.hidden"},
        BadSpec{"GatHidden", Train("", "gat { hidden: 65540 }"),
                "train.trains[0].gat.hidden"},
        BadSpec{"GatHeads", Train("", "gat { hidden: 1025 heads: 1025 }"),
                "train.trains[0].gat.heads"},
        BadSpec{"GatMultiple", Train("", "gat { hidden: 33 heads: 2 }"),
                "train.trains[0].gat.hidden"},
        BadSpec{"Gatv2Multiple", Train("", "gatv2 { hidden: 33 heads: 2 }"),
                "train.trains[0].gatv2.hidden"},
        BadSpec{"Dropout", Train("", "sage {} dropout: 1"),
                "train.trains[0].dropout"},
        BadSpec{"NegativeDropout", Train("", "sage {} dropout: -0.1"),
                "train.trains[0].dropout"},
        BadSpec{"NanDropout", Train("", "sage {} dropout: nan"),
                "train.trains[0].dropout"},
        BadSpec{"Patience", Train("", "sage {} patience: 100001"),
                "train.trains[0].patience"},
        BadSpec{"TrainThreads", Train("", "sage {} train_threads: 9"),
                "train.trains[0].train_threads"},
        BadSpec{"AdamRate", Train("", "sage {} adam { learning_rate: -1 }"),
                "train.trains[0].adam.learning_rate"},
        BadSpec{"NanRate", Train("", "sage {} adam { learning_rate: nan }"),
                "train.trains[0].adam.learning_rate"},
        BadSpec{"AdamWRate", Train("", "sage {} adamw { learning_rate: inf }"),
                "train.trains[0].adamw.learning_rate"},
        BadSpec{"AdamWDecay", Train("", "sage {} adamw { weight_decay: -1 }"),
                "train.trains[0].adamw.weight_decay"},
        BadSpec{"SgdDecay", Train("", "sage {} sgd { weight_decay: inf }"),
                "train.trains[0].sgd.weight_decay"},
        BadSpec{"ClipNorm", Train("", "sage {} clip_norm: -1"),
                "train.trains[0].clip_norm"},
        BadSpec{"Warmup", Train("epochs: 3", "sage {} warmup_epochs: 3"),
                "train.trains[0].warmup_epochs"},
        BadSpec{"LeastRate",
                Train("", "sage {} cosine { min_learning_rate: 0.004 }"),
                "train.trains[0].cosine.min_learning_rate"},
        BadSpec{"Gamma", Train("", "sage {} step { gamma: 1.5 }"),
                "train.trains[0].step.gamma"},
        BadSpec{"Momentum", Train("", "sage {} sgd { momentum: 1 }"),
                "train.trains[0].sgd.momentum"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace hearth::server
