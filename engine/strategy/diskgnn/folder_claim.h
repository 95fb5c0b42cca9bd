#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FOLDER_CLAIM_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FOLDER_CLAIM_H_

#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace hearth::strategy {

/// The right to change what is in a folder, within this process: who else wants
/// the same waits. So of two jobs with the same plan one makes it, and the
/// other one finds it. Move-only.
class FolderClaim {
 public:
  /// Waits until the folder is free. CANCELLED when `stop` is requested.
  static absl::StatusOr<FolderClaim> Take(std::string folder,
                                          const std::stop_token& stop);

  FolderClaim(FolderClaim&& other) noexcept
      : folder_(std::exchange(other.folder_, {})) {}
  FolderClaim& operator=(FolderClaim&&) = delete;
  ~FolderClaim();

 private:
  explicit FolderClaim(std::string folder) : folder_(std::move(folder)) {}

  // Empty: moved from.
  std::string folder_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FOLDER_CLAIM_H_
