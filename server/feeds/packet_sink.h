#ifndef HEARTH_SERVER_FEEDS_PACKET_SINK_H_
#define HEARTH_SERVER_FEEDS_PACKET_SINK_H_

#include <utility>

#include "absl/status/status.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "engine/io/descriptor.h"
#include "hearth/v1/feeds.pb.h"
#include "server/feeds/feed_sink.h"

namespace hearth::server {

/// Sends each message as a packet of a socket, and slots as descriptors.
class PacketSink final : public FeedSink {
 public:
  /// `connection` is a socket of packets that does not block. It is shut down
  /// once a packet cannot be sent.
  explicit PacketSink(io::Descriptor connection)
      : connection_(std::move(connection)) {}

  absl::Status Send(const v1::FeedDown& message) override;
  absl::Status SendSlot(const v1::FeedDown& message,
                        const feed::Slot& slot) override;
  absl::Status SendBatch(const v1::FeedDown& message,
                         const feed::OutgoingBatch& batch) override;

 private:
  // With a descriptor, unless it is negative.
  absl::Status SendPacket(const v1::FeedDown& message, int descriptor);

  const io::Descriptor connection_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_PACKET_SINK_H_
