#include "engine/io/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::io {

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<Descriptor> OpenDescriptor(const std::string& path, int flags) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoStatus(errno, path, "opening");
  return Descriptor(fd);
}

absl::Duration RetryDelay(int retry) {
  return absl::Milliseconds(int64_t{1} << (2 * retry));
}

absl::Status ReadFully(ReadCall read, BackOff back_off, const std::string& path,
                       uint64_t offset, absl::Span<std::byte> out) {
  int retries = 0;
  while (!out.empty()) {
    const ssize_t count = read(offset, out);
    if (count > 0) {
      offset += static_cast<uint64_t>(count);
      out.remove_prefix(static_cast<size_t>(count));
      retries = 0;
    } else if (count == 0) {
      return absl::DataLossError(absl::StrCat(
          path, ": ends at byte ", offset, ", ", out.size(),
          out.size() == 1 ? " byte too early" : " bytes too early"));
    } else if (errno == EIO && retries < kMaxReadRetries) {
      back_off(++retries);
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, path, absl::StrCat("reading at byte ", offset));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteFully(WriteCall write, const std::string& path,
                        uint64_t offset, absl::Span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t count = write(offset, data);
    if (count > 0) {
      offset += static_cast<uint64_t>(count);
      data.remove_prefix(static_cast<size_t>(count));
    } else if (count == 0) {
      // pwrite of 0 bytes is not specified for regular files; the loop would
      // never end.
      return absl::UnavailableError(
          absl::StrCat(path, ": writing at byte ", offset, " has no effect"));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, path, absl::StrCat("writing at byte ", offset));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::io
