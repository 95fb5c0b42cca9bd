#ifndef HEARTH_ENGINE_STRATEGY_MEMORY_ESTIMATE_H_
#define HEARTH_ENGINE_STRATEGY_MEMORY_ESTIMATE_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/manifest.h"
#include "engine/store/row_format.h"
#include "engine/strategy/batch_bound.h"
#include "engine/strategy/pass.h"

namespace hearth::strategy {

/// The memory that a share is a part of: the host's, or that of a GPU.
struct MemoryPlace {
  /// The GPU's number; absent: the host's memory.
  std::optional<int> gpu = {};

  auto operator<=>(const MemoryPlace&) const = default;
};

/// The memory of the GPU that keeps rows (StrategyResources::gpu): the first.
inline constexpr MemoryPlace kRowsOnGpu = {.gpu = 0};

/// The part of a job in which a share is held. Shares of all phases add up.
enum class MemoryPhase { kThroughout };

/// Memory for one purpose.
struct MemoryShare {
  /// "topology", "features", "cache", "staging", "batches", "pins",
  /// "buffers", ...: one of a few.
  std::string owner;
  uint64_t bytes = 0;
  /// Whether it stays in use between passes, and is worth keeping for the next
  /// job.
  bool kept = false;
  MemoryPhase phase = MemoryPhase::kThroughout;
  MemoryPlace place = {};
};

/// An upper bound of what something holds in memory, by purpose. Mapped files
/// do not count: their pages are the kernel's.
struct MemoryEstimate {
  std::vector<MemoryShare> shares;

  void Add(std::string owner, uint64_t bytes, bool kept = false,
           MemoryPlace place = {});
  /// Bytes of all shares at a place.
  uint64_t TotalBytes(MemoryPlace place = {}) const;
};

/// "cache 1 GiB, topology 500 MiB, ...", the shares at a place, the largest
/// first; nothing of shares without bytes.
std::string FormatShares(const MemoryEstimate& estimate,
                         MemoryPlace place = {});

/// The facts that the estimate of a strategy follows from.
struct MemoryBasis {
  const store::Manifest& manifest;
  PipelineOptions pipeline;
  BatchBound batches;
  /// Shards of each batch; `batches` is how large a shard is.
  int shards = 1;
  /// Batches of the longest pass, and of all passes, each epoch key once.
  int64_t num_batches = 0;
  int64_t total_batches = 0;
  /// Whether passes are prepared while others run.
  bool prepares_ahead = false;
  /// Whether training passes have a history (Pass::history).
  bool has_history = false;
  /// StrategyResources::data_disks.
  int data_disks = 0;

  /// Nodes of all types, and bytes of the arrays of all types.
  int64_t num_nodes() const;
  uint64_t feature_bytes() const;
  uint64_t indptr_bytes() const;
  uint64_t indices_bytes() const;
  /// Bytes of a topology whose indices are mapped, unless a GPU samples from
  /// them (LoadSampledTopology).
  uint64_t sampled_topology_bytes() const;
  /// Bytes of the labels of the node type that has most.
  uint64_t label_bytes() const;
  /// The format in which rows are kept.
  store::RowFormat row_format() const { return store::CommonFormat(manifest); }
  int64_t row_bytes() const { return row_format().row_bytes(); }
  /// Enough for a cache of all rows, with a table of 8 bytes a node.
  uint64_t all_rows_bytes() const;
  /// Enough for all neighbor lists, with a table of 8 bytes a node.
  uint64_t all_lists_bytes() const;
};

/// Batches that may wait before, and behind, the stage that decides which of
/// their embeddings come from earlier ones.
inline constexpr int kUndecided = 1;

/// How many batches a strategy holds at a time, or shards of them.
struct BatchCounts {
  /// Threads that sample.
  int samplers = 1;
  /// Batches that are sampled, from the sampler to the trainer.
  int sampled = 0;
  /// Those of them with input rows.
  int assembled = 0;
};

/// Adds what all strategies hold alike: "labels", "samplers" and "batches". A
/// GPU's samplers are in its memory.
void AddBatches(const MemoryBasis& basis, const BatchCounts& counts,
                MemoryEstimate& estimate);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_MEMORY_ESTIMATE_H_
