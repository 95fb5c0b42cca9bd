#ifndef HEARTH_ENGINE_JOB_PREPARATION_LISTENER_H_
#define HEARTH_ENGINE_JOB_PREPARATION_LISTENER_H_

#include "engine/job/observer.h"
#include "engine/strategy/strategy.h"

namespace hearth::job {

/// Passes on to `observer`, which outlives it, what a preparation has to say.
strategy::PreparationListener ListenFor(Observer& observer);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_PREPARATION_LISTENER_H_
