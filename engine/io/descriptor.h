#ifndef HEARTH_ENGINE_IO_DESCRIPTOR_H_
#define HEARTH_ENGINE_IO_DESCRIPTOR_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace hearth::io {

/// A file descriptor that closes itself; may be closed (-1).
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

/// open(2) with O_CLOEXEC, and mode 0644 where a file is created.
absl::StatusOr<Descriptor> OpenDescriptor(const std::string& path, int flags);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_DESCRIPTOR_H_
