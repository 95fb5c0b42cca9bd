#include "client/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace hearth::client {

namespace {

TEST(NewRequestId, IsAVersion4Uuid) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(NewRequestId(),
                ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                        "[89ab][0-9a-f]{3}-[0-9a-f]{12}"));
  }
}

TEST(NewRequestId, DoesNotRepeat) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewRequestId());
  EXPECT_EQ(ids.size(), 1000);
}

using ::testing::HasSubstr;

// A length-delimited field of fewer than 128 bytes.
std::string Field(int number, const std::string& value) {
  std::string field;
  field.push_back(static_cast<char>(number << 3 | 2));
  field.push_back(static_cast<char>(value.size()));
  return field + value;
}

std::string Violation(const std::string& field, const std::string& text) {
  return Field(1, Field(1, field) + Field(2, text));
}

std::string StatusWith(const std::string& type, const std::string& detail) {
  return std::string("\x08\x03", 2) + Field(2, "invalid job") +
         Field(3, Field(1, type) + Field(2, detail));
}

constexpr char kBadRequest[] = "type.googleapis.com/google.rpc.BadRequest";

TEST(RpcStatus, OkIsOk) { EXPECT_TRUE(RpcStatus(0, "", "").ok()); }

TEST(RpcStatus, KeepsCodeAndMessage) {
  const absl::Status status = RpcStatus(5, "no dataset \"x\"", "");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no dataset \"x\"");
}

TEST(RpcStatus, AppendsEachFieldViolation) {
  const absl::Status status =
      RpcStatus(3, "invalid job",
                StatusWith(kBadRequest, Violation("epochs", "too many") +
                                            Violation("lr", "not finite")));
  EXPECT_EQ(status.message(), "invalid job: epochs: too many: lr: not finite");
}

TEST(RpcStatus, DoesNotRepeatWhatTheMessageSays) {
  const absl::Status status =
      RpcStatus(3, "epochs: too many",
                StatusWith(kBadRequest, Violation("epochs", "too many")));
  EXPECT_EQ(status.message(), "epochs: too many");
}

TEST(RpcStatus, LeavesOtherDetailsOut) {
  const absl::Status status = RpcStatus(
      3, "no", StatusWith("type.googleapis.com/google.rpc.Help", "abc"));
  EXPECT_EQ(status.message(), "no");
}

TEST(RpcStatus, SurvivesDetailsCutAnywhere) {
  const std::string details =
      StatusWith(kBadRequest, Violation("epochs", "too many"));
  for (size_t size = 0; size < details.size(); ++size) {
    EXPECT_THAT(
        std::string(RpcStatus(3, "no", details.substr(0, size)).message()),
        HasSubstr("no"))
        << size;
  }
}

constexpr absl::Duration kShort = absl::Nanoseconds(100);

int Pauses(Backoff& backoff) {
  int pauses = 0;
  while (backoff.Pause(std::stop_token())) ++pauses;
  return pauses;
}

TEST(Backoff, DoublesUntilPatienceEnds) {
  Backoff backoff(kShort, 7 * kShort);
  EXPECT_EQ(Pauses(backoff), 3);  // 1 + 2 + 4
}

TEST(Backoff, StaysAtTwentyTimesTheFirst) {
  Backoff backoff(kShort, (31 + 3 * 20) * kShort);
  EXPECT_EQ(Pauses(backoff), 5 + 3);  // 1 + 2 + 4 + 8 + 16, then 20 each
}

TEST(Backoff, ResetStartsOver) {
  Backoff backoff(kShort, 7 * kShort);
  EXPECT_EQ(Pauses(backoff), 3);
  backoff.Reset();
  EXPECT_EQ(Pauses(backoff), 3);
}

TEST(Backoff, NoPatienceMeansNoPause) {
  Backoff backoff(kShort, absl::ZeroDuration());
  EXPECT_EQ(Pauses(backoff), 0);
}

TEST(Backoff, StopEndsALongPause) {
  Backoff backoff(absl::Hours(1), absl::Hours(2));
  std::stop_source stop;
  std::thread stopper([&stop] { stop.request_stop(); });
  EXPECT_FALSE(backoff.Pause(stop.get_token()));
  stopper.join();
}

using ::testing::ElementsAre;

// Collects notices, and waits for them.
class Notices {
 public:
  SilenceWatch::Notice Taker() {
    return [this](absl::Duration silent) {
      absl::MutexLock lock(&mutex_);
      notices_.push_back(silent > absl::ZeroDuration());
      changed_.SignalAll();
    };
  }
  std::vector<bool> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    while (notices_.size() < count) changed_.Wait(&mutex_);
    return notices_;
  }

 private:
  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::vector<bool> notices_ ABSL_GUARDED_BY(mutex_);
};

TEST(SilenceWatchTest, TellsOnceAndWhenItIsOver) {
  Notices notices;
  SilenceWatch watch(absl::Milliseconds(1), notices.Taker());
  watch.Lost(absl::ZeroDuration());
  EXPECT_THAT(notices.Await(1), ElementsAre(true));
  watch.Lost(absl::ZeroDuration());
  watch.Heard();
  EXPECT_THAT(notices.Await(2), ElementsAre(true, false));
  watch.Heard();
  watch.Lost(absl::ZeroDuration());
  EXPECT_THAT(notices.Await(3), ElementsAre(true, false, true));
}

TEST(SilenceWatchTest, AShortSilenceIsNotTold) {
  Notices notices;
  SilenceWatch watch(absl::Hours(1), notices.Taker());
  watch.Lost(absl::ZeroDuration());
  watch.Heard();
  watch.Lost(absl::Hours(2));
  EXPECT_THAT(notices.Await(1), ElementsAre(true)) << "the second alone";
}

TEST(SilenceWatchTest, NeedsNoNotice) {
  SilenceWatch watch(absl::Milliseconds(1), nullptr);
  watch.Lost(absl::Hours(1));
  watch.Heard();
}

}  // namespace

}  // namespace hearth::client
