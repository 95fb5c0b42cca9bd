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

/// The files behind FileSystem::Posix(): devices for random reads, files that
/// are written, and the guard of mappings. Private to file_system.cc and tests.

namespace hearth::io {

/// Unit of direct reads and writes: an alignment that every disk of today
/// accepts.
inline constexpr uint32_t kDirectAlignment = 4096;

/// Keeps the process alive when pages of a mapping cannot be read (SIGBUS),
/// because the file was cut or its disk fails. Such a page becomes a page of
/// zeros, and the guard remembers it: after reading a mapping, ask the guard
/// before using what was read. Faults outside of guarded mappings end the
/// process as before. Thread-safe.
class FaultGuard {
 public:
  /// Guards `pages`, a mapping. The first guard of the process installs the
  /// handler of SIGBUS. A guard beyond kMaxGuards at a time guards nothing.
  explicit FaultGuard(absl::Span<const std::byte> pages);
  /// REQUIRES: the mapping still exists.
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  /// Offset in bytes of the first page that a read found unreadable; nullopt if
  /// there was none.
  std::optional<uint64_t> first_fault() const;

  static constexpr size_t kMaxGuards = 4096;

 private:
  // Index in the table of guards; kMaxGuards: none.
  size_t index_;
};

/// FileSystem::OpenBlockDevice of the machine's file system. Direct, with the
/// alignment that the kernel tells (Linux 6.1), or else the first of 4096 and
/// the file system's block size with which a read succeeds; buffered where none
/// does.
absl::StatusOr<std::unique_ptr<BlockDevice>> OpenPosixBlockDevice(
    const std::string& path, const BlockDeviceOptions& options);

/// FileSystem::Create of the machine's file system.
absl::StatusOr<std::unique_ptr<WritableFile>> CreatePosixFile(
    const std::string& path);

/// FileSystem::CreateUncached of the machine's file system.
absl::StatusOr<std::unique_ptr<WritableFile>> CreateUncachedPosixFile(
    const std::string& path);

/// FileSystem::OpenForAppend of the machine's file system.
absl::StatusOr<std::unique_ptr<WritableFile>> OpenPosixFileForAppend(
    const std::string& path);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_POSIX_FILES_H_
