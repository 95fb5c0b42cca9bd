#ifndef HEARTH_ENGINE_JOB_DATA_NODES_FILE_H_
#define HEARTH_ENGINE_JOB_DATA_NODES_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/store/topology.h"

/// Files of nodes that clients choose as seeds (NodesFile): a .npy of int64 ids
/// among the nodes of one type, all different.

namespace hearth::job {

/// Checks ids piece by piece. Single-owner.
class NodeChecker {
 public:
  explicit NodeChecker(int64_t num_nodes)
      : has_come_(static_cast<size_t>(num_nodes)) {}

  /// Bytes that a checker takes.
  static uint64_t MemoryBytes(int64_t num_nodes) {
    return static_cast<uint64_t>(num_nodes) / 8 + 1;
  }

  /// INVALID_ARGUMENT, naming the position of the first wrong id among all
  /// that have come, if it is not from 0 to num_nodes - 1 or comes twice.
  absl::Status Check(absl::Span<const store::NodeId> ids);

 private:
  std::vector<bool> has_come_;
  int64_t next_position_ = 0;
};

/// Writes a file of nodes, which appears at its path when it is whole. Removes
/// what it has written if it is destroyed before. Single-owner.
class NodesFileWriter {
 public:
  /// Writes `file` by way of `temporary_path`, in the same folder. `files`
  /// outlives the writer.
  static absl::StatusOr<std::unique_ptr<NodesFileWriter>> Create(
      io::FileSystem& files, const NodesFile& file, std::string temporary_path,
      int64_t num_nodes);
  ~NodesFileWriter();
  NodesFileWriter(const NodesFileWriter&) = delete;
  NodesFileWriter& operator=(const NodesFileWriter&) = delete;

  /// The next ids, 8 bytes each, little-endian. INVALID_ARGUMENT as of
  /// NodeChecker, or if these are no whole ids or too many.
  absl::Status Append(absl::Span<const std::byte> ids);

  /// All ids have come: makes the file durable. INVALID_ARGUMENT if there are
  /// too few, or if they do not have the digest. Call once.
  absl::Status Finish();

 private:
  NodesFileWriter(io::FileSystem& files, NodesFile file,
                  std::string temporary_path, int64_t num_nodes)
      : files_(files),
        file_(std::move(file)),
        temporary_path_(std::move(temporary_path)),
        checker_(num_nodes) {}

  io::FileSystem& files_;
  const NodesFile file_;
  const std::string temporary_path_;
  NodeChecker checker_;
  Sha256 digest_;
  int64_t count_ = 0;
  // Null once the file is in its place.
  std::unique_ptr<io::WritableFile> out_;
};

/// The nodes in `file`, which are of a type with `num_nodes` nodes. DATA_LOSS,
/// naming the file, if it is not as it was written.
absl::StatusOr<std::vector<store::NodeId>> LoadNodesFile(io::FileSystem& files,
                                                         const NodesFile& file,
                                                         int64_t num_nodes);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_NODES_FILE_H_
