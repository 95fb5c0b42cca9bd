#include "engine/sample/epoch_profile.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/node_columns.h"

namespace hearth::sample {
namespace {

using store::NodeId;

// Facts: seeds, rows, drawn neighbors, their pages, pages of a row, redundancy
// in shuffled order. Columns: features, sampled, gathered.
constexpr store::NodeColumnsKind kKind = {.name = "profile of an epoch",
                                          .version = 2,
                                          .num_facts = 6,
                                          .num_columns = 3};

}  // namespace

double EpochProfile::redundancy() const {
  return num_seeds == 0
             ? 0
             : static_cast<double>(num_rows) / static_cast<double>(num_seeds);
}

double EpochProfile::beta() const {
  if (num_drawn == 0 || row_pages == 0) return 1;
  return static_cast<double>(drawn_pages) / static_cast<double>(num_drawn) /
         static_cast<double>(row_pages);
}

std::vector<NodeId> EpochProfile::BestHistories(int64_t count,
                                                double beta) const {
  std::vector<NodeId> nodes(static_cast<size_t>(num_nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  const auto middle =
      nodes.begin() + std::clamp<int64_t>(count, 0, num_nodes());
  std::partial_sort(nodes.begin(), middle, nodes.end(),
                    [&](NodeId a, NodeId b) {
                      const double of_a = SavedByHistory(a, beta);
                      const double of_b = SavedByHistory(b, beta);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  nodes.erase(middle, nodes.end());
  nodes.shrink_to_fit();
  return nodes;
}

uint64_t EpochProfileBytes(int64_t num_nodes) {
  return store::NodeColumnsBytes(kKind, num_nodes);
}

absl::Status WriteEpochProfile(io::FileSystem& files, const std::string& path,
                               const EpochProfile& profile) {
  const std::array<double, 6> facts = {static_cast<double>(profile.num_seeds),
                                       static_cast<double>(profile.num_rows),
                                       static_cast<double>(profile.num_drawn),
                                       static_cast<double>(profile.drawn_pages),
                                       static_cast<double>(profile.row_pages),
                                       profile.shuffled_redundancy};
  const std::array<absl::Span<const float>, 3> columns = {
      profile.features, profile.sampled, profile.gathered};
  return store::WriteNodeColumns(files, path, kKind, facts, columns);
}

absl::StatusOr<EpochProfile> ReadEpochProfile(io::FileSystem& files,
                                              const std::string& path,
                                              int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      store::NodeColumns read,
      store::ReadNodeColumns(files, path, kKind, num_nodes));
  return EpochProfile{.num_seeds = static_cast<int64_t>(read.facts[0]),
                      .num_rows = static_cast<int64_t>(read.facts[1]),
                      .num_drawn = static_cast<int64_t>(read.facts[2]),
                      .drawn_pages = static_cast<int64_t>(read.facts[3]),
                      .row_pages = static_cast<int64_t>(read.facts[4]),
                      .shuffled_redundancy = read.facts[5],
                      .features = std::move(read.columns[0]),
                      .sampled = std::move(read.columns[1]),
                      .gathered = std::move(read.columns[2])};
}

}  // namespace hearth::sample
