#ifndef HEARTH_ENGINE_PLAN_PARTITION_BLOOM_FILTERS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_BLOOM_FILTERS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/io/aligned_memory.h"
#include "engine/plan/partition/part_counts.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// A Bloom filter for the nodes of each part (OUTRE, section 5.2), for
/// PartCapacity nodes and a rate of false positives of 0.1. The filters are of
/// one size and hash alike, and bit i of all of them stands together, so that
/// one probe asks them all. Thread-compatible.
class BloomFilters {
 public:
  static constexpr double kFalsePositives = 0.1;

  /// Bytes of filters for the parts of a level: 5.3 bits a node, where the
  /// parts are not tiny.
  static uint64_t Bytes(int64_t nodes, int parts);

  /// RESOURCE_EXHAUSTED without memory. REQUIRES: 0 < parts <= kMaxLevelParts.
  static absl::StatusOr<BloomFilters> Make(int64_t nodes, int parts);

  void Insert(store::NodeId node, int part);

  /// Adds 1 to `counts` for each part that the node seems to be in: for the
  /// one in which it was put, and at times for others.
  void Count(store::NodeId node, PartCounts& counts) const;

 private:
  static constexpr int kHashes = 3;
  // Words that the bits of all parts may reach into, and one more.
  static constexpr int kMaxWords = kMaxLevelParts / 64;

  BloomFilters(int64_t rows, int parts, io::AlignedMemory memory)
      : rows_(rows), parts_(parts), memory_(std::move(memory)) {}

  // The first bits of the rows that the node's hashes name.
  std::array<uint64_t, kHashes> Places(store::NodeId node) const;

  uint64_t* words() {
    return reinterpret_cast<uint64_t*>(memory_.bytes().data());
  }
  const uint64_t* words() const {
    return reinterpret_cast<const uint64_t*>(memory_.bytes().data());
  }

  // Bits of one filter.
  int64_t rows_;
  int parts_;
  // rows_ times parts_ bits, one after the other.
  io::AlignedMemory memory_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_BLOOM_FILTERS_H_
