#include "engine/ingest/generate/generate_options.h"

#include <cmath>
#include <functional>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

GenerateOptions Good() {
  GenerateOptions options;
  options.num_nodes = 1000;
  options.num_edges = 5000;
  return options;
}

struct Bad {
  std::function<void(GenerateOptions&)> spoil;
  std::string problem;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.problem; }

class BadOptionsTest : public testing::TestWithParam<Bad> {};

TEST_P(BadOptionsTest, AreRefused) {
  GenerateOptions options = Good();
  GetParam().spoil(options);
  const absl::Status status = options.Validate();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().problem));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptionsTest,
    testing::Values(
        Bad{[](auto& o) { o.num_nodes = 0; }, "num_nodes is 0"},
        Bad{[](auto& o) { o.num_nodes = (int64_t{1} << 35) + 1; },
            "it must be 1 .. 34359738368"},
        Bad{[](auto& o) { o.num_edges = 0; }, "num_edges is 0"},
        Bad{[](auto& o) { o.num_edges = int64_t{1} << 49; }, "num_edges is"},
        Bad{[](auto& o) {
              o.undirected = true;
              o.num_edges = 7;
            },
            "counts both directions"},
        Bad{[](auto& o) { o.feature_dim = 0; }, "feature_dim is 0"},
        Bad{[](auto& o) { o.feature_dim = 65537; }, "feature_dim is 65537"},
        Bad{[](auto& o) { o.feature_dtype = store::DType::kInt32; },
            "not int32"},
        Bad{[](auto& o) { o.num_classes = 0; }, "num_classes is 0"},
        Bad{[](auto& o) { o.num_classes = 1001; }, "more classes (1001)"},
        Bad{[](auto& o) { o.train_share = 0; }, "train_share is 0"},
        Bad{[](auto& o) { o.valid_share = 0.0001; },
            "valid_share is 0.0001: less than one of 1000 nodes"},
        Bad{[](auto& o) { o.test_share = NAN; }, "test_share is nan"},
        Bad{[](auto& o) { o.train_share = 0.95; }, "the sum of the shares"},
        Bad{[](auto& o) {
              o.graph = RmatGraph{-0.1, 0.5, 0.5};
            },
            "a is -0.1"},
        Bad{[](auto& o) {
              o.graph = RmatGraph{0.1, 1.5, 0};
            },
            "b is 1.5"},
        Bad{[](auto& o) {
              o.graph = RmatGraph{0.1, 0.1, NAN};
            },
            "c is nan"},
        Bad{[](auto& o) {
              o.graph = RmatGraph{0.5, 0.4, 0.3};
            },
            "a + b + c is 1.2"},
        Bad{[](auto& o) {
              o.graph = CommunityGraph{1.1, 2.5};
            },
            "inside is 1.1"},
        Bad{[](auto& o) {
              o.graph = CommunityGraph{0.5, 2};
            },
            "exponent is 2"},
        Bad{[](auto& o) { o.graph = CommunityGraph{.num_communities = 63}; },
            "num_communities is 63; it must be 0 .. 62"},
        Bad{[](auto& o) { o.graph = CommunityGraph{.num_communities = -1}; },
            "num_communities is -1"}));

TEST(GenerateOptionsTest, BoundsAreInclusive) {
  GenerateOptions options = Good();
  EXPECT_TRUE(options.Validate().ok());
  options.graph = RmatGraph{0.7, 0.2, 0.1};
  options.train_share = 0.8;
  options.valid_share = 0.1;
  options.test_share = 0.1;
  options.num_classes = 1000;
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  options.graph = CommunityGraph{1, 10, 1};
  options.num_nodes = int64_t{1} << 35;
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
}

TEST(GenerateOptionsTest, AreDescribed) {
  GenerateOptions options = Good();
  options.seed = 9;
  EXPECT_EQ(options.Describe(),
            "generated: R-MAT with a 0.57, b 0.19, c 0.19; 1000 nodes, 5000 "
            "edges, 128 float32 features, 16 classes; split 0.1/0.05/0.05; "
            "seed 9");
  options.graph = CommunityGraph{};
  options.undirected = true;
  EXPECT_THAT(options.Describe(),
              HasSubstr("communities with 0.8 of the edges inside"));
  EXPECT_THAT(options.Describe(), HasSubstr("5000 undirected edges"));
  options.graph = CommunityGraph{.num_communities = 30};
  EXPECT_THAT(options.Describe(),
              HasSubstr("30 communities of all classes with 0.8 of the edges"));
}

}  // namespace
}  // namespace hearth::ingest
