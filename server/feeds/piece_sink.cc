#include "server/feeds/piece_sink.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/feed/batch_layout.h"

namespace hearth::server {
namespace {

// First byte, and the one after the last, that the arrays of `batch` take in
// the slot of its rows, or in the other one.
std::pair<uint64_t, uint64_t> RangeOf(const feed::OutgoingBatch& batch,
                                      bool in_rows) {
  uint64_t begin = in_rows ? batch.rows->bytes() : batch.rest->bytes();
  uint64_t end = 0;
  for (const feed::Array& array : batch.arrays.arrays) {
    if (array.in_rows != in_rows || array.bytes() == 0) continue;
    begin = std::min(begin, array.offset);
    end = std::max(end, array.offset + array.bytes());
  }
  return {begin, end};
}

}  // namespace

absl::Status PieceSink::Send(const v1::FeedDown& message) {
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return absl::CancelledError("the stream has ended");
    if (message.has_welcome()) credits_ = message.welcome().credits();
    if (messages_ >= kMostMessages) return Lose();
    ++messages_;
    items_.push_back({.message = message});
  }
  wake_();
  return absl::OkStatus();
}

absl::Status PieceSink::SendSlot(const v1::FeedDown& message,
                                 const feed::Slot& /*slot*/) {
  return Send(message);
}

absl::Status PieceSink::SendBatch(const v1::FeedDown& message,
                                  const feed::OutgoingBatch& batch) {
  {
    absl::MutexLock lock(&mutex_);
    if (is_closed_) return absl::CancelledError("the stream has ended");
    if (batches_ >= credits_) return Lose();
    for (const bool in_rows : {true, false}) {
      const auto [begin, end] = RangeOf(batch, in_rows);
      if (begin >= end) continue;
      items_.push_back({.slot = in_rows ? batch.rows : batch.rest,
                        .begin = begin,
                        .end = end});
    }
    ++batches_;
    items_.push_back({.message = message});
  }
  wake_();
  return absl::OkStatus();
}

absl::Status PieceSink::Lose() {
  is_lost_ = true;
  wake_();
  return absl::ResourceExhaustedError(
      "the client does not read what it has asked for");
}

bool PieceSink::Next(v1::FeedDown& message) {
  std::shared_ptr<feed::Slot> slot;
  uint64_t begin = 0;
  uint64_t bytes = 0;
  {
    absl::MutexLock lock(&mutex_);
    if (items_.empty()) return false;
    Item& item = items_.front();
    if (item.slot == nullptr) {
      --(item.message.has_batch() ? batches_ : messages_);
      has_ended_ = has_ended_ || item.message.has_error();
      message = std::move(item.message);
      items_.pop_front();
      return true;
    }
    slot = item.slot;
    begin = item.begin;
    bytes = std::min(kPieceBytes, item.end - item.begin);
    item.begin += bytes;
    if (item.begin == item.end) items_.pop_front();
  }
  // Without the lock, which those who send may wait for.
  v1::FeedPiece& piece = *message.mutable_piece();
  piece.set_slot(slot->id());
  piece.set_offset(begin);
  piece.set_data(slot->data() + begin, bytes);
  return true;
}

bool PieceSink::has_ended() const {
  absl::MutexLock lock(&mutex_);
  return has_ended_;
}

bool PieceSink::is_lost() const {
  absl::MutexLock lock(&mutex_);
  return is_lost_;
}

void PieceSink::Close() {
  // Slots go back to their pools without the lock.
  std::deque<Item> items;
  absl::MutexLock lock(&mutex_);
  is_closed_ = true;
  items_.swap(items);
}

}  // namespace hearth::server
