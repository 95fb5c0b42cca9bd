#ifndef HEARTH_ENGINE_IO_DESCRIPTOR_H_
#define HEARTH_ENGINE_IO_DESCRIPTOR_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace hearth::io {

/// File descriptor that closes itself when destroyed; -1 if closed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// open(2) with O_CLOEXEC, and mode 0644 for a created file.
absl::StatusOr<Descriptor> OpenDescriptor(const std::string& path, int flags);

/// Whole transfers by system calls that may transfer only a part. The calls are
/// parameters, so that tests can make every outcome.

/// A call like pread: bytes read, 0 at the end of the file, or -1 with errno
/// set.
using ReadCall =
    absl::FunctionRef<ssize_t(uint64_t offset, absl::Span<std::byte> out)>;

/// A call like pwrite: bytes written, or -1 with errno set.
using WriteCall = absl::FunctionRef<ssize_t(uint64_t offset,
                                            absl::Span<const std::byte> data)>;

/// Waits before the `retry`th repetition, 1 .. kMaxReadRetries.
using BackOff = absl::FunctionRef<void(int retry)>;

/// Repetitions of a read that fails with EIO, before it counts as failed.
inline constexpr int kMaxReadRetries = 3;

/// Time to wait before the `retry`th repetition: 4, 16, 64 ms.
absl::Duration RetryDelay(int retry);

/// Fills `out` from `offset`: continues after short reads and EINTR, repeats
/// after EIO. DATA_LOSS, naming the offset, where the file ended; ErrnoStatus
/// for other errors.
absl::Status ReadFully(ReadCall read, BackOff back_off, const std::string& path,
                       uint64_t offset, absl::Span<std::byte> out);

/// Writes all of `data` at `offset`: continues after short writes and EINTR.
/// Errors are not tried again: what reached the disk is unknown.
absl::Status WriteFully(WriteCall write, const std::string& path,
                        uint64_t offset, absl::Span<const std::byte> data);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_DESCRIPTOR_H_
