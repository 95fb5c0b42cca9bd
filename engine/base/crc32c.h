#ifndef HEARTH_ENGINE_BASE_CRC32C_H_
#define HEARTH_ENGINE_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace hearth {

/// CRC32C (Castagnoli; RFC 3720, appendix B.4) of `data`, continuing from
/// `crc`, the checksum of what came before (0 = nothing). By the SSE4.2
/// instruction, three streams at a time, where the processor has it.
uint32_t Crc32c(absl::Span<const std::byte> data, uint32_t crc = 0);

/// The same without the instruction, for machines that lack it.
uint32_t Crc32cPortable(absl::Span<const std::byte> data, uint32_t crc = 0);

/// The checksum of one block of a file, seeded with its file and number, so
/// that a block that was written or read at the wrong place does not match.
uint32_t BlockCrc32c(absl::Span<const std::byte> data, uint64_t file_id,
                     uint64_t block_number);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_CRC32C_H_
