#include "client/launcher/enrollment.h"

#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace hearth::launcher {
namespace {

constexpr Enrollment::Times kQuick = {.call = absl::Milliseconds(5),
                                      .patience = absl::Seconds(60),
                                      .farewell = absl::Seconds(60)};

// The daemon of rank 0, with a scripted answer.
class Board {
 public:
  absl::StatusOr<v1::Enrolled> Take(const v1::EnrollRequest& request) {
    absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
    return answer_;
  }
  Enrollment::Call call() {
    return [this](const v1::EnrollRequest& request) { return Take(request); };
  }

  void Set(const absl::StatusOr<v1::Enrolled>& answer) {
    absl::MutexLock lock(&mutex_);
    answer_ = answer;
  }

  v1::EnrollRequest last() const {
    absl::MutexLock lock(&mutex_);
    return requests_.empty() ? v1::EnrollRequest() : requests_.back();
  }

 private:
  mutable absl::Mutex mutex_;
  absl::StatusOr<v1::Enrolled> answer_ ABSL_GUARDED_BY(mutex_) =
      absl::UnavailableError("nobody listens");
  std::vector<v1::EnrollRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

v1::Enrolled Missing(const std::string& member) {
  v1::Enrolled answer;
  answer.add_missing(member);
  return answer;
}

v1::Enrolled Over(int exit_code) {
  v1::Enrolled answer;
  answer.set_exit_code(exit_code);
  return answer;
}

TEST(EnrollmentTest, WaitsUntilAllAreReady) {
  Board board;
  Enrollment enrollment(board.call(), 2, kQuick);
  enrollment.SetReady("192.0.2.1:7610");
  std::jthread others([&] {
    board.Set(Missing("node-1"));
    v1::Enrolled unready;
    unready.add_unready("node-1");
    board.Set(unready);
    board.Set(v1::Enrolled());
  });
  EXPECT_EQ(enrollment.AwaitAll({}), absl::OkStatus());
  EXPECT_EQ(board.last().address(), "192.0.2.1:7610");
  EXPECT_EQ(board.last().size(), 2u);
  EXPECT_NE(board.last().instance(), "");
}

TEST(EnrollmentTest, GivesUpOnRanksThatStayAway) {
  Board board;
  board.Set(Missing("node-1"));
  Enrollment::Times times = kQuick;
  times.patience = absl::Milliseconds(20);
  const Enrollment enrollment(board.call(), 2, times);
  while (!enrollment.failed().stop_requested()) std::this_thread::yield();
  const absl::Status status = enrollment.failure();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "node-1 has")) << status;
}

TEST(EnrollmentTest, GivesUpOnRankZero) {
  Board board;
  Enrollment::Times times = kQuick;
  times.patience = absl::Milliseconds(20);
  Enrollment enrollment(board.call(), 2, times);
  const absl::Status status = enrollment.AwaitEnd({}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "nobody listens")) << status;
}

TEST(EnrollmentTest, AnErrorOfRankZerosDaemonEndsTheRun) {
  Board board;
  board.Set(absl::AlreadyExistsError("two processes are node-1"));
  Enrollment enrollment(board.call(), 2, kQuick);
  EXPECT_EQ(enrollment.AwaitAll({}),
            absl::AlreadyExistsError("two processes are node-1"));
  enrollment.End(1);
}

TEST(EnrollmentTest, TheExitCodeOfRankZeroIsThatOfAll) {
  Board board;
  board.Set(Over(3));
  Enrollment enrollment(board.call(), 2, kQuick);
  EXPECT_EQ(enrollment.AwaitEnd({}).value(), 3);
}

TEST(EnrollmentTest, RankZeroStaysUntilAllOthersKnow) {
  Board board;
  v1::Enrolled untold = Over(0);
  untold.add_untold("node-1");
  board.Set(untold);
  Enrollment enrollment(board.call(), 2, kQuick);
  std::stop_source has_ended;
  std::jthread ends([&] {
    enrollment.End(0);
    has_ended.request_stop();
  });
  while (!board.last().has_exit_code()) std::this_thread::yield();
  EXPECT_FALSE(has_ended.stop_requested());
  board.Set(Over(0));
  ends.join();
}

TEST(EnrollmentTest, AStopEndsAWait) {
  Board board;
  board.Set(Missing("node-1"));
  Enrollment enrollment(board.call(), 2, kQuick);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(enrollment.AwaitAll(stop.get_token())));
}

}  // namespace
}  // namespace hearth::launcher
