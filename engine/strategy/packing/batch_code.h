#ifndef HEARTH_ENGINE_STRATEGY_PACKING_BATCH_CODE_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_BATCH_CODE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

/// Sampled batches as bytes, and the packed numbers that they consist of.

namespace hearth::strategy {

/// Lists of numbers in as few whole bytes each as the largest needs: small, and
/// quick to decode. Little-endian. All functions are pure.

/// Bytes that a number up to `largest` needs: 0 (for 0) to 8.
inline int PackedWidth(uint64_t largest) {
  return (64 - __builtin_clzll(largest | 1) + 7 - (largest == 0)) / 8;
}

/// Bytes that the largest of `values` needs. REQUIRES: none is negative.
template <typename Integer>
int PackedWidthOf(absl::Span<const Integer> values) {
  uint64_t all = 0;
  for (const Integer value : values) all |= static_cast<uint64_t>(value);
  return PackedWidth(all);
}

/// Calls `visit` with std::integral_constant<int, width>: a copy of a constant
/// number of bytes is one or two instructions instead of a call. REQUIRES:
/// width is 1 .. 8.
template <typename Visit>
auto VisitWidth(int width, Visit visit) {
  switch (width) {
    case 1:
      return visit(std::integral_constant<int, 1>());
    case 2:
      return visit(std::integral_constant<int, 2>());
    case 3:
      return visit(std::integral_constant<int, 3>());
    case 4:
      return visit(std::integral_constant<int, 4>());
    case 5:
      return visit(std::integral_constant<int, 5>());
    case 6:
      return visit(std::integral_constant<int, 6>());
    case 7:
      return visit(std::integral_constant<int, 7>());
    default:
      return visit(std::integral_constant<int, 8>());
  }
}

/// Writes `values` to `to`, `width` bytes each. Returns the end of what it
/// wrote.
template <typename Integer>
std::byte* Pack(absl::Span<const Integer> values, int width, std::byte* to) {
  // `to` may be null if nothing is written.
  if (width == 0) return to;
  return VisitWidth(width, [&](auto bytes) {
    for (const Integer value : values) {
      const auto bits = static_cast<uint64_t>(value);
      std::memcpy(to, &bits, bytes());
      to += bytes();
    }
    return to;
  });
}

/// Reads `values` from `from`, `width` bytes each. Returns the end of what it
/// read.
template <typename Integer>
const std::byte* Unpack(const std::byte* from, int width,
                        absl::Span<Integer> values) {
  if (width == 0) {
    std::fill(values.begin(), values.end(), Integer{0});
    return from;
  }
  return VisitWidth(width, [&](auto bytes) {
    for (Integer& value : values) {
      uint64_t bits = 0;
      std::memcpy(&bits, from, bytes());
      value = static_cast<Integer>(bits);
      from += bytes();
    }
    return from;
  });
}

/// A sampled batch as bytes, for files that outlive the process: versioned,
/// little-endian, covered by CRC32Cs. Compact: edges are positions in the
/// batch, destinations have edge counts instead of offsets, and each list of
/// numbers is as wide as its largest number needs. Pure functions.

/// Encodes a batch. REQUIRES: edges have no weights where nodes have types or
/// the batch has a top layer.
std::vector<std::byte> EncodeBatch(const sample::MiniBatch& batch);

/// Bytes at the beginning of the encoded batch that DecodeBatchNodes needs.
uint64_t EncodedNodesBytes(const sample::MiniBatch& batch);

/// Decodes a batch. DATA_LOSS, naming the byte, if the bytes are damaged or
/// belong to another batch than `key`.
absl::StatusOr<sample::MiniBatch> DecodeBatch(absl::Span<const std::byte> bytes,
                                              const sample::BatchKey& key);

/// Checks, without decoding, that the bytes are undamaged and belong to the
/// batch `key`. DATA_LOSS as DecodeBatch.
absl::Status CheckBatch(absl::Span<const std::byte> bytes,
                        const sample::BatchKey& key);

/// Replaces `nodes` by the input nodes of the batch, from the first
/// EncodedNodesBytes of its bytes. DATA_LOSS as DecodeBatch.
absl::Status DecodeBatchNodes(absl::Span<const std::byte> bytes,
                              const sample::BatchKey& key,
                              std::vector<store::NodeId>& nodes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_BATCH_CODE_H_
