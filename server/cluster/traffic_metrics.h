#ifndef HEARTH_SERVER_CLUSTER_TRAFFIC_METRICS_H_
#define HEARTH_SERVER_CLUSTER_TRAFFIC_METRICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/metrics/registry.h"
#include "server/cluster/link_group.h"

namespace hearth::server {

/// Series of what this daemon exchanges with each other member. Thread-safe.
class TrafficMetrics {
 public:
  /// `registry` outlives this.
  explicit TrafficMetrics(metrics::Registry& registry) : registry_(registry) {}

  /// Counts what has been added since the last call, with the member `peer`.
  void Add(const std::string& peer, const LinkGroup::Traffic& added)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// Counts bytes of feature rows.
  void AddRows(const std::string& peer, uint64_t sent, uint64_t received)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Bytes {
    std::unique_ptr<metrics::Counter> sent;
    std::unique_ptr<metrics::Counter> received;
  };
  struct Series {
    Bytes gradients;
    Bytes rows;
    std::unique_ptr<metrics::Counter> wait;
  };

  Bytes NewBytes(const std::string& peer, const char* what);
  Series& Of(const std::string& peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  metrics::Registry& registry_;
  absl::Mutex mutex_;
  std::map<std::string, Series> series_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_TRAFFIC_METRICS_H_
