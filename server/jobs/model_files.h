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

/// The model that a train job has left in its folder: where it is, and a reader
/// for downloads.

namespace hearth::server {

/// Folder of a job's model, in the job's own folder. (The path in a report may
/// be of before the data directory was moved or restored.) FAILED_PRECONDITION
/// unless the job is a train job that has SUCCEEDED and trained a model.
absl::StatusOr<std::string> ModelFolder(const DataDir& data_dir,
                                        const v1::Job& job);

/// Reads a model's file in pieces for a client. Keeps the file open, so that
/// replacing or removing the model changes nothing for the reader. Holds no
/// bytes between calls. Single-owner.
class ModelReader {
 public:
  /// Bytes of a piece that Read returns, and bytes that Digest reads at a time.
  static constexpr size_t kPieceBytes = 256 << 10;
  static constexpr size_t kStepBytes = 4 << 20;

  /// Opens the model folder `folder`. DATA_LOSS, naming the file and its fault,
  /// if it is damaged. `files` outlives the reader.
  static absl::StatusOr<std::unique_ptr<ModelReader>> Open(
      io::FileSystem& files, const std::string& folder);

  /// Reads the next kStepBytes for the digest; returns whether the digest is
  /// complete.
  absl::StatusOr<bool> Digest();

  /// The model. REQUIRES: Digest has returned true.
  const v1::Model& model() const { return model_; }

  /// Reads the piece at `offset`; empty at the end.
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
