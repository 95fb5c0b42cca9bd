#include "engine/io/read_metrics.h"

#include <string>
#include <vector>

#include "engine/io/read_queue.h"

namespace hearth::io {
namespace {

using metrics::Counter;
using metrics::Gauge;
using metrics::Histogram;
using metrics::Labels;
using metrics::Registry;

std::vector<double> LatencyBounds() {
  std::vector<double> bounds(kLatencyBounds);
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = LatencyBoundSeconds(i);
  return bounds;
}

class ReadMetricsImpl final : public ReadMetrics {
 public:
  ReadMetricsImpl(Registry& registry, const ReadQueues& queues)
      : queues_(queues), kind_(queues.kind()) {
    const Labels labels = {{"queue", kind_}};
    succeeded_ = NewOperations(registry, "ok");
    failed_ = NewOperations(registry, "error");
    bytes_ = registry.NewCounter("hearth_read_bytes_total",
                                 "Bytes read from storage.", labels);
    retries_ = registry.NewCounter("hearth_read_retries_total",
                                   "Reads tried again.", labels);
    reduced_ = registry.NewCounter(
        "hearth_read_queues_reduced_total",
        "Queues that got a smaller ring than they are deep, or threads in "
        "place "
        "of a ring, for lack of memory that may be locked, or of descriptors.",
        labels);
    wait_ = registry.NewCounter(
        "hearth_read_wait_seconds_total",
        "Seconds that threads waited for reads, with nothing else to do.",
        labels);
    in_flight_ = registry.NewGauge("hearth_reads_in_flight",
                                   "Reads in flight now.", labels);
    latency_ = registry.NewHistogram(
        "hearth_read_latency_seconds",
        "Seconds from the submission of a read to its delivery.", labels,
        LatencyBounds());
    hook_ = registry.NewCollectHook([this] { Update(); });
  }

 private:
  std::unique_ptr<Counter> NewOperations(Registry& registry,
                                         const std::string& result) const {
    return registry.NewCounter("hearth_read_operations_total",
                               "Reads from storage, by how they ended.",
                               {{"queue", kind_}, {"result", result}});
  }

  // Called by the hook, one collection at a time.
  void Update() {
    const ReadStatistics now = queues_.statistics();
    const auto add = [](Counter& counter, double value, double last) {
      if (value > last) counter.Add(value - last);
    };
    const auto count = [&](Counter& counter, int64_t value, int64_t last) {
      add(counter, static_cast<double>(value), static_cast<double>(last));
    };
    count(*succeeded_, now.reads - now.failed_reads,
          last_.reads - last_.failed_reads);
    count(*failed_, now.failed_reads, last_.failed_reads);
    count(*bytes_, now.bytes, last_.bytes);
    count(*retries_, now.retries, last_.retries);
    count(*reduced_, now.reduced_queues, last_.reduced_queues);
    add(*wait_, now.wait_seconds, last_.wait_seconds);
    in_flight_->Set(static_cast<double>(now.in_flight));
    std::vector<double> counts;
    for (size_t i = 0; i < now.latency_counts.size(); ++i) {
      counts.push_back(
          static_cast<double>(now.latency_counts[i] - last_.latency_counts[i]));
    }
    latency_->ObserveCounts(counts,
                            now.latency_seconds - last_.latency_seconds);
    last_ = now;
  }

  const ReadQueues& queues_;
  const std::string kind_;
  ReadStatistics last_;
  std::unique_ptr<Counter> succeeded_;
  std::unique_ptr<Counter> failed_;
  std::unique_ptr<Counter> bytes_;
  std::unique_ptr<Counter> retries_;
  std::unique_ptr<Counter> reduced_;
  std::unique_ptr<Counter> wait_;
  std::unique_ptr<Gauge> in_flight_;
  std::unique_ptr<Histogram> latency_;
  // Declared last, so that it is destroyed first and updates no destroyed
  // series.
  std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace

std::unique_ptr<ReadMetrics> NewReadMetrics(Registry& registry,
                                            const ReadQueues& queues) {
  return std::make_unique<ReadMetricsImpl>(registry, queues);
}

}  // namespace hearth::io
