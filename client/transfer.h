#ifndef HEARTH_CLIENT_TRANSFER_H_
#define HEARTH_CLIENT_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/hearth_client.h"

namespace hearth::client {

/// The files below a folder of this machine, or one file, for an upload.
/// Single-owner.
class UploadFiles final : public UploadSource {
 public:
  /// Called with the bytes that are done, and in all.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  /// Finds the files and reads them once, for their digests. INVALID_ARGUMENT
  /// for a link to a folder, and for what is neither a file nor a folder;
  /// CANCELLED when `stop` is requested.
  static absl::StatusOr<std::unique_ptr<UploadFiles>> Find(
      const std::string& source, const Progress& on_progress,
      const std::stop_token& stop);

  /// The announcement of the files, without a name.
  const v1::BeginUploadRequest& request() const { return request_; }

  /// Sets who hears of what was sent.
  void set_on_sent(Progress on_sent) { on_sent_ = std::move(on_sent); }

  /// FAILED_PRECONDITION if a file has become shorter since.
  absl::StatusOr<std::string> Read(uint64_t offset, size_t limit) override;
  void OnSent(uint64_t offset) override;

 private:
  struct File {
    std::string path;
    // The place of its first byte in the upload.
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  UploadFiles() = default;

  // Adds a file, whose path in the upload is `name`.
  absl::Status Add(const std::string& path, const std::string& name);
  absl::Status AddFolder(const std::string& folder);
  absl::Status Digest(const Progress& on_progress, const std::stop_token& stop);

  v1::BeginUploadRequest request_;
  std::vector<File> files_;
  uint64_t size_ = 0;
  Progress on_sent_ = nullptr;
};

/// A folder for a model that is downloaded: model.safetensors and config.json,
/// as an export has them. Until they are whole they are in the folder PATH.part
/// beside it, with the model's digest in a file `sha256`; there, a download of
/// the same model goes on. Single-owner.
class ModelFolder : public ModelSink {
 public:
  /// Opens or goes on with PATH.part. ALREADY_EXISTS if there is something at
  /// `path`, unless its model is to be replaced; FAILED_PRECONDITION while
  /// another download to `path` is under way. `on_progress` is called with the
  /// bytes that are there, and in all.
  static absl::StatusOr<std::unique_ptr<ModelFolder>> Open(
      std::string path, bool replace,
      std::function<void(uint64_t done, uint64_t total)> on_progress);

  /// Puts the model, which has come, in its place, durably. DATA_LOSS if it
  /// does not have its digest.
  virtual absl::Status Finish() = 0;
};

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TRANSFER_H_
