#include "server/front/http_guards.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"

namespace hearth::server {

namespace {

constexpr absl::string_view kEnd = "\r\n\r\n";

class HttpGuard final : public Guard {
 public:
  absl::Status OnClientBytes(absl::string_view bytes) override {
    bytes_ += bytes.size();
    for (const char c : bytes) {
      if (matched_ == kEnd.size()) break;
      matched_ = c == kEnd[matched_] ? matched_ + 1 : (c == kEnd[0] ? 1 : 0);
    }
    if (bytes_ <= kMaxHttpRequestBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "its request has more than ", kMaxHttpRequestBytes, " bytes"));
  }

  absl::Status OnServerBytes(absl::string_view) override {
    return absl::OkStatus();
  }

  bool HasOpened() const override { return matched_ == kEnd.size(); }
  // The client has asked, and waits for its answer.
  bool IsIdle() const override { return false; }

 private:
  size_t bytes_ = 0;
  // Number of bytes of kEnd that came last.
  size_t matched_ = 0;
};

}  // namespace

std::unique_ptr<Guard> NewHttpGuard() { return std::make_unique<HttpGuard>(); }

namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
};
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kAck = 1;
constexpr uint32_t kNoError = 0;

struct Frame {
  size_t payload_bytes = 0;
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;
  // First four bytes of the payload; 0 = it has fewer.
  uint32_t first_word = 0;
};

uint32_t WordAt(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 |
         uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

// Cuts the bytes of one direction into frames.
class FrameReader {
 public:
  // Calls `take` for each frame whose head, with the first word of its payload,
  // is complete.
  template <typename Take>
  absl::Status Read(absl::string_view bytes, const Take& take) {
    while (!bytes.empty()) {
      const size_t wanted = head_bytes_ < kHead ? kHead : kHead + kWord;
      if (payload_left_ > 0) {
        const size_t skipped = std::min(payload_left_, bytes.size());
        payload_left_ -= skipped;
        bytes.remove_prefix(skipped);
        continue;
      }
      const size_t count = std::min(wanted - head_bytes_, bytes.size());
      std::copy_n(bytes.begin(), count, head_.begin() + head_bytes_);
      head_bytes_ += count;
      bytes.remove_prefix(count);
      if (head_bytes_ < kHead) return absl::OkStatus();
      const size_t payload = WordAt(head_.data()) >> 8;
      if (payload >= kWord && head_bytes_ < kHead + kWord) continue;
      Frame frame = {.payload_bytes = payload,
                     .type = head_[3],
                     .flags = head_[4],
                     .stream = WordAt(&head_[5]) & 0x7fffffff};
      if (payload >= kWord) frame.first_word = WordAt(&head_[kHead]);
      payload_left_ = payload - (payload >= kWord ? kWord : 0);
      head_bytes_ = 0;
      HEARTH_RETURN_IF_ERROR(take(frame));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kHead = 9;
  static constexpr size_t kWord = 4;

  std::array<uint8_t, kHead + kWord> head_ = {};
  size_t head_bytes_ = 0;
  size_t payload_left_ = 0;
};

// Whether the server's `frame` gives a client reason to send a frame that
// carries nothing: an answer, or a ping to measure bandwidth.
bool CallsForAFrame(const Frame& frame) {
  switch (frame.type) {
    case kData:
      return frame.payload_bytes > 0;
    case kPing:
    case kSettings:
      return (frame.flags & kAck) == 0;
    default:
      return false;
  }
}

absl::Status TooMany(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("too many ", what));
}

struct ClientAddress {
  explicit ClientAddress(const Http2Limits& limits)
      : resets(limits.resets_per_address) {}

  bool IsIdle(double now) const {
    return connections == 0 && resets.IsFull(now);
  }

  RateLimiter resets;
  size_t connections = 0;
  size_t streams = 0;
};

class Http2Guard final : public Guard {
 public:
  Http2Guard(const Clock& clock, const Http2Limits& limits,
             ClientAddress& address)
      : clock_(clock),
        limits_(limits),
        address_(address),
        resets_(limits.resets),
        control_frames_(limits.control_frames) {
    ++address_.connections;
  }

  ~Http2Guard() override {
    address_.streams -= streams_.size();
    --address_.connections;
  }

  absl::Status OnClientBytes(absl::string_view bytes) override {
    const size_t of_preface =
        std::min(bytes.size(), kPreface.size() - preface_bytes_);
    if (bytes.substr(0, of_preface) !=
        kPreface.substr(preface_bytes_, of_preface)) {
      return absl::InvalidArgumentError("what it sends is not HTTP/2");
    }
    preface_bytes_ += of_preface;
    bytes.remove_prefix(of_preface);
    return client_.Read(bytes,
                        [this](const Frame& frame) { return OnClient(frame); });
  }

  absl::Status OnServerBytes(absl::string_view bytes) override {
    return server_.Read(bytes,
                        [this](const Frame& frame) { return OnServer(frame); });
  }

  bool HasOpened() const override { return has_settings_; }
  bool IsIdle() const override { return streams_.empty(); }
  bool HasAsked() const override { return last_stream_ != 0; }
  bool HasBeenAnswered() const override { return has_been_answered_; }

 private:
  absl::Status OnClient(const Frame& frame) {
    if (!has_settings_ && frame.type != kSettings) {
      return absl::InvalidArgumentError("its first frame is not SETTINGS");
    }
    has_settings_ = true;
    switch (frame.type) {
      case kWindowUpdate:
        return absl::OkStatus();
      case kData:
        if (frame.payload_bytes > 0 || (frame.flags & kEndStream) != 0) {
          return absl::OkStatus();
        }
        return SpendControlFrame();
      case kHeaders:
        return OnHeaders(frame.stream);
      case kReset:
        return EndStream(frame.stream) ? SpendReset() : SpendControlFrame();
      default:
        return SpendControlFrame();
    }
  }

  absl::Status OnHeaders(uint32_t stream) {
    // HEADERS of an earlier stream are trailers, or an error that the server
    // will find.
    if (stream <= last_stream_) return SpendControlFrame();
    last_stream_ = stream;
    streams_.insert(stream);
    ++address_.streams;
    if (streams_.size() <= limits_.streams &&
        address_.streams <= limits_.streams_per_address) {
      return absl::OkStatus();
    }
    return TooMany("streams at a time");
  }

  // False: the stream was not open.
  bool EndStream(uint32_t stream) {
    if (streams_.erase(stream) == 0) return false;
    --address_.streams;
    return true;
  }

  absl::Status OnServer(const Frame& frame) {
    if (CallsForAFrame(frame)) control_frames_.GiveBack(clock_.SteadySeconds());
    const bool ends = (frame.type == kData || frame.type == kHeaders) &&
                      (frame.flags & kEndStream) != 0;
    if (ends && EndStream(frame.stream)) has_been_answered_ = true;
    if (frame.type != kReset || !EndStream(frame.stream) ||
        frame.first_word == kNoError) {
      return absl::OkStatus();
    }
    return SpendReset();
  }

  absl::Status SpendReset() {
    const double now = clock_.SteadySeconds();
    if (address_.resets.TryTake(now) || resets_.TryTake(now)) {
      return absl::OkStatus();
    }
    return TooMany("streams that were reset");
  }

  absl::Status SpendControlFrame() {
    if (control_frames_.TryTake(clock_.SteadySeconds()))
      return absl::OkStatus();
    return TooMany("frames that bring nothing");
  }

  const Clock& clock_;
  const Http2Limits& limits_;
  ClientAddress& address_;
  RateLimiter resets_;
  RateLimiter control_frames_;
  size_t preface_bytes_ = 0;
  bool has_settings_ = false;
  bool has_been_answered_ = false;
  FrameReader client_;
  FrameReader server_;
  uint32_t last_stream_ = 0;
  // Streams that are open.
  std::unordered_set<uint32_t> streams_;
};

}  // namespace

struct Http2Guards::Shared {
  const Clock& clock;
  const Http2Limits limits;
  ClientAddresses<ClientAddress> addresses = {};
};

Http2Guards::Http2Guards(const Clock& clock, const Http2Limits& limits)
    : shared_(new Shared{.clock = clock, .limits = limits}) {}

Http2Guards::~Http2Guards() = default;

std::unique_ptr<Guard> Http2Guards::NewGuard(const std::string& address) {
  return std::make_unique<Http2Guard>(
      shared_->clock, shared_->limits,
      shared_->addresses.Find(address, shared_->limits,
                              shared_->clock.SteadySeconds()));
}

absl::Status PeerGuard::OnClientBytes(absl::string_view bytes) {
  if (is_link()) return absl::OkStatus();
  if (is_link_.has_value()) return http2_->OnClientBytes(bytes);
  first_.append(bytes.data(), bytes.size());
  const bool may_be_link = absl::StartsWith(kLinkMagic, first_) ||
                           absl::StartsWith(first_, kLinkMagic);
  if (may_be_link && first_.size() < kLinkMagic.size()) return absl::OkStatus();
  is_link_ = may_be_link;
  const std::string first = std::exchange(first_, "");
  return may_be_link ? absl::OkStatus() : http2_->OnClientBytes(first);
}

absl::Status PeerGuard::OnServerBytes(absl::string_view bytes) {
  return is_link() ? absl::OkStatus() : http2_->OnServerBytes(bytes);
}

bool PeerGuard::HasOpened() const { return is_link() || http2_->HasOpened(); }

}  // namespace hearth::server
