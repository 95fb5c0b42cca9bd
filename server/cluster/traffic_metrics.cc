#include "server/cluster/traffic_metrics.h"

namespace hearth::server {

void TrafficMetrics::Add(const std::string& peer,
                         const LinkGroup::Traffic& added) {
  absl::MutexLock lock(&mutex_);
  Series& series = series_[peer];
  if (series.sent == nullptr) {
    const metrics::Labels labels = {{"peer", peer}};
    series.sent = registry_.NewCounter(
        "hearth_cluster_sent_bytes_total",
        "Bytes of gradients and agreements sent to a member of the cluster.",
        labels);
    series.received = registry_.NewCounter(
        "hearth_cluster_received_bytes_total",
        "Bytes of gradients and agreements got from a member of the cluster.",
        labels);
    series.wait = registry_.NewCounter(
        "hearth_cluster_wait_seconds_total",
        "Seconds in which a trainer waited for a member of the cluster, the "
        "last of several.",
        labels);
  }
  series.sent->Add(static_cast<double>(added.bytes_sent));
  series.received->Add(static_cast<double>(added.bytes_received));
  series.wait->Add(added.wait_seconds);
}

}  // namespace hearth::server
