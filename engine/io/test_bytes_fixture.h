#ifndef HEARTH_ENGINE_IO_TEST_BYTES_FIXTURE_H_
#define HEARTH_ENGINE_IO_TEST_BYTES_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"

namespace hearth::io {

/// Bytes for tests of reads: any 8 neighboring bytes differ from those at every
/// other place.
std::string TestBytes(size_t size);

/// Whether `bytes` equals TestBytes from `offset` on.
bool AreTestBytes(uint64_t offset, absl::Span<const std::byte> bytes);

/// A file of TestBytes, durable, so that direct reads do not flush it first.
void WriteTestBytes(const std::string& path, size_t size);

/// Memory aligned to 4 KiB, filled with 0xee.
AlignedMemory NewTestMemory(size_t size);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_TEST_BYTES_FIXTURE_H_
