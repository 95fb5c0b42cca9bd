#ifndef HEARTH_ENGINE_INGEST_TESTS_FLIPPING_FILE_SYSTEM_FIXTURE_H_
#define HEARTH_ENGINE_INGEST_TESTS_FLIPPING_FILE_SYSTEM_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The machine's file system with one bit flipped in one byte of one file,
/// without writing to it. Thread-safe, except Flip.
class FlippingFileSystem final : public io::ForwardingFileSystem {
 public:
  FlippingFileSystem() : ForwardingFileSystem(io::FileSystem::Posix()) {}

  /// Flips a bit of the byte at `offset` of `path`; all other bytes are as on
  /// the disk.
  void Flip(const std::string& path, uint64_t offset);

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForRead(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForScan(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<io::BlockDevice>> OpenBlockDevice(
      const std::string& path, const io::BlockDeviceOptions& options) override;

 private:
  std::string path_;
  uint64_t offset_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_TESTS_FLIPPING_FILE_SYSTEM_FIXTURE_H_
