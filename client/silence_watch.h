#ifndef HEARTH_CLIENT_SILENCE_WATCH_H_
#define HEARTH_CLIENT_SILENCE_WATCH_H_

#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"

namespace hearth::client {

/// Tells when the other side has not been heard for too long, and when it is
/// heard again. Thread-safe.
class SilenceWatch {
 public:
  /// Called with the length of the silence, once for each that lasts `limit`,
  /// on a thread of this object; with zero, on that of Heard, when it is over.
  /// Not called between Heard and Lost.
  using Notice = std::function<void(absl::Duration)>;

  /// The other side counts as heard. Without a `notice` nothing is watched.
  SilenceWatch(absl::Duration limit, Notice notice,
               const Clock& clock = Clock::Real());
  ~SilenceWatch();
  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  /// Something has come from the other side.
  void Heard() ABSL_LOCKS_EXCLUDED(mutex_);

  /// From now on nothing comes; it has been silent for `before` already.
  /// Nothing happens if that is known.
  void Lost(absl::Duration before) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration limit_;
  const Notice notice_;
  const Clock& clock_;
  absl::Mutex mutex_;
  absl::CondVar changed_;
  // On the steady clock; absent while the other side is heard.
  std::optional<double> silent_since_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
  bool exiting_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_;
};

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_SILENCE_WATCH_H_
