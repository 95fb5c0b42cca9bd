#ifndef HEARTH_SERVER_FEEDS_FEED_SINK_H_
#define HEARTH_SERVER_FEEDS_FEED_SINK_H_

#include "absl/status/status.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "hearth/v1/feeds.pb.h"

namespace hearth::server {

/// Where the messages of a FeedSession go: to a client of the socket
/// (PacketSink), or of a stream (PieceSink). Calls do not block; an error means
/// that the client is lost. Thread-safe.
class FeedSink {
 public:
  virtual ~FeedSink() = default;

  virtual absl::Status Send(const v1::FeedDown& message) = 0;
  /// Sends `message`, which announces `slot`.
  virtual absl::Status SendSlot(const v1::FeedDown& message,
                                const feed::Slot& slot) = 0;
  /// Sends `message`, which tells of `batch`; its slots were sent before.
  virtual absl::Status SendBatch(const v1::FeedDown& message,
                                 const feed::OutgoingBatch& batch) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_FEED_SINK_H_
