#include "engine/strategy/diskgnn/layout/popularity_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"

namespace hearth::strategy {
namespace {

// Points of the grid of probabilities, the smallest a fraction of one access in
// all batches; rounds of the estimation, which converges long before.
constexpr int kGridPoints = 160;
constexpr double kLeastAccesses = 0.05;
constexpr int kRounds = 400;

// A range around `mean` with nearly all mass of a distribution no wider than
// Poisson's.
struct Window {
  int64_t begin;
  int64_t end;
};

Window Around(double mean, int64_t last) {
  const double width = 9 * std::sqrt(mean + 1) + 9;
  return {
      std::max<int64_t>(0, static_cast<int64_t>(std::floor(mean - width))),
      std::min(last + 1, static_cast<int64_t>(std::ceil(mean + width)) + 1)};
}

std::vector<double> LogFactorials(int64_t last) {
  std::vector<double> logs(static_cast<size_t>(last) + 1, 0);
  for (int64_t i = 2; i <= last; ++i) {
    logs[i] = logs[i - 1] + std::log(static_cast<double>(i));
  }
  return logs;
}

std::vector<double> Grid(int64_t total) {
  std::vector<double> grid = {0};
  const double least = kLeastAccesses / static_cast<double>(total);
  for (int i = 0; i < kGridPoints; ++i) {
    grid.push_back(std::pow(least, 1 - i / (kGridPoints - 1.0)));
  }
  grid.back() = 1;
  return grid;
}

// Binomial probability of k of n.
double Binomial(double log_choose, int64_t n, int64_t k, double p) {
  if (p <= 0) return k == 0 ? 1 : 0;
  if (p >= 1) return k == n ? 1 : 0;
  return std::exp(log_choose + static_cast<double>(k) * std::log(p) +
                  static_cast<double>(n - k) * std::log1p(-p));
}

// The number of nodes with each probability of `grid`, if `seen[k]` nodes were
// in k batches.
std::vector<double> Estimate(const std::vector<double>& seen,
                             const std::vector<double>& grid,
                             const std::vector<double>& log_factorials) {
  const auto n = std::ssize(seen) - 1;
  // For each k that occurs: the number of nodes, and the likelihood under each
  // p.
  std::vector<double> counts;
  std::vector<std::vector<double>> likelihoods;
  double all = 0;
  for (int64_t k = 0; k <= n; ++k) {
    if (seen[k] == 0) continue;
    all += seen[k];
    counts.push_back(seen[k]);
    const double log_choose =
        log_factorials[n] - log_factorials[k] - log_factorials[n - k];
    std::vector<double>& of_k = likelihoods.emplace_back();
    for (const double p : grid) of_k.push_back(Binomial(log_choose, n, k, p));
  }
  std::vector<double> nodes(grid.size(),
                            all / static_cast<double>(grid.size()));
  std::vector<double> next(grid.size());
  for (int round = 0; round < kRounds; ++round) {
    std::fill(next.begin(), next.end(), 0);
    for (size_t i = 0; i < counts.size(); ++i) {
      double sum = 0;
      for (size_t j = 0; j < grid.size(); ++j) {
        sum += nodes[j] * likelihoods[i][j];
      }
      if (sum <= 0) continue;
      const double factor = counts[i] / sum;
      for (size_t j = 0; j < grid.size(); ++j) {
        next[j] += factor * nodes[j] * likelihoods[i][j];
      }
    }
    nodes.swap(next);
  }
  return nodes;
}

}  // namespace

namespace {

std::vector<double> SeenOf(const plan::AccessCounts& counts, int64_t sampled) {
  std::vector<double> seen(static_cast<size_t>(sampled) + 1, 0);
  for (store::NodeId node = 0; node < counts.num_nodes(); ++node) {
    ++seen[std::min(counts.Of(node), sampled)];
  }
  return seen;
}

}  // namespace

PopularityModel::PopularityModel(const plan::AccessCounts& counts,
                                 int64_t sampled, int64_t total)
    : PopularityModel(SeenOf(counts, sampled), total) {}

PopularityModel::PopularityModel(const std::vector<double>& seen, int64_t total)
    : total_(total), log_factorials_(LogFactorials(total)) {
  const std::vector<double> grid = Grid(total);
  Extrapolate(grid, Estimate(seen, grid, log_factorials_));
  // The number of accesses needs no model: it is scaled from the sample, and
  // the model's nodes are scaled to it.
  const auto sampled = std::ssize(seen) - 1;
  double accesses = 0;
  for (int64_t k = 1; k <= sampled; ++k) {
    accesses += static_cast<double>(k) * seen[k];
  }
  const double wanted =
      accesses * static_cast<double>(total) / static_cast<double>(sampled);
  double found = 0;
  for (int64_t k = 1; k <= total; ++k) {
    found += static_cast<double>(k) * nodes_[k];
  }
  if (found > 0) {
    for (double& nodes : nodes_) nodes *= wanted / found;
  }
  num_accesses_ = wanted;
}

void PopularityModel::Extrapolate(const std::vector<double>& grid,
                                  const std::vector<double>& nodes) {
  nodes_.assign(static_cast<size_t>(total_) + 1, 0);
  for (size_t j = 0; j < grid.size(); ++j) {
    const Window window = Around(grid[j] * static_cast<double>(total_), total_);
    for (int64_t k = window.begin; k < window.end; ++k) {
      nodes_[k] +=
          nodes[j] * Binomial(LogChoose(total_, k), total_, k, grid[j]);
    }
  }
}

std::vector<double> PopularityModel::BelowMemory(double memory_rows,
                                                 double& held) const {
  std::vector<double> below = nodes_;
  held = 0;
  for (int64_t k = total_; k > 0 && memory_rows > 0; --k) {
    const double taken = std::min(below[k], memory_rows);
    below[k] -= taken;
    memory_rows -= taken;
    held += taken * static_cast<double>(k);
  }
  return below;
}

std::vector<double> PopularityModel::InSegment(const std::vector<double>& nodes,
                                               int64_t segment_size) const {
  std::vector<double> in_segment(static_cast<size_t>(segment_size) + 1, 0);
  const double part =
      static_cast<double>(segment_size) / static_cast<double>(total_);
  for (int64_t k = 1; k <= total_; ++k) {
    if (nodes[k] < 1e-9) continue;
    // The hypergeometric distribution.
    const Window window =
        Around(part * static_cast<double>(k), std::min(segment_size, k));
    const double log_all = LogChoose(total_, k);
    for (int64_t j = window.begin; j < window.end; ++j) {
      if (k - j > total_ - segment_size) continue;
      in_segment[j] +=
          nodes[k] *
          std::exp(LogChoose(segment_size, j) +
                   LogChoose(total_ - segment_size, k - j) - log_all);
    }
  }
  return in_segment;
}

PopularityModel::Rows PopularityModel::ForecastRows(
    int64_t memory_rows, int64_t segment_size, int64_t max_cache_rows) const {
  Rows rows;
  const std::vector<double> below =
      BelowMemory(static_cast<double>(memory_rows), rows.cpu);
  const std::vector<double> in_segment = InSegment(below, segment_size);
  const double segments =
      static_cast<double>(total_) / static_cast<double>(segment_size);
  double free_rows = max_cache_rows == Segmentation::kUnbounded
                         ? HUGE_VAL
                         : static_cast<double>(max_cache_rows) / segments;
  for (int64_t j = segment_size; j > 1; --j) {
    const double cached = std::min(free_rows, in_segment[j]);
    free_rows -= cached;
    rows.disk_cache += cached * segments;
    rows.disk += cached * static_cast<double>(j) * segments;
  }
  rows.packed = std::max(0.0, num_accesses_ - rows.cpu - rows.disk);
  return rows;
}

uint64_t PopularityModel::MemoryBytes(int64_t total) {
  // Two lists are members; two more exist during a forecast.
  return 4 * sizeof(double) * (static_cast<uint64_t>(total) + 1) + (4 << 20);
}

}  // namespace hearth::strategy
