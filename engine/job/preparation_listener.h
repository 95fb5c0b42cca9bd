#ifndef HEARTH_ENGINE_JOB_PREPARATION_LISTENER_H_
#define HEARTH_ENGINE_JOB_PREPARATION_LISTENER_H_

#include "engine/job/observer.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// A listener that passes on a preparation's log and progress to `observer`,
/// which outlives it.
strategy::PreparationListener ListenFor(Observer& observer);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_PREPARATION_LISTENER_H_
