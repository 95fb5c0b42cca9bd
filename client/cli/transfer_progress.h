#ifndef HEARTH_CLIENT_CLI_TRANSFER_PROGRESS_H_
#define HEARTH_CLIENT_CLI_TRANSFER_PROGRESS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"

namespace hearth::cli {

/// Shows how far bytes have come, as the progress of a job is shown: a live
/// line on a terminal, else a line for each phase. Single-owner.
class TransferProgress {
 public:
  explicit TransferProgress(Session& session);

  /// `done` bytes of `total` of `phase` ("downloading") have come.
  void Show(const std::string& phase, uint64_t done, uint64_t total);

  /// Takes the live line away. Call before anything else is written.
  void Clear() { display_->Clear(); }

 private:
  const std::unique_ptr<ProgressDisplay> display_;
  std::string phase_;
  absl::Time shown_ = absl::InfinitePast();
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_TRANSFER_PROGRESS_H_
