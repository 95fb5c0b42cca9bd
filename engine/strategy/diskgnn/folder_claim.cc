#include "engine/strategy/diskgnn/folder_claim.h"

#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace hearth::strategy {
namespace {

struct Registry {
  absl::Mutex mutex;
  absl::CondVar changed;
  std::set<std::string> claimed ABSL_GUARDED_BY(mutex);
};

Registry& Claims() {
  static auto& registry = *new Registry();
  return registry;
}

}  // namespace

absl::StatusOr<FolderClaim> FolderClaim::Take(std::string folder,
                                              const std::stop_token& stop) {
  Registry& registry = Claims();
  const std::stop_callback wake(stop, [&registry] {
    absl::MutexLock lock(&registry.mutex);
    registry.changed.SignalAll();
  });
  absl::MutexLock lock(&registry.mutex);
  while (!stop.stop_requested() && registry.claimed.contains(folder)) {
    registry.changed.Wait(&registry.mutex);
  }
  if (stop.stop_requested()) {
    return absl::CancelledError(
        absl::StrCat(folder, ": waiting for it stopped on request"));
  }
  registry.claimed.insert(folder);
  return FolderClaim(std::move(folder));
}

FolderClaim::~FolderClaim() {
  if (folder_.empty()) return;
  Registry& registry = Claims();
  absl::MutexLock lock(&registry.mutex);
  registry.claimed.erase(folder_);
  registry.changed.SignalAll();
}

}  // namespace hearth::strategy
