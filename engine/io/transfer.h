#ifndef HEARTH_ENGINE_IO_TRANSFER_H_
#define HEARTH_ENGINE_IO_TRANSFER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

/// Whole transfers out of system calls that may do a part of what they are
/// asked. The calls are parameters, so that tests can make every outcome.

namespace hearth::io {

/// pread: bytes read, 0 at the end of the file, or -1 with errno set.
using ReadCall =
    absl::FunctionRef<ssize_t(uint64_t offset, absl::Span<std::byte> out)>;

/// pwrite: bytes written, or -1 with errno set.
using WriteCall = absl::FunctionRef<ssize_t(uint64_t offset,
                                            absl::Span<const std::byte> data)>;

/// Waits before the `retry`th repetition, 1 .. kMaxReadRetries.
using BackOff = absl::FunctionRef<void(int retry)>;

/// Repetitions of a read that failed with EIO, before it counts as failed.
inline constexpr int kMaxReadRetries = 3;

/// How long to wait before the `retry`th repetition: 4, 16, 64 ms.
absl::Duration RetryDelay(int retry);

/// Fills `out` from `offset`: continues after short reads and EINTR, repeats
/// after EIO. DATA_LOSS naming the offset at which the file ended; otherwise
/// the status of the errno.
absl::Status ReadFully(ReadCall read, BackOff back_off, const std::string& path,
                       uint64_t offset, absl::Span<std::byte> out);

/// Writes all of `data` at `offset`: continues after short writes and EINTR.
/// No error is tried again: what reached the disk is unknown.
absl::Status WriteFully(WriteCall write, const std::string& path,
                        uint64_t offset, absl::Span<const std::byte> data);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_TRANSFER_H_
