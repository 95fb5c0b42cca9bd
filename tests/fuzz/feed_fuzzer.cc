// Packets of a feed's client, and what its job does meanwhile: each step is a
// byte that says what happens; for a packet, its length in two more bytes and
// its bytes. Whatever comes, the client holds no more than it may, and its
// connection ends with the first packet that is refused.
#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "engine/io/descriptor.h"
#include "hearth/v1/feeds.pb.h"
#include "server/feeds/feed_session.h"
#include "server/feeds/packet_sink.h"

namespace {

using hearth::feed::Channel;

constexpr int kCredits = 3;
constexpr size_t kMostPacket = 64 << 10;

void Check(bool holds) {
  if (!holds) std::abort();
}

// A job, its client's session, and the client's end of the socket.
class Feed {
 public:
  Feed() {
    std::array<int, 2> ends;
    Check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0,
                       ends.data()) == 0);
    client_.emplace(ends[0]);
    session_ = std::make_shared<hearth::server::FeedSession>(
        std::make_unique<hearth::server::PacketSink>(
            hearth::io::Descriptor(ends[1])),
        [this](const std::string& ticket) { return Redeem(ticket); });
  }
  ~Feed() { session_->Leave(); }

  // False once the connection has ended.
  bool Receive(absl::string_view packet) {
    return session_->Receive(packet).ok();
  }

  void Do(uint8_t step) {
    clock_.Advance(1);
    std::optional<hearth::feed::OpenPass> pass;
    switch (step % 7) {
      case 1:
        channel_->SetReady({.credits = kCredits});
        break;
      case 2:
        channel_->SetNotReady();
        break;
      case 3:
        if (channel_->demand(pass) == Channel::Demand::kPass) Deliver(*pass);
        break;
      case 4:
        if (channel_->demand(pass) == Channel::Demand::kPass) {
          channel_->EndPass(pass->number);
        }
        break;
      case 5:
        channel_->TakeEpochs();
        break;
      case 6:
        Read();
        break;
      default:
        Release();
    }
    Check(channel_->held_batches() <= kCredits);
  }

 private:
  absl::StatusOr<std::shared_ptr<Channel>> Redeem(const std::string& ticket) {
    if (ticket != "ticket") return absl::PermissionDeniedError("unknown");
    return channel_;
  }

  void Deliver(const hearth::feed::OpenPass& pass) {
    auto rows = pool_->TakeSlot(1);
    auto rest = pool_->TakeSlot(1);
    Check(rows.ok() && rest.ok());
    channel_->Deliver({.pass = pass.number,
                       .number = pass.next_batch,
                       .num_seeds = 1,
                       .arrays = arrays_,
                       .rows = *rows,
                       .rest = *rest});
  }

  // Reads what was sent, which is in order.
  void Read() {
    std::string buffer(kMostPacket, '\0');
    ssize_t bytes = 0;
    while ((bytes = ::recv(client_->get(), buffer.data(), buffer.size(), 0)) >
           0) {
      hearth::v1::FeedDown message;
      Check(message.ParseFromArray(buffer.data(), static_cast<int>(bytes)));
      if (message.has_batch()) held_.push_back(message.batch());
    }
  }

  // Gives the oldest batch back.
  void Release() {
    Read();
    if (held_.empty() || !channel_->has_client()) return;
    hearth::v1::FeedUp message;
    *message.mutable_release()->mutable_slots() = held_.front().slots();
    held_.pop_front();
    // A packet before may have given it back.
    Receive(message.SerializeAsString());
  }

  hearth::ManualClock clock_;
  const std::shared_ptr<Channel> channel_ = std::make_shared<Channel>(clock_);
  const std::shared_ptr<hearth::feed::SlotPool> pool_ =
      hearth::feed::SlotPool::Make(0);
  const hearth::feed::BatchArrays arrays_ = {.arrays = {{.name = "x"}}};
  std::optional<hearth::io::Descriptor> client_;
  std::deque<hearth::v1::FeedBatch> held_;
  std::shared_ptr<hearth::server::FeedSession> session_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  Feed feed;
  // Before that, the channel knows no bound of what a client may hold.
  feed.Do(1);
  while (!rest.empty()) {
    const auto step = static_cast<uint8_t>(rest.front());
    rest.remove_prefix(1);
    if (step != 0) {
      feed.Do(step);
      continue;
    }
    if (rest.size() < 2) break;
    const size_t length =
        static_cast<uint8_t>(rest[0]) |
        (static_cast<size_t>(static_cast<uint8_t>(rest[1])) << 8);
    rest.remove_prefix(2);
    const absl::string_view packet = rest.substr(0, length);
    rest.remove_prefix(packet.size());
    if (!feed.Receive(packet)) break;
  }
  return 0;
}
