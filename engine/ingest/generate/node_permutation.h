#ifndef HEARTH_ENGINE_INGEST_GENERATE_NODE_PERMUTATION_H_
#define HEARTH_ENGINE_INGEST_GENERATE_NODE_PERMUTATION_H_

#include <array>
#include <cstdint>

#include "engine/ingest/generate/generator_key.h"

namespace hearth::ingest {

/// A seeded permutation of 0 .. size - 1 that takes no memory: rounds of
/// multiplication and xorshift permute 0 .. 2^bits - 1, and what leaves the
/// range is sent on until it is back in it (cycle walking; less than two steps
/// on average). Immutable, thread-safe.
class NodePermutation {
 public:
  /// REQUIRES: 0 < size <= 2^62.
  NodePermutation(const GeneratorKey& key, int64_t size);

  int64_t size() const { return static_cast<int64_t>(size_); }

  /// Where `value` goes. REQUIRES: 0 <= value < size().
  int64_t Apply(int64_t value) const {
    auto x = static_cast<uint64_t>(value);
    do {
      for (const Round& round : rounds_) {
        x = (x * round.factor + round.offset) & mask_;
        x ^= x >> shift_;
      }
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

  /// The inverse.
  int64_t Invert(int64_t value) const {
    auto x = static_cast<uint64_t>(value);
    do {
      for (auto round = rounds_.rbegin(); round != rounds_.rend(); ++round) {
        // The shift is at least half of the bits: it undoes itself.
        x ^= x >> shift_;
        x = ((x - round->offset) * round->inverse) & mask_;
      }
    } while (x >= size_);
    return static_cast<int64_t>(x);
  }

 private:
  struct Round {
    /// Odd, and its inverse modulo 2^64.
    uint64_t factor = 1;
    uint64_t inverse = 1;
    uint64_t offset = 0;
  };

  uint64_t size_;
  uint64_t mask_;
  int shift_;
  std::array<Round, 4> rounds_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_NODE_PERMUTATION_H_
