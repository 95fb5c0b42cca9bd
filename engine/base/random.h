#ifndef HEARTH_ENGINE_BASE_RANDOM_H_
#define HEARTH_ENGINE_BASE_RANDOM_H_

#include <array>
#include <cstdint>

namespace hearth {

/// Counter-based randomness: the numbers are a pure function of a key and a
/// counter, so which thread draws them, and when, changes nothing.
///
/// The generator is Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As
/// Easy as 1, 2, 3", SC 2011), tested against its published vectors.

/// One Philox4x32-10 block: 128 random bits for `counter` under `key`.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key);

/// The purpose of a stream of random numbers. Streams of different purposes are
/// independent even when all other coordinates are equal. The values are part
/// of every digest: never renumber them.
enum class RandomPurpose : uint32_t {
  kSeedOrder = 1,
  kNeighborSampling = 2,
  kInitialWeights = 3,
  kDropout = 4,
  kGenerator = 5,
  kReordering = 6,
  kPartitionOrder = 7,
  kEviction = 8,
  kLayerSampling = 9,
  kPartitionBuffer = 10,
};

/// State of a RandomStream before its last coordinate, `c`, is mixed in. GPUs
/// continue from here (HearthCudaSampleLayer).
struct RandomPrefix {
  std::array<uint32_t, 2> key;
  uint64_t mixed;

  RandomPrefix(uint64_t seed, RandomPurpose purpose, uint64_t a, uint64_t b);
};

/// Sequence of random numbers, named by its coordinates: the user's seed, a
/// purpose, and up to three more (for sampling: epoch key, batch, layer and
/// node). Cheap: make one per use. Thread-compatible. Satisfies
/// UniformRandomBitGenerator.
class RandomStream {
 public:
  using result_type = uint32_t;

  /// Coordinates are mixed into the generator's key and counter: equal
  /// coordinates give equal streams, different coordinates give streams that
  /// are independent for all practical ends.
  RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a = 0,
               uint64_t b = 0, uint64_t c = 0);

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return UINT32_MAX; }

  /// The next 32 bits.
  uint32_t operator()();

  /// The next 64 bits.
  uint64_t Next64();

  /// Uniform in [0, bound), without bias (Lemire's multiplication with
  /// rejection). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound);

  /// Uniform in [0, 1), a multiple of 2^-24.
  float UniformFloat();

 private:
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 4> block_;
  int used_ = 4;
};

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_RANDOM_H_
