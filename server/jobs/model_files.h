#ifndef HEARTH_SERVER_JOBS_MODEL_FILES_H_
#define HEARTH_SERVER_JOBS_MODEL_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/sha256.h"
#include "engine/io/file_system.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/data_dir.h"

namespace hearth::server {

/// The folder of a job's model, in the job's own folder: reports have the path
/// of before where the data directory was moved, or comes from a backup.
/// FAILED_PRECONDITION unless it is a train job that has SUCCEEDED and trained
/// a model.
absl::StatusOr<std::string> ModelFolder(const DataDir& data_dir,
                                        const v1::Job& job);

/// A model's file, read in pieces for a client. It is held open: a model that
/// takes its place, or its removal, changes nothing here. Holds no bytes
/// between calls. Single-owner.
class ModelReader {
 public:
  /// Bytes of a piece, and of a step of the digest.
  static constexpr size_t kPieceBytes = 256 << 10;
  static constexpr size_t kStepBytes = 4 << 20;

  /// Opens the model folder `folder`. DATA_LOSS, naming the file and what is
  /// wrong in it, if it is not whole. `files` must outlive the reader.
  static absl::StatusOr<std::unique_ptr<ModelReader>> Open(
      io::FileSystem& files, const std::string& folder);

  /// Reads on for the digest, by a step; false: there is more to read.
  absl::StatusOr<bool> Digest();

  /// The model. REQUIRES: Digest was true.
  const v1::Model& model() const { return model_; }

  /// The next piece from `offset` on; empty at the end.
  absl::StatusOr<std::string> Read(uint64_t offset);

 private:
  ModelReader() = default;

  std::unique_ptr<io::ReadableFile> file_;
  v1::Model model_;
  Sha256 digest_;
  uint64_t digested_ = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_MODEL_FILES_H_
