#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_BATCH_CODE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_BATCH_CODE_H_

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

namespace hearth::strategy {

/// Numbers in as few whole bytes as the largest of them needs: small, and quick
/// to take out. Little-endian. All functions are pure.

/// Bytes that a number up to `largest` needs: 0 for 0, up to 8.
inline int PackedWidth(uint64_t largest) {
  return (64 - __builtin_clzll(largest | 1) + 7 - (largest == 0)) / 8;
}

/// The width that all of `values` need. REQUIRES: none is negative.
template <typename Integer>
int PackedWidthOf(absl::Span<const Integer> values) {
  uint64_t all = 0;
  for (const Integer value : values) all |= static_cast<uint64_t>(value);
  return PackedWidth(all);
}

/// Calls `visit` with std::integral_constant<int, width>: a copy of so many
/// bytes is then one or two instructions instead of a call. REQUIRES: 1 .. 8.
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

/// Writes `values`, `width` bytes each, and returns where they end.
template <typename Integer>
std::byte* Pack(absl::Span<const Integer> values, int width, std::byte* to) {
  // There may be no memory for what takes none.
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

/// Fills `values` from numbers of `width` bytes, and returns where they end.
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

/// A sampled batch as bytes, for files that last: versioned, little-endian,
/// covered by CRC32Cs. Compact: edges are positions in the batch, destinations
/// have edge counts instead of offsets, and each list of numbers is as wide, in
/// bytes, as its largest one needs. Pure functions.

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
