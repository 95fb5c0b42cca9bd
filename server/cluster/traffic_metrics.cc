#include "server/cluster/traffic_metrics.h"

namespace hearth::server {

TrafficMetrics::Bytes TrafficMetrics::NewBytes(const std::string& peer,
                                               const char* what) {
  const metrics::Labels labels = {{"peer", peer}, {"what", what}};
  return {.sent = registry_.NewCounter(
              "hearth_cluster_sent_bytes_total",
              "Bytes sent to a member of the cluster: of gradients and "
              "agreements, or of feature rows.",
              labels),
          .received = registry_.NewCounter(
              "hearth_cluster_received_bytes_total",
              "Bytes got from a member of the cluster: of gradients and "
              "agreements, or of feature rows.",
              labels)};
}

TrafficMetrics::Series& TrafficMetrics::Of(const std::string& peer) {
  Series& series = series_[peer];
  if (series.wait == nullptr) {
    series.gradients = NewBytes(peer, "gradients");
    series.rows = NewBytes(peer, "rows");
    series.wait = registry_.NewCounter(
        "hearth_cluster_wait_seconds_total",
        "Seconds in which a trainer waited for a member of the cluster, the "
        "last of several.",
        {{"peer", peer}});
  }
  return series;
}

void TrafficMetrics::Add(const std::string& peer,
                         const LinkGroup::Traffic& added) {
  absl::MutexLock lock(&mutex_);
  Series& series = Of(peer);
  series.gradients.sent->Add(static_cast<double>(added.bytes_sent));
  series.gradients.received->Add(static_cast<double>(added.bytes_received));
  series.wait->Add(added.wait_seconds);
}

void TrafficMetrics::AddRows(const std::string& peer, uint64_t sent,
                             uint64_t received) {
  absl::MutexLock lock(&mutex_);
  Series& series = Of(peer);
  series.rows.sent->Add(static_cast<double>(sent));
  series.rows.received->Add(static_cast<double>(received));
}

}  // namespace hearth::server
