#include "server/feeds/feed_metrics.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace hearth::server {
namespace {

std::unique_ptr<metrics::Gauge> SlotsThatAre(const std::string& state,
                                             metrics::Registry& registry) {
  return registry.NewGauge("hearth_feed_slots",
                           "Slots of memory for batches of feeds, by state.",
                           {{"state", state}});
}

}  // namespace

FeedMetrics::FeedMetrics(metrics::Registry& registry)
    : wait_(registry.NewCounter(
          "hearth_feed_wait_seconds_total",
          "Seconds that clients of feeds waited for batches.", {})),
      script_(registry.NewCounter(
          "hearth_feed_script_seconds_total",
          "Seconds that clients of feeds worked on batches.", {})),
      free_(SlotsThatAre("free", registry)),
      filled_(SlotsThatAre("filled", registry)),
      held_(SlotsThatAre("held", registry)) {}

void FeedMetrics::Update(const AllChannels& feeds) {
  feed::SlotCounts slots;
  std::map<std::string, feed::ClientSeconds> counted;
  for (const auto& [id, channels] : feeds) {
    feed::ClientSeconds& sum = counted[id];
    for (const auto& channel : channels) {
      const feed::ClientSeconds seconds = channel->seconds();
      sum.wait += seconds.wait;
      sum.script += seconds.script;
      const feed::SlotCounts more = channel->slots();
      slots.free += more.free;
      slots.filled += more.filled;
      slots.held += more.held;
    }
    // A job that goes on after its end begins with a new channel.
    const feed::ClientSeconds before = counted_[id];
    wait_->Add(std::max(0.0, sum.wait - before.wait));
    script_->Add(std::max(0.0, sum.script - before.script));
  }
  counted_ = std::move(counted);
  free_->Set(static_cast<double>(slots.free));
  filled_->Set(static_cast<double>(slots.filled));
  held_->Set(static_cast<double>(slots.held));
}

}  // namespace hearth::server
