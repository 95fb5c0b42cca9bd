#ifndef HEARTH_ENGINE_IO_READ_METRICS_H_
#define HEARTH_ENGINE_IO_READ_METRICS_H_

#include <memory>

#include "engine/io/read_queue.h"
#include "engine/metrics/registry.h"

namespace hearth::io {

/// The time series of all reads through some queues, brought up to date at each
/// collection; they exist as long as this: hearth_read_operations_total by
/// result, hearth_read_bytes_total, hearth_read_retries_total,
/// hearth_read_wait_seconds_total, hearth_reads_in_flight and the histogram
/// hearth_read_latency_seconds.
class ReadMetrics {
 public:
  virtual ~ReadMetrics() = default;
};

/// Both must outlive the result. `queues` are labelled by their kind.
std::unique_ptr<ReadMetrics> NewReadMetrics(metrics::Registry& registry,
                                            const ReadQueues& queues);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_READ_METRICS_H_
