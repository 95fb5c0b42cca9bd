#ifndef HEARTH_SERVER_CLUSTER_FRAMES_H_
#define HEARTH_SERVER_CLUSTER_FRAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

/// Messages between machines, as frames on a connection: what is sent (Outbox)
/// and what is received (Inbox), piece by piece as the connection takes and
/// gives bytes.

namespace hearth::server {

/// What a message is.
enum class FrameKind : uint16_t {
  /// What became of a batch here.
  kOutcome = 1,
  /// What became of it everywhere.
  kDecision = 2,
  /// Values of a part that the receiver adds up.
  kValues = 3,
  /// Sums of the sender's part.
  kSums = 4,
};

/// Which message a frame belongs to. Both sides count their calls alike.
struct FrameId {
  FrameKind kind = FrameKind::kOutcome;
  uint64_t call = 0;
};

/// Bytes of a frame's header: a magic number, kind and flags, call, length and
/// CRC32C of header and payload, little-endian.
inline constexpr size_t kFrameHeaderBytes = 24;
/// Bytes of a frame's payload, at most; longer messages take several frames.
inline constexpr size_t kMostFrameBytes = size_t{1} << 20;

/// A message that is being sent. Its bytes are the caller's and outlive it.
class Outbox {
 public:
  /// Nothing to send.
  Outbox() = default;
  Outbox(const FrameId& id, absl::string_view message);

  bool is_done() const { return next_ == pieces_.size(); }
  /// The next bytes. REQUIRES: not is_done.
  absl::string_view Next() const;
  /// The first `bytes` bytes of Next were sent.
  void Advance(size_t bytes);

 private:
  using Header = std::array<char, kFrameHeaderBytes>;

  std::vector<Header> headers_;
  // Headers and payloads in turn.
  std::vector<absl::string_view> pieces_;
  size_t next_ = 0;
  size_t sent_ = 0;
};

/// A message that is being received.
class Inbox {
 public:
  /// Nothing to receive.
  Inbox() : is_done_(true) {}
  /// A message of as many bytes as `to`, which outlives the inbox.
  Inbox(const FrameId& id, absl::Span<char> to) : id_(id), to_(to) {}
  /// A message of at most `most` bytes, which is appended to `text`, an empty
  /// string that outlives the inbox.
  Inbox(const FrameId& id, std::string* text, size_t most)
      : id_(id), text_(text), most_(most) {}

  bool is_done() const { return is_done_; }
  /// Memory for the next bytes. REQUIRES: not is_done.
  absl::Span<char> Next();
  /// The first `bytes` bytes of Next were received. DATA_LOSS if a frame is
  /// damaged or no frame, ABORTED if it belongs to another message, or the
  /// message has another length.
  absl::Status Advance(size_t bytes);

 private:
  absl::Status BeginPayload();
  absl::Status EndFrame();

  FrameId id_;
  absl::Span<char> to_;
  std::string* text_ = nullptr;
  size_t most_ = 0;
  std::array<char, kFrameHeaderBytes> header_ = {};
  // Of the header, then of the payload, of `length_` bytes.
  size_t received_ = 0;
  bool in_payload_ = false;
  size_t length_ = 0;
  // Bytes of earlier frames.
  size_t begin_ = 0;
  bool is_done_ = false;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_FRAMES_H_
