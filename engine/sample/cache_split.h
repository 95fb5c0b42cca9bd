#ifndef HEARTH_ENGINE_SAMPLE_CACHE_SPLIT_H_
#define HEARTH_ENGINE_SAMPLE_CACHE_SPLIT_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "engine/sample/epoch_profile.h"

namespace hearth::sample {

/// The memory that rows and embeddings of earlier batches share.
struct SharedCache {
  uint64_t bytes = 0;
  /// Rows, and embeddings, for which so many bytes have room, tables included;
  /// neither falls when the bytes rise.
  absl::FunctionRef<int64_t(uint64_t bytes)> rows_within;
  absl::FunctionRef<int64_t(uint64_t bytes)> embeddings_within;
};

/// A share of the memory for each.
struct CacheSplit {
  /// The part of the memory that embeddings get, within 0 .. 1 (alpha).
  double share = 0;
  uint64_t embedding_bytes = 0;
  uint64_t row_bytes = 0;
  /// Embeddings, at most one a node.
  int64_t embeddings = 0;
  /// The reads of an epoch that both save, in rows (benefit, equation 5).
  double saved_rows = 0;

  bool operator==(const CacheSplit&) const = default;
};

/// Splits the memory so that most reads are saved (OUTRE, section 4.4): of the
/// shares 0, 0.01 .. 1 the one of most benefit, of equal ones the smallest; or
/// as `share` says. Takes 8 bytes a node.
CacheSplit SplitCache(const EpochProfile& profile, double beta,
                      const SharedCache& cache,
                      std::optional<double> share = std::nullopt);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_CACHE_SPLIT_H_
