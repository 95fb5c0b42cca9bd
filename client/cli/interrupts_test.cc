#include "client/cli/interrupts.h"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>

#include "absl/synchronization/notification.h"

namespace hearth::cli {
namespace {

// Each test is a process of its own: signal masks are inherited.
TEST(InterruptsDeathTest, ACaughtInterruptRequestsAStop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        const std::stop_token token = interrupts.Catch();
        absl::Notification stopped;
        const std::stop_callback notify(token, [&] { stopped.Notify(); });
        kill(getpid(), SIGINT);
        stopped.WaitForNotification();
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(InterruptsDeathTest, AnInterruptBeforehandEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        kill(getpid(), SIGINT);
        absl::Notification().WaitForNotification();
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptsDeathTest, TerminationRequestsAStopWhereThatIsAskedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        const std::stop_token token = interrupts.CatchTermination();
        absl::Notification stopped;
        const std::stop_callback notify(token, [&] { stopped.Notify(); });
        kill(getpid(), SIGTERM);
        stopped.WaitForNotification();
        _exit(7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(InterruptsDeathTest, TerminationElsewhereEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        interrupts.Catch();
        kill(getpid(), SIGTERM);
        absl::Notification().WaitForNotification();
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

TEST(InterruptsDeathTest, TheSecondInterruptEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Interrupts interrupts;
        const std::stop_token token = interrupts.Catch();
        const std::stop_callback again(token, [] { kill(getpid(), SIGINT); });
        kill(getpid(), SIGINT);
        absl::Notification().WaitForNotification();
      },
      ::testing::KilledBySignal(SIGINT), "second signal \\(Interrupt\\)");
}

TEST(InterruptsDeathTest, AnIgnoredInterruptStaysIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        Interrupts interrupts;
        const std::stop_token token = interrupts.Catch();
        kill(getpid(), SIGINT);
        _exit(token.stop_requested() ? 1 : 7);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST(Interrupts, EndsWithoutAny) { Interrupts(); }

}  // namespace
}  // namespace hearth::cli
