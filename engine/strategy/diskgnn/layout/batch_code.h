#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_BATCH_CODE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_BATCH_CODE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

/// A sampled batch as bytes, for files that last: versioned, little-endian,
/// covered by CRC32Cs. Compact: edges are positions in the batch, destinations
/// have edge counts instead of offsets, and each list of numbers is as wide, in
/// bytes, as its largest one needs. Pure functions.

namespace hearth::strategy {

/// REQUIRES: edges have no weights where nodes have types or the batch has a
/// top layer.
std::vector<std::byte> EncodeBatch(const sample::MiniBatch& batch);

/// Bytes at the beginning of an encoded batch that hold its input nodes: all
/// that DecodeBatchNodes needs.
uint64_t EncodedNodesBytes(const sample::MiniBatch& batch);

/// The batch that EncodeBatch was given. DATA_LOSS, naming the byte, if the
/// bytes are damaged or those of another batch than `key`.
absl::StatusOr<sample::MiniBatch> DecodeBatch(absl::Span<const std::byte> bytes,
                                              const sample::BatchKey& key);

/// Whether they are that batch, undamaged, without decoding them. DATA_LOSS as
/// DecodeBatch.
absl::Status CheckBatch(absl::Span<const std::byte> bytes,
                        const sample::BatchKey& key);

/// Its input nodes alone, from the beginning of its bytes; they replace
/// `nodes`.
absl::Status DecodeBatchNodes(absl::Span<const std::byte> bytes,
                              const sample::BatchKey& key,
                              std::vector<store::NodeId>& nodes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_BATCH_CODE_H_
