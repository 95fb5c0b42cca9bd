#ifndef HEARTH_CLIENT_MODEL_FOLDER_H_
#define HEARTH_CLIENT_MODEL_FOLDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/hearth_client.h"

namespace hearth::client {

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

#endif  // HEARTH_CLIENT_MODEL_FOLDER_H_
