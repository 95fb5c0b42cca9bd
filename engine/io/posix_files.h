#ifndef HEARTH_ENGINE_IO_POSIX_FILES_H_
#define HEARTH_ENGINE_IO_POSIX_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// Keeps the process alive when pages of a mapping cannot be read: the file was
/// cut, or its disk fails (SIGBUS). Such a page becomes one of zeros, and the
/// guard remembers it: who reads a mapping asks the guard before it trusts what
/// it read. Faults elsewhere stay what they were. Thread-safe.
class FaultGuard {
 public:
  /// Guards `pages`, a mapping, from now on; the first guard of the process
  /// installs the handler of SIGBUS. One of more than kMaxGuards guards at a
  /// time guards nothing.
  explicit FaultGuard(absl::Span<const std::byte> pages);
  /// REQUIRES: the mapping is still there.
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  /// Offset, in bytes, of the first page found that could not be read; nullopt
  /// if all could.
  std::optional<uint64_t> first_fault() const;

  static constexpr size_t kMaxGuards = 4096;

 private:
  // Index in the table of guards; kMaxGuards: none.
  size_t index_;
};

/// FileSystem::OpenBlockDevice of the machine's file system. Direct, with the
/// alignment that the kernel tells (Linux 6.1) or that a first read shows to
/// work, 4096 or the file system's block size; buffered where none does.
absl::StatusOr<std::unique_ptr<BlockDevice>> OpenPosixBlockDevice(
    const std::string& path, const BlockDeviceOptions& options);

/// The files that FileSystem::Posix() creates (private).

/// FileSystem::Create.
absl::StatusOr<std::unique_ptr<WritableFile>> CreatePosixFile(
    const std::string& path);

/// FileSystem::CreateUncached.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncachedPosixFile(
    const std::string& path);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_POSIX_FILES_H_
