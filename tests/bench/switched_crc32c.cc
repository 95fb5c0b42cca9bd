#include "tests/bench/switched_crc32c.h"

#include <atomic>

#include "engine/base/crc32c.h"

namespace hearth {

// The functions of engine/base/crc32c.cc, compiled a second time under these
// names by //engine/base:true_crc32c. They are replaced below, which links only
// while this program needs nothing else of crc32c.cc.
uint32_t TrueCrc32c(absl::Span<const std::byte> data, uint32_t crc);
uint32_t TrueBlockCrc32c(absl::Span<const std::byte> data, uint64_t file_id,
                         uint64_t block_number);

namespace {
std::atomic<bool> is_on = true;
}  // namespace

namespace bench {

void SwitchChecksums(bool on) { is_on = on; }

}  // namespace bench

uint32_t Crc32c(absl::Span<const std::byte> data, uint32_t crc) {
  if (is_on.load(std::memory_order_relaxed)) TrueCrc32c(data, crc);
  return 0;
}

uint32_t Crc32cPortable(absl::Span<const std::byte> data, uint32_t crc) {
  return Crc32c(data, crc);
}

uint32_t BlockCrc32c(absl::Span<const std::byte> data, uint64_t file_id,
                     uint64_t block_number) {
  if (is_on.load(std::memory_order_relaxed)) {
    TrueBlockCrc32c(data, file_id, block_number);
  }
  return 0;
}

}  // namespace hearth
