#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_FILES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

/// The files of a plan under construction (PackFiles).

namespace hearth::strategy {

/// Scratch files of packing, in the plan's folder.
inline constexpr char kDispatchFile[] = "dispatch.tmp";
inline constexpr char kDiskOrderFile[] = "disk_order.tmp";
inline constexpr char kDiskRowsFile[] = "disk_rows.tmp";

/// The files of a plan while it is packed: they get their final names once all
/// are durable, the index last. Single-owner.
class PackFiles {
 public:
  /// `files` outlives the object.
  PackFiles(io::FileSystem& files, std::string folder);

  /// Unless committed, removes all files of the plan, scratch files included.
  ~PackFiles();

  PackFiles(const PackFiles&) = delete;
  PackFiles& operator=(const PackFiles&) = delete;

  /// Creates the folder if needed, and removes all files of another plan: its
  /// index first, so that an index never stands beside files of another plan.
  absl::Status Begin();

  /// The temporary path of the file `name`.
  std::string Temporary(const char* name) const;

  /// Removes the scratch files, renames the plan's files, and writes the index.
  /// REQUIRES: the plan's files are durable; the scratch files are not needed
  /// any more.
  absl::Status Commit(const PackedLayout& layout);

 private:
  absl::Status RemoveAll();
  absl::Status RemoveScratch();

  io::FileSystem& files_;
  const std::string folder_;
  bool committed_ = false;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_PACK_FILES_H_
