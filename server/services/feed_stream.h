#ifndef HEARTH_SERVER_SERVICES_FEED_STREAM_H_
#define HEARTH_SERVER_SERVICES_FEED_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "absl/time/time.h"
#include "hearth/v1/feeds.pb.h"
#include "server/access/access_control.h"
#include "server/feeds/feeds.h"
#include "server/jobs/event_hub.h"
#include "server/services/call_guard.h"
#include "server/services/places.h"

namespace hearth::server {

/// The streams by which clients elsewhere take batches (Feeds.Stream): a thread
/// that speaks for all of them, and their number, which is limited since each
/// holds a piece of a slot in memory. Thread-safe.
class FeedStreams {
 public:
  /// Streams at a time: in all, and of one caller.
  static constexpr int kMost = 256;
  static constexpr int kMostOfCaller = 64;

  /// `patience`: time that a client may leave a message unread; then its stream
  /// ends.
  explicit FeedStreams(absl::Duration patience) : patience_(patience) {}

  absl::Duration patience() const { return patience_; }
  Places& places() { return places_; }
  /// Hub of the thread.
  EventHub& hub() { return hub_; }

 private:
  const absl::Duration patience_;
  Places places_{"streams of batches", kMost, kMostOfCaller};
  // Destroyed before the members above: its streams hold places.
  EventHub hub_;
};

/// Starts the stream of a client, which owns itself. All but `context` must
/// outlive the gRPC server, and `streams` all channels of `feeds`.
grpc::ServerBidiReactor<v1::FeedUp, v1::FeedDown>* StartFeedStream(
    FeedStreams& streams, const CallGuard& guard, AccessControl& access,
    Feeds& feeds, grpc::CallbackServerContext& context);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_FEED_STREAM_H_
