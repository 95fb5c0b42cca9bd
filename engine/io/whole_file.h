#ifndef HEARTH_ENGINE_IO_WHOLE_FILE_H_
#define HEARTH_ENGINE_IO_WHOLE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"

namespace hearth::io {

/// Suffix of files and folders that are not finished. The holder of the data
/// directory's lock may remove leftovers.
inline constexpr char kTemporarySuffix[] = ".tmp";

/// Replaces the file `path` by `contents`, durably: writes `path`.tmp, syncs
/// it, renames it, syncs the directory. After an error the old file is whole.
absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view contents);

/// WriteFileAtomically for contents in `pieces`, written one after the other.
absl::Status WritePiecesAtomically(
    FileSystem& files, const std::string& path,
    absl::Span<const absl::Span<const std::byte>> pieces);

/// The folder that holds `path`: "." for a bare name.
std::string ParentDirectory(const std::string& path);

/// Contents of the file `path`. RESOURCE_EXHAUSTED if it is larger than
/// `limit_bytes`.
absl::StatusOr<std::string> ReadWholeFile(FileSystem& files,
                                          const std::string& path,
                                          uint64_t limit_bytes);

/// Path of a temporary file that others make; removes the file when destroyed.
/// A leftover, if removing fails, is overwritten by the next maker.
class ScratchFile {
 public:
  /// `files` outlives it.
  ScratchFile(FileSystem& files, std::string path)
      : files_(files), path_(std::move(path)) {}
  ~ScratchFile() { files_.RemoveTree(path_).IgnoreError(); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  FileSystem& files_;
  const std::string path_;
};

/// Writes a file from one end to the other, past the page cache, by large
/// aligned writes, and computes its CRC32C. Single-owner.
class StreamWriter {
 public:
  /// Memory of a writer.
  static constexpr uint64_t kBufferBytes = 256 << 10;

  /// Creates the file and reserves `size_bytes` for it: RESOURCE_EXHAUSTED if
  /// the disk is full.
  static absl::StatusOr<std::unique_ptr<StreamWriter>> Create(
      FileSystem& files, const std::string& path, uint64_t size_bytes);

  absl::Status Append(absl::Span<const std::byte> bytes);

  /// Makes the file durable, and closes it.
  absl::Status Finish();

  /// CRC32C of all bytes appended.
  uint32_t crc() const { return crc_; }

 private:
  StreamWriter(std::unique_ptr<WritableFile> file, AlignedMemory buffer)
      : file_(std::move(file)), buffer_(std::move(buffer)) {}

  absl::Status Flush();

  const std::unique_ptr<WritableFile> file_;
  AlignedMemory buffer_;
  size_t filled_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_WHOLE_FILE_H_
