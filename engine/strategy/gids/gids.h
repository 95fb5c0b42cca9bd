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
  /// By weighted reverse PageRank from the training nodes.
  kReversePageRank,
  /// By the number of nodes that have them as neighbors.
  kOutDegree,
  /// By the batches of the first training epoch that need them.
  kFrequency,
  kRandom,
  /// As a file lists them.
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

/// GIDS (Park et al., 2024): reads of several batches overlap, hot rows are in
/// memory for good, and a cache looks ahead.
struct GidsOptions {
  /// Rows of the constant buffer; absent: a tenth of the features.
  std::optional<uint64_t> cpu_cache_bytes = std::nullopt;
  HotNodes hot = HotNodes::kReversePageRank;
  /// The .npy file of kFile: nodes, the hottest first.
  std::string hot_file = {};
  /// Lines of the window cache; absent: the rows of four of the largest
  /// batches, at most those outside the constant buffer.
  std::optional<uint64_t> window_cache_bytes = std::nullopt;
  /// Its lines are so many bytes of a GPU's memory instead; 0: they are in the
  /// host's.
  uint64_t gpu_cache_bytes = 0;
  /// Batches behind the one being located whose rows stay (section 3.4).
  int64_t window = 8;
  /// Batches whose rows are read at a time, at most (section 3.2).
  int64_t merge_max = 32;
  /// Memory of those; 0 = at least kLeastStaging and what the largest batch
  /// needs, or twice that if the caches cannot hold all rows.
  uint64_t staging_bytes = 0;
  /// Reads in flight, of all disks; 0 = as many as a measurement finds best.
  int io_depth = 0;
  /// Rows are read from a copy that is striped over all data disks
  /// (StrategyResources::data_disks), instead of where the dataset has them.
  bool striped = false;

  static constexpr uint64_t kLeastStaging = uint64_t{64} << 20;

  bool operator==(const GidsOptions&) const = default;
};

/// GIDS: Park, Mailthody, Qureshi and Hwu, "Accelerating Sampling and
/// Aggregation Operations in GNN Frameworks with GPU Initiated Direct Storage
/// Accesses", PVLDB 17(6), 2024, with the CPU issuing the reads; see README.md.
/// See NewStrategy for lifetimes and errors. Prepare stripes the features where
/// that is asked for, chooses the rows of the constant buffer, reads them, and
/// measures the disks. A pass is
/// FAILED_PRECONDITION without it, and ends with the reads' error where rows
/// cannot be read.
absl::StatusOr<std::unique_ptr<Strategy>> NewGidsStrategy(
    const GidsOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources);

/// Memory that it holds at most.
absl::StatusOr<MemoryEstimate> EstimateGidsMemory(const GidsOptions& options,
                                                  const MemoryBasis& basis);

/// Samples the first training pass and locates its rows, so that rows and reads
/// are those of the first epoch.
absl::StatusOr<Forecast> ForecastGids(const GidsOptions& options,
                                      const ForecastContext& context,
                                      const ForecastRequest& request);

MemoryEstimate EstimateGidsForecastMemory(const GidsOptions& options,
                                          const MemoryBasis& basis);

/// Budgets that may be cut so that a job fits into memory, in this order.
std::vector<BudgetOf<GidsOptions>> GidsBudgets(const GidsOptions& options,
                                               const MemoryBasis& basis);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_GIDS_H_
