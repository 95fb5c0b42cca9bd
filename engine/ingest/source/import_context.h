#ifndef HEARTH_ENGINE_INGEST_SOURCE_IMPORT_CONTEXT_H_
#define HEARTH_ENGINE_INGEST_SOURCE_IMPORT_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Reports progress: the phase ("checking", "edges", "features", "counting"),
/// and its bytes done and in total. A total of 0 is unknown.
using ImportProgress =
    std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>;

/// Environment of one import or export, for all of its steps: file system,
/// memory limit of its buffers, scratch folder, progress and cancellation.
/// Single-owner.
class ImportContext {
 public:
  /// `files` must outlive the context; `progress` may be empty.
  /// `scratch_folder` and its parent need not exist: both are made when first
  /// needed.
  ImportContext(io::FileSystem& files, uint64_t memory_limit_bytes,
                std::string scratch_folder, ImportProgress progress,
                std::stop_token stop);

  io::FileSystem& files() { return files_; }
  uint64_t memory_limit_bytes() const { return memory_limit_bytes_; }

  /// A unique path in the scratch folder for a new file. The file may be left
  /// there: the folder is removed after the import.
  absl::StatusOr<std::string> NewScratchPath(absl::string_view name);

  /// RESOURCE_EXHAUSTED, with both numbers, if the disk of the scratch folder
  /// (and of the dataset) has less than `bytes` free; `what` names what needs
  /// them in the message.
  absl::Status CheckSpace(uint64_t bytes, absl::string_view what);

  /// Begins a phase of `total` bytes; 0 = unknown.
  void Begin(std::string phase, uint64_t total);

  /// Reports `bytes` more of the phase as done; to be called for every block.
  /// CANCELLED once a stop is requested.
  absl::Status Advance(uint64_t bytes);

 private:
  io::FileSystem& files_;
  const uint64_t memory_limit_bytes_;
  const std::string scratch_folder_;
  const ImportProgress progress_;
  const std::stop_token stop_;
  int num_scratch_files_ = 0;
  std::string phase_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_SOURCE_IMPORT_CONTEXT_H_
