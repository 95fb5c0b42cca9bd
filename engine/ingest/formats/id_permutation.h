#ifndef HEARTH_ENGINE_INGEST_FORMATS_ID_PERMUTATION_H_
#define HEARTH_ENGINE_INGEST_FORMATS_ID_PERMUTATION_H_

#include <cstdint>

namespace hearth::ingest {

/// A random order of 0 .. size - 1, that of a seed, which takes no memory: each
/// position is computed by itself, by an alternating Feistel network over the
/// bits of an id (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
/// CT-RSA 2002) with Philox as its function. Immutable.
class IdPermutation {
 public:
  /// REQUIRES: size > 0.
  IdPermutation(int64_t size, uint64_t seed);

  /// The id at `position`. REQUIRES: 0 <= position < size.
  int64_t operator[](int64_t position) const;

 private:
  uint64_t Scramble(uint64_t id) const;

  uint64_t size_;
  uint64_t seed_;
  int low_bits_;
  int high_bits_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_ID_PERMUTATION_H_
