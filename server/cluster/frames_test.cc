#include "server/cluster/frames.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

constexpr FrameId kId = {FrameKind::kValues, 7};

std::string Sent(const FrameId& id, absl::string_view message) {
  std::string bytes;
  for (Outbox out(id, message); !out.is_done();) {
    const std::string next(out.Next());
    bytes += next;
    out.Advance(next.size());
  }
  return bytes;
}

// Receives `bytes`, at most `step` at a time.
absl::Status Receive(absl::string_view bytes, size_t step, Inbox& in) {
  while (!in.is_done() && !bytes.empty()) {
    const absl::Span<char> next = in.Next();
    const size_t count = std::min({step, next.size(), bytes.size()});
    std::copy_n(bytes.begin(), count, next.begin());
    bytes.remove_prefix(count);
    const absl::Status status = in.Advance(count);
    if (!status.ok()) return status;
  }
  EXPECT_TRUE(bytes.empty());
  return absl::OkStatus();
}

TEST(FramesTest, MessagesOfAnySizeArrive) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, kMostFrameBytes,
                            kMostFrameBytes + 1, 3 * kMostFrameBytes + 5}) {
    std::string message(size, '\0');
    for (size_t i = 0; i < size; ++i) message[i] = static_cast<char>(i * 7);
    const std::string bytes = Sent(kId, message);
    for (const size_t step : {size_t{1} << 30, size_t{4093}}) {
      std::string whole(size, 'x');
      Inbox fixed(kId, absl::MakeSpan(whole));
      ASSERT_EQ(Receive(bytes, step, fixed), absl::OkStatus()) << size;
      EXPECT_TRUE(fixed.is_done());
      EXPECT_TRUE(whole == message);
      std::string text;
      Inbox open(kId, &text, 4 * kMostFrameBytes);
      ASSERT_EQ(Receive(bytes, step, open), absl::OkStatus()) << size;
      EXPECT_TRUE(open.is_done());
      EXPECT_TRUE(text == message);
    }
  }
}

TEST(FramesTest, NothingToSendAndReceiveIsDone) {
  EXPECT_TRUE(Outbox().is_done());
  EXPECT_TRUE(Inbox().is_done());
}

TEST(FramesTest, EveryFlippedBitIsSeen) {
  const std::string message = "four values";
  const std::string bytes = Sent(kId, message);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::string text;
    Inbox in(kId, &text, 1 << 20);
    const absl::Status status = Receive(damaged, 1000, in);
    // A longer frame would need more bytes than came.
    EXPECT_TRUE(!status.ok() || !in.is_done()) << bit;
  }
}

TEST(FramesTest, AMessageOfAnotherCallKindOrLengthIsRefused) {
  const std::string message(100, 'a');
  std::string to(100, '\0');
  for (const auto& [id, size] :
       std::vector<std::pair<FrameId, size_t>>{{{FrameKind::kSums, 7}, 100},
                                               {{FrameKind::kValues, 8}, 100},
                                               {kId, 99},
                                               {kId, 0}}) {
    Inbox in(id, absl::MakeSpan(to).first(size));
    EXPECT_TRUE(absl::IsAborted(Receive(Sent(kId, message), 1000, in)));
  }
  Inbox longer(kId, absl::MakeSpan(to));
  EXPECT_TRUE(absl::IsAborted(Receive(Sent(kId, "short"), 1000, longer)));
  std::string text;
  Inbox small(kId, &text, 99);
  EXPECT_TRUE(absl::IsAborted(Receive(Sent(kId, message), 1000, small)));
}

TEST(FramesTest, ForeignBytesAreNoFrame) {
  std::string to(10, '\0');
  Inbox in(kId, absl::MakeSpan(to));
  EXPECT_TRUE(
      absl::IsDataLoss(Receive("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 1000, in)));
}

}  // namespace
}  // namespace hearth::server
