#include "server/cluster/frames.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

namespace hearth::server {

namespace {

constexpr uint32_t kMagic = 0x314b4c48;  // "HLK1"
constexpr uint16_t kLast = 1;

// As it lies in a frame; all processors that Hearth runs on are little-endian.
struct FrameHeader {
  uint32_t magic = kMagic;
  uint16_t kind = 0;
  uint16_t flags = 0;
  uint64_t call = 0;
  uint32_t length = 0;
  uint32_t crc = 0;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

uint32_t Crc(FrameHeader header, absl::string_view payload) {
  header.crc = 0;
  const auto bytes = [](const void* data, size_t size) {
    return absl::Span<const std::byte>(static_cast<const std::byte*>(data),
                                       size);
  };
  return Crc32c(bytes(payload.data(), payload.size()),
                Crc32c(bytes(&header, sizeof(header))));
}

}  // namespace

Outbox::Outbox(const FrameId& id, absl::string_view message) {
  const size_t frames = std::max<size_t>(
      1, (message.size() + kMostFrameBytes - 1) / kMostFrameBytes);
  headers_.resize(frames);
  for (size_t frame = 0; frame < frames; ++frame) {
    const absl::string_view payload =
        message.substr(frame * kMostFrameBytes, kMostFrameBytes);
    FrameHeader header = {.kind = static_cast<uint16_t>(id.kind),
                          .flags = frame + 1 == frames ? kLast : uint16_t{0},
                          .call = id.call,
                          .length = static_cast<uint32_t>(payload.size())};
    header.crc = Crc(header, payload);
    std::memcpy(headers_[frame].data(), &header, sizeof(header));
    pieces_.emplace_back(headers_[frame].data(), sizeof(header));
    if (!payload.empty()) pieces_.push_back(payload);
  }
}

absl::string_view Outbox::Next() const { return pieces_[next_].substr(sent_); }

void Outbox::Advance(size_t bytes) {
  sent_ += bytes;
  if (sent_ < pieces_[next_].size()) return;
  ++next_;
  sent_ = 0;
}

absl::Span<char> Inbox::Next() {
  if (!in_payload_) return absl::MakeSpan(header_).subspan(received_);
  char* const message = text_ != nullptr ? text_->data() : to_.data();
  return {message + begin_ + received_, length_ - received_};
}

absl::Status Inbox::Advance(size_t bytes) {
  received_ += bytes;
  if (!in_payload_) {
    if (received_ < header_.size()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(BeginPayload());
  }
  return received_ < length_ ? absl::OkStatus() : EndFrame();
}

absl::Status Inbox::BeginPayload() {
  FrameHeader header;
  std::memcpy(&header, header_.data(), sizeof(header));
  if (header.magic != kMagic || header.length > kMostFrameBytes) {
    return absl::DataLossError("what came is no frame");
  }
  if (header.kind != static_cast<uint16_t>(id_.kind) ||
      header.call != id_.call) {
    return absl::AbortedError(absl::StrCat(
        "a message of kind ", header.kind, " of call ", header.call,
        " came where kind ", static_cast<int>(id_.kind), " of call ", id_.call,
        " was due"));
  }
  const size_t end = begin_ + header.length;
  const bool is_last = (header.flags & kLast) != 0;
  const size_t most = text_ != nullptr ? most_ : to_.size();
  if (end > most || (is_last && text_ == nullptr && end < most)) {
    return absl::AbortedError(absl::StrCat(
        "a message of ", end, " bytes or more came where ", most, " were due"));
  }
  if (text_ != nullptr) text_->resize(end);
  length_ = header.length;
  received_ = 0;
  in_payload_ = true;
  return absl::OkStatus();
}

absl::Status Inbox::EndFrame() {
  FrameHeader header;
  std::memcpy(&header, header_.data(), sizeof(header));
  const char* const message = text_ != nullptr ? text_->data() : to_.data();
  if (Crc(header, {message + begin_, length_}) != header.crc) {
    return absl::DataLossError(
        absl::StrCat("a frame of call ", header.call, " is damaged"));
  }
  begin_ += length_;
  received_ = 0;
  in_payload_ = false;
  is_done_ = (header.flags & kLast) != 0;
  return absl::OkStatus();
}

}  // namespace hearth::server
