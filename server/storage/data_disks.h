#ifndef HEARTH_SERVER_STORAGE_DATA_DISKS_H_
#define HEARTH_SERVER_STORAGE_DATA_DISKS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_store.h"
#include "server/storage/folder_lock.h"

namespace hearth::server {

/// Folders on disks of their own, over which jobs stripe features. In each the
/// daemon has a folder of plans:
///
///   FOLDER/hearth/hearth.lock   locked while a daemon uses it
///   FOLDER/hearth/PLAN/         a plan (plan::PlanStore)
///
/// Holds the locks until destroyed. Thread-safe.
class DataDisks {
 public:
  static constexpr char kFolderName[] = "hearth";

  /// Makes the folders of plans, whose owner alone can enter them, and removes
  /// what was left unfinished of removals. `files` and `clock` outlive it. Each
  /// error begins with "--data-disk FOLDER: ": FAILED_PRECONDITION if it is not
  /// there, INVALID_ARGUMENT if it is named twice, UNAVAILABLE if another
  /// daemon uses it, and errors of writing.
  static absl::StatusOr<std::unique_ptr<DataDisks>> Open(
      io::FileSystem& files, const Clock& clock,
      const std::vector<std::string>& folders);

  /// In the order of the folders.
  absl::Span<plan::PlanStore* const> stores() const { return stores_; }
  const std::vector<std::string>& folders() const { return folders_; }
  /// A sentence for each folder on the file system of an earlier one.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  DataDisks() = default;

  std::vector<std::string> folders_;
  std::vector<std::string> warnings_;
  std::vector<FolderLock> locks_;
  std::vector<std::unique_ptr<plan::PlanStore>> owned_;
  std::vector<plan::PlanStore*> stores_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DATA_DISKS_H_
