#ifndef HEARTH_ENGINE_IO_THREAD_QUEUE_H_
#define HEARTH_ENGINE_IO_THREAD_QUEUE_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/read_statistics.h"

namespace hearth::io {

/// The most threads of one queue; a deeper one keeps the rest waiting.
inline constexpr size_t kMaxReadThreads = 64;

/// A queue whose reads are made by threads of its own that block in pread: for
/// kernels that forbid io_uring. Registers nothing. `counters` and `clock`
/// outlive it. RESOURCE_EXHAUSTED if the system gives no threads.
absl::StatusOr<std::unique_ptr<ReadQueue>> NewThreadQueue(
    size_t depth, ReadCounters& counters, const Clock& clock = Clock::Real());

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_THREAD_QUEUE_H_
