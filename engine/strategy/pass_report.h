#ifndef HEARTH_ENGINE_STRATEGY_PASS_REPORT_H_
#define HEARTH_ENGINE_STRATEGY_PASS_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/pipeline/pipeline.h"

namespace hearth::strategy {

/// Rows that one level of the cache held.
struct LevelHits {
  /// "gpu_cache", "cpu_cache".
  std::string level;
  int64_t rows = 0;
};

/// Neighbor lists that one neighbor cache held.
struct ListHits {
  /// "neighbor_cache", "dynamic_neighbor_cache".
  std::string level;
  int64_t lists = 0;
};

/// How the reads of several batches overlapped (GIDS, section 3.2).
struct ReadOverlap {
  /// How rows are read: "io_uring, host-initiated".
  std::string storage_path = {};
  /// Reads that were to be under way at any time, and that the queue holds.
  int64_t target_reads = 0;
  int64_t depth = 0;
  /// Batches that were read; shards count as batches.
  int64_t batches = 0;
  /// Batches being read as each joined them, itself included, added up.
  int64_t merged = 0;
  /// Batches that joined later than `target_reads` asks for, since as many as
  /// are allowed were being read, or their rows had no room.
  int64_t held_by_merge_max = 0;
  int64_t held_by_staging = 0;
  /// Rows that were read and not kept, since all lines of the window cache held
  /// rows for later batches.
  int64_t bypassed = 0;
};

/// Wall time of one of a strategy's own phases.
struct PhaseSeconds {
  std::string name;
  double seconds = 0;
};

/// The cost of a pass. Optional figures are absent where they cannot be known.
struct PassReport {
  double seconds = 0;
  int64_t batches = 0;
  /// Seeds of the batches; rows_needed by seeds is the redundancy ratio (OUTRE,
  /// section 3.1).
  int64_t seeds = 0;
  int64_t rows_needed = 0;
  int64_t bytes_needed = 0;
  std::optional<int64_t> bytes_read;
  std::optional<int64_t> read_ops;
  std::optional<double> io_wait_seconds;
  /// Rows read from storage; with `hits`, rows_needed in all.
  std::optional<int64_t> rows_read;
  /// By level, from the first one asked; empty without a cache.
  std::vector<LevelHits> hits;
  /// Embeddings of earlier batches that batches used, and embeddings kept for
  /// later ones (Pass::history); the batches in between, added up over those
  /// used.
  int64_t pulled = 0;
  int64_t pushed = 0;
  int64_t total_age = 0;
  /// Neighbor lists that a batch drew from and that memory held, each once for
  /// each layer of each batch, by neighbor cache, from the first one asked; and
  /// those of which neighbors had to be read from storage. Empty, and absent,
  /// where neighbors are not read like that.
  std::vector<ListHits> list_hits;
  std::optional<int64_t> lists_read;
  /// Absent where each batch is read for itself.
  std::optional<ReadOverlap> overlap;
  /// In a fixed order; they may overlap.
  std::vector<PhaseSeconds> phases;
  std::vector<pipeline::StageStats> stages;
};

/// Adds the figures of `part`, a later part of the same pass, to `whole`.
void Accumulate(const PassReport& part, PassReport& whole);

/// One plan, found or made.
struct PreparationReport {
  /// Its name in the plan store; empty: there was nothing to prepare.
  std::string plan;
  /// Whether it was there.
  bool reused = false;
  /// Wall time of finding or making it; of the latter, by phase.
  double seconds = 0;
  std::vector<PhaseSeconds> phases;
  uint64_t disk_bytes = 0;
  /// For people: which layout was chosen, and why.
  std::string reason;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PASS_REPORT_H_
