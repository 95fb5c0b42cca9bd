#ifndef HEARTH_SERVER_CLUSTER_CHECKPOINT_COPY_H_
#define HEARTH_SERVER_CLUSTER_CHECKPOINT_COPY_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "hearth/v1/peers.pb.h"

/// A checkpoint on its way from the leader to a rank, as pieces.

namespace hearth::server {

/// Calls `send` with the pieces of the file `name` in `folder`, in order; with
/// one empty piece if `name` is empty: there is no checkpoint.
absl::Status SendCheckpoint(
    io::FileSystem& files, const std::string& folder, const std::string& name,
    absl::FunctionRef<void(const v1::CheckpointPiece&)> send);

/// Takes the pieces of a checkpoint. Single-owner.
class CheckpointReceiver {
 public:
  /// The file is made in `folder`. `files` outlives this.
  CheckpointReceiver(io::FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  /// Takes the next piece. True once the file is whole, checked, durable and in
  /// its place. DATA_LOSS if its digest is another; INVALID_ARGUMENT for a
  /// piece that does not fit.
  absl::StatusOr<bool> Take(const v1::CheckpointPiece& piece);

 private:
  absl::Status Begin(const std::string& name);
  absl::Status Finish(const std::string& sha256);

  io::FileSystem& files_;
  const std::string folder_;
  bool is_done_ = false;
  std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  Sha256 digest_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_CHECKPOINT_COPY_H_
