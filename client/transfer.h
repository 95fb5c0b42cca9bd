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

/// All files below a folder of this machine, or one file, for an upload.
/// Single-owner.
class UploadFiles final : public UploadSource {
 public:
  /// Called with the bytes that are done and the bytes in all.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;

  /// Finds the files at `source` and reads them once, for their digests.
  /// INVALID_ARGUMENT for links to folders and for anything but files and
  /// folders; CANCELLED when `stop` is requested.
  static absl::StatusOr<std::unique_ptr<UploadFiles>> Find(
      const std::string& source, const Progress& on_progress,
      const std::stop_token& stop);

  /// Announcement of the files, without the dataset's name.
  const v1::BeginUploadRequest& request() const { return request_; }

  /// Sets the function that is called after each message sent.
  void set_on_sent(Progress on_sent) { on_sent_ = std::move(on_sent); }

  /// As UploadSource::Read; FAILED_PRECONDITION if a file has become shorter.
  absl::StatusOr<std::string> Read(uint64_t offset, size_t limit) override;
  void OnSent(uint64_t offset) override;

 private:
  struct File {
    std::string path;
    // Offset of the file's first byte in the upload.
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  UploadFiles() = default;

  // Adds the file at `path`, called `name` in the upload.
  absl::Status Add(const std::string& path, const std::string& name);
  absl::Status AddFolder(const std::string& folder);
  absl::Status Digest(const Progress& on_progress, const std::stop_token& stop);

  v1::BeginUploadRequest request_;
  std::vector<File> files_;
  uint64_t size_ = 0;
  Progress on_sent_ = nullptr;
};

/// Folder for a downloaded model: model.safetensors and config.json, as in an
/// export. Until both are whole they are in PATH.part, next to PATH, with the
/// model's digest in a file `sha256`; a later download of the same model goes
/// on from there. Single-owner.
class ModelFolder : public ModelSink {
 public:
  /// Makes PATH.part, or goes on with it. ALREADY_EXISTS if `path` exists and
  /// not `replace`; FAILED_PRECONDITION while another download to `path` is
  /// under way. `on_progress` is called with the bytes that are there and the
  /// bytes in all.
  static absl::StatusOr<std::unique_ptr<ModelFolder>> Open(
      std::string path, bool replace,
      std::function<void(uint64_t done, uint64_t total)> on_progress);

  /// Moves the complete model to `path`, durably. DATA_LOSS if its digest is
  /// wrong.
  virtual absl::Status Finish() = 0;
};

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TRANSFER_H_
