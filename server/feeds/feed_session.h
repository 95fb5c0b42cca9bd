#ifndef HEARTH_SERVER_FEEDS_FEED_SESSION_H_
#define HEARTH_SERVER_FEEDS_FEED_SESSION_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "hearth/v1/feeds.pb.h"
#include "server/feeds/feed_sink.h"

namespace hearth::server {

/// One connection of a client to its feed: turns messages into calls of the
/// channel, and batches into messages. Receive and Leave are called by one
/// thread; Send by those of jobs.
class FeedSession final : public feed::Client,
                          public std::enable_shared_from_this<FeedSession> {
 public:
  /// Returns the channel that a ticket is for.
  using Redeem = std::function<absl::StatusOr<std::shared_ptr<feed::Channel>>(
      const std::string& ticket)>;

  FeedSession(std::unique_ptr<FeedSink> sink, Redeem redeem)
      : sink_(std::move(sink)), redeem_(std::move(redeem)) {}

  /// Whether the client has shown its ticket.
  bool has_said_hello() const { return channel_ != nullptr; }

  /// Takes a message, here as a packet has it. After an error the connection is
  /// to be closed; the client has been told.
  absl::Status Receive(absl::string_view packet);
  absl::Status Receive(const v1::FeedUp& message);

  /// The connection is closed.
  void Leave();

  absl::Status Send(const feed::Welcome& welcome) override;
  absl::Status Send(const feed::OutgoingBatch& batch) override;
  absl::Status SendEnd(const feed::OpenPass& pass,
                       const absl::Status& status) override;
  void SendError(const absl::Status& error) override;

 private:
  absl::Status Handle(const v1::FeedUp& message);
  absl::Status SayHello(const std::string& ticket);
  absl::Status Announce(const feed::Slot& slot) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SendDropped() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::unique_ptr<FeedSink> sink_;
  const Redeem redeem_;
  std::shared_ptr<feed::Channel> channel_;
  absl::Mutex mutex_;
  // Slots that the client has been told of, by their ids.
  std::map<uint64_t, std::weak_ptr<const void>> announced_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_FEED_SESSION_H_
