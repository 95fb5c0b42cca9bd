#ifndef HEARTH_ENGINE_IO_READ_METRICS_H_
#define HEARTH_ENGINE_IO_READ_METRICS_H_

#include <memory>

#include "engine/io/read_queue.h"
#include "engine/metrics/registry.h"

namespace hearth::io {

/// Time series of all reads through `queues`, updated at each collection, for
/// as long as this exists: hearth_read_operations_total by result,
/// hearth_read_bytes_total, hearth_read_retries_total,
/// hearth_read_wait_seconds_total, hearth_reads_in_flight and the histogram
/// hearth_read_latency_seconds.
class ReadMetrics {
 public:
  virtual ~ReadMetrics() = default;
};

/// `registry` and `queues` must outlive the result. The label `queue` is
/// ReadQueues::kind().
std::unique_ptr<ReadMetrics> NewReadMetrics(metrics::Registry& registry,
                                            const ReadQueues& queues);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_METRICS_H_
