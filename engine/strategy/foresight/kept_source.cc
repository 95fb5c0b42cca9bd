#include "engine/strategy/foresight/kept_source.h"

#include <utility>

#include "engine/base/status.h"

namespace hearth::strategy {

absl::StatusOr<std::shared_ptr<const OpenedSource>> KeptSource::Open(
    const std::string& scratch_folder, const std::stop_token& stop) {
  absl::MutexLock lock(&mutex_);
  if (kept_ != nullptr) return kept_;
  HEARTH_ASSIGN_OR_RETURN(
      OpenedSource opened,
      OpenSource(dataset_, labels_, place_, files_, scratch_folder, stop));
  auto source = std::make_shared<const OpenedSource>(std::move(opened));
  if (place_ != TopologyPlace::kSlabs) kept_ = source;
  return source;
}

}  // namespace hearth::strategy
