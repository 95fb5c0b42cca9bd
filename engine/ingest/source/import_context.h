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

/// Called now and then with what is being done ("checking", "edges",
/// "features", "counting") and the bytes done and in all of that phase; a total
/// of 0 is unknown.
using ImportProgress =
    std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>;

/// The surroundings of every step of an import or export: files, how much
/// memory its buffers may take, a place for scratch files, and whom to tell how
/// far it is. Single-owner.
class ImportContext {
 public:
  /// `files` must outlive this. `progress` may be empty.
  /// `scratch_folder` is made when it is first needed; its parent may be, too.
  ImportContext(io::FileSystem& files, uint64_t memory_limit_bytes,
                std::string scratch_folder, ImportProgress progress,
                std::stop_token stop);

  io::FileSystem& files() { return files_; }
  uint64_t memory_limit_bytes() const { return memory_limit_bytes_; }

  /// A path in the scratch folder for a file that the import may leave there:
  /// it is removed with the folder, after the import. Names are made unique.
  absl::StatusOr<std::string> NewScratchPath(absl::string_view name);

  /// RESOURCE_EXHAUSTED, with the numbers, if the disk of the scratch folder
  /// (and of the dataset) has no room for `bytes` more; `what` needs them.
  absl::Status CheckSpace(uint64_t bytes, absl::string_view what);

  /// A phase of `total` bytes begins; 0 = unknown.
  void Begin(std::string phase, uint64_t total);

  /// `bytes` more of the phase are done. CANCELLED once a stop is requested:
  /// to be called for every block.
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
