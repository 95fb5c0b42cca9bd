#include "engine/io/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "engine/base/status_annotate.h"

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

}  // namespace hearth::io
