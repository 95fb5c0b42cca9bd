#include "engine/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace hearth {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;  // Castagnoli's, bit-reversed.

constexpr std::array<uint32_t, 256> MakeByteTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    }
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kByteTable = MakeByteTable();

uint32_t ExtendPortable(uint32_t crc, const unsigned char* data, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    crc = (crc >> 8) ^ kByteTable[(crc ^ data[i]) & 0xFF];
  }
  return crc;
}

#if defined(__x86_64__)

// The instruction takes three cycles, but one can start in each cycle: three
// independent streams keep it busy. Checksums of the streams are joined by
// advancing the earlier ones over zeros, a linear map that is held in byte
// tables, one for each length of stream. Short streams are for rows: three of
// them make a row of 128 floats.
constexpr size_t kLongStreamBytes = 1024;
constexpr size_t kShortStreamBytes = 168;

struct ZeroTable {
  std::array<std::array<uint32_t, 256>, 4> bytes;
};

constexpr ZeroTable MakeZeroTable(size_t zeros) {
  std::array<uint32_t, 32> image{};
  for (int bit = 0; bit < 32; ++bit) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < zeros; ++i) {
      crc = (crc >> 8) ^ kByteTable[crc & 0xFF];
    }
    image[bit] = crc;
  }
  ZeroTable table{};
  for (int byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      uint32_t crc = 0;
      for (int bit = 0; bit < 8; ++bit) {
        if (value >> bit & 1) crc ^= image[byte * 8 + bit];
      }
      table.bytes[byte][value] = crc;
    }
  }
  return table;
}

template <size_t kStreamBytes>
const ZeroTable& StreamZeros() {
  static const ZeroTable table = MakeZeroTable(kStreamBytes);
  return table;
}

uint32_t Advance(const ZeroTable& table, uint32_t crc) {
  return table.bytes[0][crc & 0xFF] ^ table.bytes[1][crc >> 8 & 0xFF] ^
         table.bytes[2][crc >> 16 & 0xFF] ^ table.bytes[3][crc >> 24];
}

uint64_t Load64(const unsigned char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

/// Consumes `data` three streams at a time, until less than three are left.
template <size_t kStreamBytes>
__attribute__((target("sse4.2"))) uint32_t ExtendByStreams(
    uint32_t crc, const unsigned char*& data, size_t& size) {
  const ZeroTable& zeros = StreamZeros<kStreamBytes>();
  while (size >= 3 * kStreamBytes) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < kStreamBytes; i += 8) {
      first = _mm_crc32_u64(first, Load64(data + i));
      second = _mm_crc32_u64(second, Load64(data + kStreamBytes + i));
      third = _mm_crc32_u64(third, Load64(data + 2 * kStreamBytes + i));
    }
    crc = Advance(zeros, static_cast<uint32_t>(first)) ^
          static_cast<uint32_t>(second);
    crc = Advance(zeros, crc) ^ static_cast<uint32_t>(third);
    data += 3 * kStreamBytes;
    size -= 3 * kStreamBytes;
  }
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t ExtendSse42(
    uint32_t crc, const unsigned char* data, size_t size) {
  crc = ExtendByStreams<kLongStreamBytes>(crc, data, size);
  crc = ExtendByStreams<kShortStreamBytes>(crc, data, size);
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, data += 8) {
    wide = _mm_crc32_u64(wide, Load64(data));
  }
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++data) crc = _mm_crc32_u8(crc, *data);
  return crc;
}

#endif

uint32_t Extend(uint32_t crc, const unsigned char* data, size_t size) {
#if defined(__x86_64__)
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return ExtendSse42(crc, data, size);
#endif
  return ExtendPortable(crc, data, size);
}

}  // namespace

uint32_t Crc32c(absl::Span<const std::byte> data, uint32_t crc) {
  return ~Extend(~crc, reinterpret_cast<const unsigned char*>(data.data()),
                 data.size());
}

uint32_t Crc32cPortable(absl::Span<const std::byte> data, uint32_t crc) {
  return ~ExtendPortable(
      ~crc, reinterpret_cast<const unsigned char*>(data.data()), data.size());
}

uint32_t BlockCrc32c(absl::Span<const std::byte> data, uint64_t file_id,
                     uint64_t block_number) {
  const std::array<uint64_t, 2> place = {file_id, block_number};
  return Crc32c(data, Crc32c(absl::Span<const std::byte>(
                          reinterpret_cast<const std::byte*>(place.data()),
                          sizeof(place))));
}

}  // namespace hearth
