#include "engine/io/posix_block_device.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/descriptor.h"

namespace hearth::io {
namespace {

// The alignment that every disk of today accepts.
constexpr uint32_t kCommonAlignment = 4096;
// The largest that is tried: a larger "block size" is a network's advice.
constexpr uint32_t kMaxAlignment = 64 << 10;

class PosixBlockDevice final : public BlockDevice {
 public:
  PosixBlockDevice(Descriptor fd, uint64_t size_bytes, uint32_t alignment,
                   std::string path)
      : fd_(std::move(fd)),
        size_bytes_(size_bytes),
        alignment_(alignment),
        path_(std::move(path)) {}

  uint64_t size_bytes() const override { return size_bytes_; }
  uint32_t alignment() const override { return alignment_; }
  bool direct() const override { return alignment_ > 1; }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return fd_.get(); }

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const ssize_t count =
        ::pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    return count >= 0 ? count : -errno;
  }

 private:
  const Descriptor fd_;
  const uint64_t size_bytes_;
  const uint32_t alignment_;
  const std::string path_;
};

/// Alignments worth trying; none where direct reads are known to be refused.
std::vector<uint32_t> Candidates(int fd, const struct stat& status) {
  struct statfs system;
  // It takes the flag since Linux 6.6, and ignores it.
  if (::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC) return {};
#ifdef STATX_DIOALIGN
  struct statx known;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &known) == 0 &&
      (known.stx_mask & STATX_DIOALIGN) != 0) {
    if (known.stx_dio_offset_align == 0) return {};
    return {std::max(known.stx_dio_offset_align, known.stx_dio_mem_align)};
  }
#endif
  return {kCommonAlignment, static_cast<uint32_t>(status.st_blksize)};
}

/// Whether the descriptor, which has O_DIRECT set, serves such reads.
bool Serves(int fd, uint32_t alignment, absl::Span<std::byte> memory) {
  if (!std::has_single_bit(alignment) || alignment < 2 ||
      alignment > kMaxAlignment) {
    return false;
  }
  // Whatever else is wrong shows again at the reads that matter.
  return ::pread(fd, memory.data(), alignment, 0) >= 0 || errno != EINVAL;
}

/// Makes `fd` direct; its alignment, or 1, not direct, if that cannot be.
absl::StatusOr<uint32_t> MakeDirect(int fd, const struct stat& status) {
  const int flags = ::fcntl(fd, F_GETFL);
  const std::vector<uint32_t> candidates = Candidates(fd, status);
  if (candidates.empty() || ::fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
    return 1;
  }
  HEARTH_ASSIGN_OR_RETURN(AlignedMemory memory,
                          AlignedMemory::Allocate(2 * kMaxAlignment));
  const auto address = reinterpret_cast<uintptr_t>(memory.bytes().data());
  const auto aligned = memory.bytes().subspan(-address % kMaxAlignment);
  for (const uint32_t alignment : candidates) {
    if (Serves(fd, alignment, aligned)) return alignment;
  }
  ::fcntl(fd, F_SETFL, flags);
  return 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockDevice>> OpenPosixBlockDevice(
    const std::string& path, const BlockDeviceOptions& options) {
  // O_NONBLOCK, so that a FIFO is refused, not waited on.
  HEARTH_ASSIGN_OR_RETURN(Descriptor fd,
                          OpenDescriptor(path, O_RDONLY | O_NONBLOCK));
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) {
    return ErrnoStatus(errno, path, "examining");
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is not a regular file"));
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  uint32_t alignment = 1;
  if (!options.buffered) {
    HEARTH_ASSIGN_OR_RETURN(alignment, MakeDirect(fd.get(), status));
  }
  if (alignment == 1) {
    // Advice only: without it, the cache reads ahead what nobody asked for.
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_RANDOM);
  }
  return std::make_unique<PosixBlockDevice>(
      std::move(fd), static_cast<uint64_t>(status.st_size), alignment, path);
}

}  // namespace hearth::io
