#include "server/mapping/dataset_spec_mapping.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "engine/ingest/formats/formats.h"
#include "server/mapping/spec_mapping.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

v1::JobSpec Parse(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec))
      << text;
  return spec;
}

v1::JobSpec Fill(const std::string& text) {
  v1::JobSpec spec = Parse(text);
  const absl::Status status = FillAndValidate({.processors = 8}, spec);
  EXPECT_TRUE(status.ok()) << status;
  return spec;
}

TEST(DatasetSpecMappingTest, DefaultsOfAnImport) {
  const v1::ImportSpec spec =
      Fill("import { name: 'x' path: '/src' }").import();
  const ingest::ImportOptions options = ToImportOptions(spec, "/d/datasets/x");
  EXPECT_EQ(options.name, "x");
  EXPECT_EQ(options.source, "/src");
  EXPECT_EQ(options.destination, "/d/datasets/x");
  EXPECT_FALSE(options.in_place);
  EXPECT_EQ(options.memory_limit_bytes, uint64_t{1} << 30);
  EXPECT_FALSE(options.edges.add_reverse);
  EXPECT_EQ(options.edges.self_loops, ingest::SelfLoops::kKeep);
  EXPECT_EQ(options.non_finite, ingest::NonFinite::kRefuse);
  EXPECT_FALSE(options.fill_features);
  EXPECT_EQ(options.label_kind, std::nullopt);
  EXPECT_EQ(ToFormat(spec.format()), "");
  EXPECT_FALSE(ToFormatOptions(spec).edge_list.relabel);
  EXPECT_EQ(ToFormatOptions(spec).edge_list.has_header, std::nullopt);
  EXPECT_EQ(ToFormatOptions(spec).edge_list.source_column, "");
  EXPECT_EQ(ToFormatOptions(spec).graphbolt.labels, std::nullopt);
  EXPECT_EQ(ToFormatOptions(spec).igb.num_classes, 19);
}

TEST(DatasetSpecMappingTest, ACopyOfAnotherMembersDatasetHasNoDefaults) {
  const v1::JobSpec spec = Fill("import { name: 'x' from_member: 'host-b' }");
  EXPECT_EQ(spec.import().memory_limit_bytes(), 0u);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      spec, Fill(spec.DebugString())));
}

TEST(DatasetSpecMappingTest, ACopyMayKeepAShare) {
  for (const char* share : {"own", "1/1", "2/4", "1024/1024"}) {
    const v1::JobSpec spec = Fill(absl::StrCat(
        "import { name: 'x' from_member: 'b' share: '", share, "' }"));
    EXPECT_EQ(spec.import().share(), share);
  }
  EXPECT_EQ(ParseShare("2/4")->number, 2);
  EXPECT_EQ(ParseShare("2/4")->of, 4);
  EXPECT_FALSE(ParseShare("own").has_value());
}

TEST(DatasetSpecMappingTest, EveryOptionOfAnImport) {
  const v1::ImportSpec spec =
      Fill(R"pb(import {
                  name : 'x'
                  path : '/src'
                  format : IGB
                  in_place : true
                  memory_limit_bytes : 2000000
                  labels : TARGETS
                  edges {
                    add_reverse : true
                    remove_duplicates : true
                    self_loops : ADD_SELF_LOOPS
                  }
                  non_finite : KEEP_NON_FINITE
                  bfloat16_features : true
                  fill_features : MEAN_OF_NEIGHBORS
                  edge_list {
                    relabel : true
                    header : WITHOUT_HEADER
                    source_column : '2'
                    destination_column : 'to'
                  }
                  ogb { split : 'time' }
                  igb { num_classes : 2983 split_seed : 7 }
                })pb")
          .import();
  const ingest::ImportOptions options = ToImportOptions(spec, "/d");
  EXPECT_TRUE(options.in_place);
  EXPECT_EQ(options.memory_limit_bytes, 2000000u);
  EXPECT_EQ(options.label_kind, store::LabelKind::kTargets);
  EXPECT_TRUE(options.edges.add_reverse);
  EXPECT_TRUE(options.edges.remove_duplicates);
  EXPECT_EQ(options.edges.self_loops, ingest::SelfLoops::kAdd);
  EXPECT_EQ(options.non_finite, ingest::NonFinite::kKeep);
  EXPECT_TRUE(options.bfloat16_features);
  EXPECT_TRUE(options.fill_features);
  const ingest::FormatOptions format = ToFormatOptions(spec);
  EXPECT_TRUE(format.edge_list.relabel);
  EXPECT_EQ(format.edge_list.has_header, false);
  EXPECT_EQ(format.edge_list.source_column, "2");
  EXPECT_EQ(format.edge_list.destination_column, "to");
  EXPECT_EQ(format.graphbolt.labels, store::LabelKind::kTargets);
  EXPECT_EQ(format.ogb.split, "time");
  EXPECT_EQ(format.igb.num_classes, 2983);
  EXPECT_EQ(format.igb.split_seed, 7u);
}

TEST(DatasetSpecMappingTest, EveryFormatIsOneOfTheEngine) {
  std::vector<std::string> formats;
  for (int i = v1::Format_MIN; i <= v1::Format_MAX; ++i) {
    if (i == v1::FORMAT_UNSPECIFIED || !v1::Format_IsValid(i)) continue;
    formats.push_back(ToFormat(static_cast<v1::Format>(i)));
  }
  std::vector<std::string> known;
  for (const ingest::Format& format : ingest::Formats()) {
    known.emplace_back(format.name);
  }
  EXPECT_THAT(formats, UnorderedElementsAreArray(known));
}

TEST(DatasetSpecMappingTest, DefaultsOfAGeneratedGraph) {
  const v1::GenerateSpec spec =
      Fill("generate { name: 'g' num_nodes: 1000 num_edges: 5000 }").generate();
  const ingest::GenerateOptions options = ToGenerateOptions(spec);
  EXPECT_EQ(options.num_nodes, 1000);
  EXPECT_EQ(options.num_edges, 5000);
  EXPECT_EQ(options.feature_dim, 128);
  EXPECT_EQ(options.num_classes, 16);
  EXPECT_EQ(options.train_share, 0.1);
  EXPECT_EQ(std::get<ingest::CommunityGraph>(options.graph).inside, 0.8);
  EXPECT_EQ(spec.memory_limit_bytes(), uint64_t{1} << 30);
  EXPECT_EQ(ToImportOptions(spec, "/d/g").name, "g");
}

TEST(DatasetSpecMappingTest, EveryOptionOfAGeneratedGraph) {
  const ingest::GenerateOptions options =
      ToGenerateOptions(Fill(R"pb(generate {
                                    destination: '/out'
                                    format: OGB
                                    rmat { a: 0.5 b: 0.2 c: 0.2 }
                                    num_nodes: 1000
                                    num_edges: 5000
                                    undirected: true
                                    feature_dim: 7
                                    feature_dtype: 'bfloat16'
                                    num_classes: 3
                                    train_share: 0.2
                                    valid_share: 0.3
                                    test_share: 0.4
                                    seed: 9
                                  })pb")
                            .generate());
  EXPECT_EQ(std::get<ingest::RmatGraph>(options.graph).a, 0.5);
  EXPECT_TRUE(options.undirected);
  EXPECT_EQ(options.feature_dim, 7);
  EXPECT_EQ(options.feature_dtype, store::DType::kBFloat16);
  EXPECT_EQ(options.num_classes, 3);
  EXPECT_EQ(options.test_share, 0.4);
  EXPECT_EQ(options.seed, 9u);
}

TEST(DatasetSpecMappingTest, CommunitiesOfAGeneratedGraph) {
  const ingest::GenerateOptions options = ToGenerateOptions(
      Fill(R"pb(generate {
                  name: 'g'
                  num_nodes: 1000
                  num_edges: 5000
                  communities { inside: 0.9 exponent: 3 num_communities: 25 }
                })pb")
          .generate());
  const auto& graph = std::get<ingest::CommunityGraph>(options.graph);
  EXPECT_EQ(graph.inside, 0.9);
  EXPECT_EQ(graph.exponent, 3);
  EXPECT_EQ(graph.num_communities, 25);
}

struct BadSpec {
  const char* spec;
  const char* field;
};

void PrintTo(const BadSpec& bad, std::ostream* out) { *out << bad.spec; }

class BadDatasetSpecTest : public testing::TestWithParam<BadSpec> {};

TEST_P(BadDatasetSpecTest, IsRefusedNamingTheField) {
  v1::JobSpec spec = Parse(GetParam().spec);
  const absl::Status status = FillAndValidate({.processors = 8}, spec);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().field));
}

INSTANTIATE_TEST_SUITE_P(
    Specs, BadDatasetSpecTest,
    testing::Values(
        BadSpec{"import { name: 'x' path: '/a' memory_limit_bytes: 1000 }",
                "import.memory_limit_bytes"},
        BadSpec{"import { name: 'x' path: '/a' igb { num_classes: 20 } }",
                "import.igb.num_classes"},
        BadSpec{"import { name: 'x' path: '/a' in_place: true "
                "non_finite: ZERO_NON_FINITE }",
                "import.non_finite"},
        BadSpec{"import { name: 'x' path: '/a' edge_list { header: 7 } }",
                "import.edge_list.header"},
        BadSpec{"import { name: 'x' path: '/a' edge_list { source_column: '1' "
                "} }",
                "import.edge_list.destination_column"},
        BadSpec{"import { name: 'x' path: '/a' "
                "edge_list { destination_column: '1' } }",
                "import.edge_list.source_column"},
        BadSpec{"verify {}", "verify.dataset"},
        BadSpec{"verify { dataset: '../x' }", "verify.dataset"},
        BadSpec{"generate { num_nodes: 10 num_edges: 10 }", "generate.name"},
        BadSpec{"generate { name: 'x' destination: '/x' num_nodes: 10 "
                "num_edges: 10 }",
                "generate.name"},
        BadSpec{"generate { destination: 'x' num_nodes: 100 num_edges: 10 }",
                "generate.destination"},
        BadSpec{"generate { name: 'x' num_edges: 10 }", "generate"},
        BadSpec{"generate { name: 'x' num_nodes: 100 num_edges: 10 "
                "feature_dtype: 'int8' }",
                "generate.feature_dtype"},
        BadSpec{"generate { name: 'x' num_nodes: 100 num_edges: 10 "
                "train_share: 0.9 valid_share: 0.9 }",
                "generate"},
        BadSpec{"generate { name: 'x' num_nodes: 100 num_edges: 10 "
                "communities { num_communities: 7 } }",
                "num_communities is 7; it must be 0 .. 6"},
        BadSpec{"generate { name: 'x' num_nodes: 100 num_edges: 10 "
                "communities { num_communities: 18446744073709551615 } }",
                "generate.communities.num_communities"},
        BadSpec{"export_dataset { dataset: 'x' destination: 'rel' }",
                "export_dataset.destination"},
        BadSpec{"export_dataset { destination: '/a' }",
                "export_dataset.dataset"}));

}  // namespace
}  // namespace hearth::server
