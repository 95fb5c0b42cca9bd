#ifndef HEARTH_SERVER_FEEDS_FEED_METRICS_H_
#define HEARTH_SERVER_FEEDS_FEED_METRICS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/feed/channel.h"
#include "engine/metrics/registry.h"

namespace hearth::server {

/// Time series of all feeds together. Not thread-safe.
class FeedMetrics {
 public:
  /// The channels of all feeds, by their jobs.
  using AllChannels = std::vector<
      std::pair<std::string, std::vector<std::shared_ptr<feed::Channel>>>>;

  /// `registry` outlives this.
  explicit FeedMetrics(metrics::Registry& registry);

  /// Counts what has come since the last call, and what there is now.
  void Update(const AllChannels& feeds);

 private:
  const std::unique_ptr<metrics::Counter> wait_;
  const std::unique_ptr<metrics::Counter> script_;
  const std::unique_ptr<metrics::Gauge> free_;
  const std::unique_ptr<metrics::Gauge> filled_;
  const std::unique_ptr<metrics::Gauge> held_;
  // Seconds that were counted, by job.
  std::map<std::string, feed::ClientSeconds> counted_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_FEED_METRICS_H_
