#ifndef HEARTH_ENGINE_SAMPLE_SHARD_WINDOW_H_
#define HEARTH_ENGINE_SAMPLE_SHARD_WINDOW_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

/// The shards of batches that one machine of several takes (ShardWindow).

namespace hearth::sample {

/// Shards of a batch on all machines together, at most.
inline constexpr int64_t kMostShards = 256;

/// Which shards of each batch are here, where several machines share it.
struct ShardWindow {
  /// The first shard that is here.
  int64_t first = 0;
  /// Shards of a batch, on all machines together; 0: all of them are here.
  int64_t all = 0;

  bool operator==(const ShardWindow&) const = default;

  /// Whether other machines have shards.
  bool is_part() const { return all > 0; }

  /// Shards of a batch on all machines, of which `here` are here.
  int64_t AllOf(int64_t here) const { return is_part() ? all : here; }

  /// INVALID_ARGUMENT unless `here` shards from `first` on are shards of a
  /// batch, of which there are at most kMostShards.
  absl::Status Validate(int64_t here) const {
    if (!is_part() && first == 0) return absl::OkStatus();
    if (all > kMostShards || first < 0 || first + here > all) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shards ", first, " to ", first + here - 1, " are not among the ",
          all, " of a batch (at most ", kMostShards, ")"));
    }
    return absl::OkStatus();
  }
};

/// Index, among the `seeds` seeds of a batch, of the first one of shard
/// `shard`, out of `shards` shards of nearly equal sizes. That of shard
/// `shards` is `seeds`.
constexpr int64_t ShardBegin(int64_t seeds, int64_t shard, int64_t shards) {
  return seeds * shard / shards;
}

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SHARD_WINDOW_H_
