#ifndef HEARTH_CLIENT_BACKOFF_H_
#define HEARTH_CLIENT_BACKOFF_H_

#include <stop_token>

#include "absl/time/time.h"

namespace hearth::client {

/// Pauses between attempts, each twice as long as the one before up to 20
/// times the first, within a limit of patience. Counts what it pauses, so that
/// no clock is needed. Single-owner.
class Backoff {
 public:
  Backoff(absl::Duration first, absl::Duration patience);

  /// Something worked: the next pause is the first again.
  void Reset();

  /// Pauses. False without pausing once patience is at its end, and at once
  /// when `stop` is requested.
  bool Pause(const std::stop_token& stop);

 private:
  absl::Duration first_;
  absl::Duration patience_;
  absl::Duration next_;
  absl::Duration paused_;
};

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_BACKOFF_H_
