#ifndef HEARTH_ENGINE_BASE_CRC32C_H_
#define HEARTH_ENGINE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace hearth {

/// CRC32C (Castagnoli; RFC 3720, appendix B.4) of `data`, continuing from
/// `crc`, the checksum of the bytes before `data` (0 = none). Uses the SSE4.2
/// instruction, on three streams at a time, where the processor has it.
uint32_t Crc32c(absl::Span<const std::byte> data, uint32_t crc = 0);

/// Crc32c without the SSE4.2 instruction, for processors that lack it.
uint32_t Crc32cPortable(absl::Span<const std::byte> data, uint32_t crc = 0);

/// Checksum of one block of a file, seeded with the file's id and the block's
/// number, so that a block written to or read from the wrong place does not
/// match.
uint32_t BlockCrc32c(absl::Span<const std::byte> data, uint64_t file_id,
                     uint64_t block_number);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_CRC32C_H_
