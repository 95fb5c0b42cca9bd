#ifndef HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/dataset.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// How the rows of the constant buffer are chosen (GIDS, section 3.3).
enum class HotNodes {
  /// Weighted reverse PageRank from the training nodes.
  kReversePageRank,
  /// Number of nodes that have the node as an in-neighbor.
  kOutDegree,
  /// Number of batches of the first training epoch that need the node.
  kFrequency,
  kRandom,
  /// The order of GidsOptions::hot_file.
  kFile,
};

/// "reverse-pagerank", "out-degree", "frequency", "random" or "file".
constexpr absl::string_view Name(HotNodes hot) {
  switch (hot) {
    case HotNodes::kReversePageRank:
      return "reverse-pagerank";
    case HotNodes::kOutDegree:
      return "out-degree";
    case HotNodes::kFrequency:
      return "frequency";
    case HotNodes::kRandom:
      return "random";
    case HotNodes::kFile:
      return "file";
  }
  return "";
}

/// Options of strategy `gids`.
struct GidsOptions {
  /// Bytes of the constant buffer; absent: a tenth of all rows.
  std::optional<uint64_t> cpu_cache_bytes = std::nullopt;
  HotNodes hot = HotNodes::kReversePageRank;
  /// With HotNodes::kFile: the .npy file of node ids, the hottest first.
  std::string hot_file = {};
  /// Bytes of the window cache's lines; absent: the rows of four of the largest
  /// batches, at most all rows outside the constant buffer.
  std::optional<uint64_t> window_cache_bytes = std::nullopt;
  /// Bytes of the window cache's lines in the GPU's memory; 0: the lines are in
  /// host memory, window_cache_bytes of them.
  uint64_t gpu_cache_bytes = 0;
  /// Batches to look ahead: rows that the next `window` batches need stay in
  /// the window cache (section 3.4).
  int64_t window = 8;
  /// Batches whose reads overlap, at most (section 3.2).
  int64_t merge_max = 32;
  /// Memory of batches being read or waiting for assembly; 0 = the largest
  /// batch's need, twice that if the caches cannot hold all rows, and at least
  /// kLeastStaging.
  uint64_t staging_bytes = 0;
  /// Reads in flight, over all disks together; 0 = as many as a measurement
  /// finds best.
  int io_depth = 0;
  /// Rows are read from a copy striped over all data disks
  /// (StrategyResources::data_disks), instead of from the dataset's files.
  bool striped = false;

  static constexpr uint64_t kLeastStaging = uint64_t{64} << 20;

  bool operator==(const GidsOptions&) const = default;
};

/// GIDS: Park, Mailthody, Qureshi and Hwu, "Accelerating Sampling and
/// Aggregation Operations in GNN Frameworks with GPU Initiated Direct Storage
/// Accesses", PVLDB 17(6), 2024, with the CPU issuing the reads; see README.md.
/// See NewStrategy for lifetimes and errors. Prepare stripes the features if
/// asked to, measures the disks, and chooses and reads the rows of the constant
/// buffer. A pass is FAILED_PRECONDITION without Prepare, and ends with the
/// reads' error where rows cannot be read.
absl::StatusOr<std::unique_ptr<Strategy>> NewGidsStrategy(
    const GidsOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// The memory that it holds at most.
absl::StatusOr<MemoryEstimate> EstimateGidsMemory(const GidsOptions& options,
                                                  const MemoryBasis& basis);

/// Samples the first training pass and locates its rows: rows and reads are
/// exactly those of the first epoch.
absl::StatusOr<Forecast> ForecastGids(const GidsOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request);

MemoryEstimate EstimateGidsForecastMemory(const GidsOptions& options,
                                          const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in the order of
/// cutting.
std::vector<BudgetOf<GidsOptions>> GidsBudgets(const GidsOptions& options,
                                               const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_
