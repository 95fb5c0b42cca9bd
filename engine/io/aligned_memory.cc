#include "engine/io/aligned_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"

namespace hearth::io {
namespace {

// More than any machine has; keeps the rounding below from overflowing.
constexpr uint64_t kMaxBytes = uint64_t{1} << 56;

}  // namespace

std::byte* TrimToHugePages(std::byte* mapping, uint64_t mapped, uint64_t kept) {
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  const uint64_t before =
      RoundUp(address, AlignedMemory::kHugePageBytes) - address;
  if (before > 0) ::munmap(mapping, before);
  const uint64_t after = mapped - before - kept;
  if (after > 0) ::munmap(mapping + before + kept, after);
  return mapping + before;
}

absl::StatusOr<AlignedMemory> AlignedMemory::Allocate(uint64_t size_bytes) {
  if (size_bytes == 0) return AlignedMemory();
  const bool huge = size_bytes >= kHugePageBytes;
  // Whole huge pages, so that the end of the array is on one, too.
  const uint64_t kept = huge ? RoundUp(size_bytes, kHugePageBytes) : size_bytes;
  const uint64_t mapped = huge ? kept + kHugePageBytes : kept;
  void* address = MAP_FAILED;
  errno = ENOMEM;
  if (size_bytes <= kMaxBytes) {
    address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  if (address == MAP_FAILED) {
    return ErrnoStatus(errno, "memory",
                       absl::StrCat("allocating ", size_bytes, " bytes"));
  }
  auto* data = static_cast<std::byte*>(address);
  if (huge) {
    data = TrimToHugePages(data, mapped, kept);
    // Advice only: a kernel without huge pages serves small ones.
    ::madvise(data, kept, MADV_HUGEPAGE);
  }
  return AlignedMemory(data, size_bytes);
}

AlignedMemory::AlignedMemory(AlignedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

AlignedMemory& AlignedMemory::operator=(AlignedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AlignedMemory::~AlignedMemory() {
  if (data_ == nullptr) return;
  const bool huge = size_ >= kHugePageBytes;
  ::munmap(data_, huge ? RoundUp(size_, kHugePageBytes) : size_);
}

}  // namespace hearth::io
