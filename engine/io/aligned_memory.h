#ifndef HEARTH_ENGINE_IO_ALIGNED_MEMORY_H_
#define HEARTH_ENGINE_IO_ALIGNED_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hearth::io {

/// Zeroed anonymous memory for big arrays: from 2 MiB on aligned to 2 MiB and
/// on huge pages where the system gives them; below aligned to a page. Given
/// back to the system when destroyed. Thread-compatible; movable.
class AlignedMemory {
 public:
  static constexpr uint64_t kHugePageBytes = 2 << 20;

  /// RESOURCE_EXHAUSTED, naming the size, if the system refuses. (The system
  /// may also grant more than it has: check what is available first.)
  static absl::StatusOr<AlignedMemory> Allocate(uint64_t size_bytes);

  AlignedMemory() = default;
  AlignedMemory(AlignedMemory&& other) noexcept;
  AlignedMemory& operator=(AlignedMemory&& other) noexcept;
  ~AlignedMemory();

  absl::Span<std::byte> bytes() { return {data_, size_}; }
  absl::Span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  AlignedMemory(std::byte* data, uint64_t size) : data_(data), size_(size) {}

  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

/// Trims a mapping of `mapped` bytes to `kept` bytes that begin at a huge page,
/// and returns their address. REQUIRES: `kept` is a multiple of a huge page;
/// mapped = kept + one huge page.
std::byte* TrimToHugePages(std::byte* mapping, uint64_t mapped, uint64_t kept);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_ALIGNED_MEMORY_H_
