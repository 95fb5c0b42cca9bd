#ifndef HEARTH_SERVER_FEEDS_PIECE_SINK_H_
#define HEARTH_SERVER_FEEDS_PIECE_SINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "hearth/v1/feeds.pb.h"
#include "server/feeds/feed_sink.h"

namespace hearth::server {

/// Keeps messages until a stream writes them, one after the other (Next), and
/// before that of a batch the bytes of its slots, in pieces. A slot is kept
/// until all of its bytes were taken, even if the client releases it before.
class PieceSink final : public FeedSink {
 public:
  /// Greatest number of bytes of a piece.
  static constexpr uint64_t kPieceBytes = 1 << 20;
  /// Messages, those of batches apart, that a client may leave unread.
  static constexpr size_t kMostMessages = 256;

  /// `wake` is called, on any thread, when there is something to write, or the
  /// client is lost.
  explicit PieceSink(std::function<void()> wake) : wake_(std::move(wake)) {}

  absl::Status Send(const v1::FeedDown& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SendSlot(const v1::FeedDown& message,
                        const feed::Slot& slot) override;
  /// RESOURCE_EXHAUSTED if the client has left as many batches unread as it may
  /// hold: it has released what it did not have yet.
  absl::Status SendBatch(const v1::FeedDown& message,
                         const feed::OutgoingBatch& batch) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Takes the next message to write. False: there is none at present.
  bool Next(v1::FeedDown& message) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether nothing follows: FeedDown.error was taken.
  bool has_ended() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// Whether the client has left more unread than it may.
  bool is_lost() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Forgets all, and takes nothing more. `wake` is not called any more, but by
  /// a call that is under way.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A message, or, with a slot, the bytes of it that are left to be sent.
  struct Item {
    v1::FeedDown message = {};
    std::shared_ptr<feed::Slot> slot = nullptr;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  absl::Status Lose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<void()> wake_;
  mutable absl::Mutex mutex_;
  std::deque<Item> items_ ABSL_GUARDED_BY(mutex_);
  // Among the items: messages of batches, and others.
  size_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  // Batches that the client may hold, by the last welcome.
  size_t credits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_PIECE_SINK_H_
