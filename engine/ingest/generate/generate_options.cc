#include "engine/ingest/generate/generate_options.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"

namespace hearth::ingest {
namespace {

// Sums of shares such as 0.1 are seldom exact.
constexpr double kRounding = 1e-9;

template <typename Number>
absl::Status CheckRange(absl::string_view what, Number value, Number least,
                        Number most) {
  // NaN is out of bounds, too.
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; it must be ", least, " .. ", most));
}

absl::Status Check(const RmatGraph& graph) {
  HEARTH_RETURN_IF_ERROR(CheckRange("a", graph.a, 0.0, 1.0));
  HEARTH_RETURN_IF_ERROR(CheckRange("b", graph.b, 0.0, 1.0));
  HEARTH_RETURN_IF_ERROR(CheckRange("c", graph.c, 0.0, 1.0));
  return CheckRange("a + b + c", graph.a + graph.b + graph.c, 0.0,
                    1.0 + kRounding);
}

absl::Status Check(const CommunityGraph& graph) {
  HEARTH_RETURN_IF_ERROR(CheckRange("inside", graph.inside, 0.0, 1.0));
  return CheckRange("exponent", graph.exponent, 2.1, 10.0);
}

// A community has at least one node of each class.
absl::Status CheckCommunities(const GenerateOptions& options) {
  const auto* graph = std::get_if<CommunityGraph>(&options.graph);
  if (graph == nullptr) return absl::OkStatus();
  return CheckRange("num_communities", graph->num_communities, int64_t{0},
                    options.num_nodes / options.num_classes);
}

absl::Status CheckShare(absl::string_view what, double share,
                        int64_t num_nodes) {
  HEARTH_RETURN_IF_ERROR(CheckRange(what, share, 0.0, 1.0));
  if (share * static_cast<double>(num_nodes) >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " is ", share, ": less than one of ", num_nodes, " nodes"));
}

std::string Describe(const RmatGraph& graph) {
  return absl::StrCat("R-MAT with a ", graph.a, ", b ", graph.b, ", c ",
                      graph.c);
}

std::string Describe(const CommunityGraph& graph) {
  return absl::StrCat(
      graph.num_communities > 0
          ? absl::StrCat(graph.num_communities, " communities of all classes")
          : "communities",
      " with ", graph.inside,
      " of the edges inside, degrees by a power law of exponent ",
      graph.exponent);
}

}  // namespace

absl::Status GenerateOptions::Validate() const {
  HEARTH_RETURN_IF_ERROR(
      std::visit([](const auto& kind) { return Check(kind); }, graph));
  const std::pair<absl::string_view, double> shares[] = {
      {"train_share", train_share},
      {"valid_share", valid_share},
      {"test_share", test_share}};
  HEARTH_RETURN_IF_ERROR(
      CheckRange("num_nodes", num_nodes, int64_t{1}, int64_t{1} << 35));
  HEARTH_RETURN_IF_ERROR(
      CheckRange("num_edges", num_edges, int64_t{1}, int64_t{1} << 48));
  if (undirected && num_edges % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_edges is ", num_edges,
        "; of an undirected graph it counts both directions and is even"));
  }
  HEARTH_RETURN_IF_ERROR(
      CheckRange("feature_dim", feature_dim, int64_t{1}, int64_t{65536}));
  if (feature_dtype != store::DType::kFloat32 &&
      feature_dtype != store::DType::kFloat16 &&
      feature_dtype != store::DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("features are float32, float16 or bfloat16, not ",
                     Name(feature_dtype)));
  }
  HEARTH_RETURN_IF_ERROR(
      CheckRange("num_classes", num_classes, int64_t{1}, int64_t{1'000'000}));
  if (num_classes > num_nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are more classes (", num_classes, ") than nodes (",
                     num_nodes, ")"));
  }
  HEARTH_RETURN_IF_ERROR(CheckCommunities(*this));
  double sum = 0;
  for (const auto& [what, share] : shares) {
    HEARTH_RETURN_IF_ERROR(CheckShare(what, share, num_nodes));
    sum += share;
  }
  return CheckRange("the sum of the shares", sum, 0.0, 1.0 + kRounding);
}

std::string GenerateOptions::Describe() const {
  return absl::StrCat(
      "generated: ",
      std::visit([](const auto& kind) { return ingest::Describe(kind); },
                 graph),
      "; ", num_nodes, " nodes, ", num_edges,
      undirected ? " undirected edges, " : " edges, ", feature_dim, " ",
      Name(feature_dtype), " features, ", num_classes, " classes; split ",
      train_share, "/", valid_share, "/", test_share, "; seed ", seed);
}

}  // namespace hearth::ingest
