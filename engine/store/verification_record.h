#ifndef HEARTH_ENGINE_STORE_VERIFICATION_RECORD_H_
#define HEARTH_ENGINE_STORE_VERIFICATION_RECORD_H_

#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/io/file_system.h"

namespace hearth::store {

/// Remembers the files that were read whole and matched their checksums, for
/// as long as they do not change: so each is verified once in the life of the
/// process, not once a job. Thread-safe.
class VerificationRecord {
 public:
  /// Whether the file was verified in the state `info`.
  bool Holds(const std::string& path, const io::FileInfo& info) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto found = verified_.find(path);
    return found != verified_.end() && found->second == StateOf(info);
  }

  void Add(const std::string& path, const io::FileInfo& info)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    verified_[path] = StateOf(info);
  }

 private:
  // Size and time of the last change, which nobody can set at will.
  using State = std::pair<uint64_t, absl::Time>;

  static State StateOf(const io::FileInfo& info) {
    return {info.size_bytes, info.changed};
  }

  mutable absl::Mutex mutex_;
  std::map<std::string, State> verified_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_VERIFICATION_RECORD_H_
