#ifndef HEARTH_ENGINE_IO_URING_QUEUE_H_
#define HEARTH_ENGINE_IO_URING_QUEUE_H_

#include <cstddef>
#include <memory>

#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/read_statistics.h"
#include "engine/io/uring.h"

namespace hearth::io {

/// A queue over a ring made for `entries` or more, at least 1; where these are
/// fewer than `depth`, the other reads wait in the queue. A device without a
/// descriptor is read during Submit. `counters` and `clock` outlive it.
std::unique_ptr<ReadQueue> NewUringQueue(std::unique_ptr<Ring> ring,
                                         size_t entries, size_t depth,
                                         ReadCounters& counters,
                                         const Clock& clock = Clock::Real());

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_URING_QUEUE_H_
