#ifndef HEARTH_CLIENT_UPLOAD_FILES_H_
#define HEARTH_CLIENT_UPLOAD_FILES_H_

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

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_UPLOAD_FILES_H_
