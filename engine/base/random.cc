#include "engine/base/random.h"

namespace hearth {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

// SplitMix64's finalizer: every input bit reaches every output bit.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                               std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

RandomPrefix::RandomPrefix(uint64_t seed, RandomPurpose purpose, uint64_t a,
                           uint64_t b)
    : mixed(Mix(Mix(a) ^ b)) {
  const uint64_t words = Mix(seed ^ Mix(static_cast<uint64_t>(purpose)));
  key = {static_cast<uint32_t>(words), static_cast<uint32_t>(words >> 32)};
}

RandomStream::RandomStream(uint64_t seed, RandomPurpose purpose, uint64_t a,
                           uint64_t b, uint64_t c) {
  const RandomPrefix prefix(seed, purpose, a, b);
  key_ = prefix.key;
  const uint64_t mixed = Mix(prefix.mixed ^ c);
  // The lowest 32 bits of the counter count blocks within the stream; the other
  // bits name the stream.
  const auto stream_high = static_cast<uint32_t>(Mix(mixed));
  counter_ = {0, static_cast<uint32_t>(mixed),
              static_cast<uint32_t>(mixed >> 32), stream_high};
}

uint32_t RandomStream::operator()() {
  if (used_ == 4) {
    block_ = Philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t RandomStream::Next64() {
  const uint64_t low = (*this)();
  return low | uint64_t{(*this)()} << 32;
}

uint64_t RandomStream::Below(uint64_t bound) {
  if (bound <= UINT32_MAX) {
    const auto small = static_cast<uint32_t>(bound);
    uint64_t product = uint64_t{(*this)()} * small;
    if (static_cast<uint32_t>(product) < small) {
      const uint32_t threshold = -small % small;
      while (static_cast<uint32_t>(product) < threshold) {
        product = uint64_t{(*this)()} * small;
      }
    }
    return product >> 32;
  }
  const uint64_t threshold = -bound % bound;
  while (true) {
    const auto product = static_cast<unsigned __int128>(Next64()) * bound;
    if (static_cast<uint64_t>(product) >= threshold) {
      return static_cast<uint64_t>(product >> 64);
    }
  }
}

float RandomStream::UniformFloat() {
  return static_cast<float>((*this)() >> 8) * 0x1.0p-24f;
}

}  // namespace hearth
