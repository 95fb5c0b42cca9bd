#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_OPTIONS_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_OPTIONS_H_

#include <cstdint>

namespace hearth::strategy {

/// GNNDrive (Jiang et al., 2024): asynchronous extraction into row slots.
struct GnndriveOptions {
  /// Rows kept beyond the reserved ones: the standby list (section 4.2).
  uint64_t cpu_cache_bytes = 0;
  /// Rows reserved for the batches in flight; 0 = those of the largest batch,
  /// found by a dry run of sampling, for each extractor. With less, fewer
  /// extractors run.
  uint64_t staging_bytes = 0;
  /// Batches are delivered as they become ready.
  bool reorder = false;
  /// Reads go through the page cache (section 4.4).
  bool buffered_reads = false;
  /// Batches that may wait for extraction, and for the trainer.
  int sample_queue = 6;
  int train_queue = 4;
  /// Reads that each extractor keeps in flight.
  int io_depth = 64;

  bool operator==(const GnndriveOptions&) const = default;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_OPTIONS_H_
