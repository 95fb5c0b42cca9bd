#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_JOIN_PACKS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_JOIN_PACKS_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"

/// Parts of a plan that were packed by themselves (PackPart), joined.

namespace hearth::strategy {

/// A part, and the folder with its files.
struct PackedPart {
  std::string folder;
  PackPart part;
  int64_t num_batches = 0;
};

struct JoinOptions {
  /// The folder of the plan; created if it does not exist.
  std::string folder;
  /// Threads that copy, each with a buffer of 4 MiB.
  int threads = 1;
  /// Called with bytes of the plan done and in all; by one thread at a time.
  /// May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  std::stop_token stop = {};
};

/// Copies `parts`, which are those of a plan of `layout`, in order, into the
/// plan's files, which have the bytes that PackBatches writes for the whole.
/// All that is copied is compared with its checksums. Returns the layout with
/// checksums. DATA_LOSS, naming the file, for a damaged part;
/// RESOURCE_EXHAUSTED if the disk is full; CANCELLED when a stop is requested.
/// After an error nothing of the plan is left.
absl::StatusOr<PackedLayout> JoinPacks(io::FileSystem& files,
                                       absl::Span<const PackedPart> parts,
                                       PackedLayout layout,
                                       const JoinOptions& options);

/// Reads all files of a part against their checksums. Errors as JoinPacks.
absl::Status CheckPart(io::FileSystem& files, const PackedPart& part,
                       const PackedLayout& layout, const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_JOIN_PACKS_H_
