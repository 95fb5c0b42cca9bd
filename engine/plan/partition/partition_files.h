#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_FILES_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_FILES_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/partition_index.h"

namespace hearth::plan {

/// The files of a partition while it is made: they get their names when all are
/// durable, the index last. Single-owner.
class PartitionFiles {
 public:
  /// `files` outlives the object.
  PartitionFiles(io::FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  /// Unless committed, removes all that is there of the partition.
  ~PartitionFiles();

  PartitionFiles(const PartitionFiles&) = delete;
  PartitionFiles& operator=(const PartitionFiles&) = delete;

  /// Makes the folder, if need be, and removes what is left of another
  /// partition: its index first, so that this never stands beside files of
  /// another one.
  absl::Status Begin();

  /// The path under which the file `name` is written.
  std::string Temporary(const char* name) const;

  /// The path of the scattered lists.
  std::string Scratch() const;
  absl::Status RemoveScratch() { return files_.RemoveTree(Scratch()); }

  /// Names all files, and writes the index. REQUIRES: they are durable.
  absl::Status Commit(const PartitionIndex& index);

 private:
  absl::Status RemoveAll();

  io::FileSystem& files_;
  const std::string folder_;
  bool committed_ = false;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_FILES_H_
