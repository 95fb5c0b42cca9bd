#ifndef HEARTH_ENGINE_INGEST_GENERATE_GENERATOR_KEY_H_
#define HEARTH_ENGINE_INGEST_GENERATE_GENERATOR_KEY_H_

#include <array>
#include <cstdint>

#include "engine/base/random.h"

namespace hearth::ingest {

/// Purposes of the randomness in a generated graph; independent of each other.
/// The values decide what a seed gives: never renumber them.
enum class GeneratorPart : uint64_t {
  kNodeIds = 1,
  kEdges = 2,
  kCentroids = 3,
  kNoise = 4,
  kSplit = 5,
};

/// 128 random bits.
using RandomBlock = std::array<uint32_t, 4>;

/// The key of a part's randomness: block (i, j) of it is a pure function of
/// seed, part, i and j.
class GeneratorKey {
 public:
  GeneratorKey(uint64_t seed, GeneratorPart part) {
    RandomStream stream(seed, RandomPurpose::kGenerator,
                        static_cast<uint64_t>(part));
    key_ = {stream(), stream()};
  }

  RandomBlock Block(uint64_t i, uint32_t j) const {
    return Philox(
        {j, static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0}, key_);
  }

 private:
  std::array<uint32_t, 2> key_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_GENERATE_GENERATOR_KEY_H_
