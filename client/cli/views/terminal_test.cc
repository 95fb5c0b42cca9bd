#include "client/cli/views/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <sstream>
#include <string>

#include "absl/synchronization/notification.h"

namespace hearth::cli {

namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A pseudo-terminal with its two ends.
class ScreenTest : public testing::Test {
 protected:
  ScreenTest() {
    EXPECT_EQ(openpty(&far_, &near_, nullptr, nullptr, nullptr), 0);
  }
  ~ScreenTest() override {
    close(far_);
    close(near_);
  }

  bool Echoes() const {
    termios settings = {};
    EXPECT_EQ(tcgetattr(near_, &settings), 0);
    return (settings.c_lflag & ECHO) != 0;
  }

  int far_ = -1;
  int near_ = -1;
  std::ostringstream out_;
};

TEST_F(ScreenTest, WhatWasThereComesBack) {
  ASSERT_TRUE(Echoes());
  {
    Screen screen(out_, near_);
    EXPECT_FALSE(Echoes());
    screen.Draw("one\ntwo");
  }
  EXPECT_TRUE(Echoes());
  EXPECT_THAT(out_.str(), StartsWith("\x1b[?1049h"));
  EXPECT_THAT(out_.str(), HasSubstr("one\x1b[K\ntwo\x1b[K\x1b[J"));
  EXPECT_THAT(out_.str(), EndsWith("\x1b[?1049l"));
}

TEST_F(ScreenTest, WhatWasThereComesBackWhenASignalEndsTheProcess) {
  const pid_t process = fork();
  ASSERT_GE(process, 0);
  if (process == 0) {
    dup2(near_, STDOUT_FILENO);
    Interrupts interrupts;
    Screen screen(out_, near_);
    // Catch() was not called.
    kill(getpid(), SIGINT);
    while (true) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(WTERMSIG(status), SIGINT);
  EXPECT_TRUE(Echoes());
  char text[64] = {};
  ASSERT_GT(read(far_, text, sizeof(text) - 1), 0);
  EXPECT_THAT(std::string(text), EndsWith("\x1b[?1049l"));
}

TEST_F(ScreenTest, OnlyQEndsIt) {
  Screen screen(out_, near_);
  ASSERT_EQ(write(far_, "xq", 2), 2);
  EXPECT_FALSE(screen.Wait(absl::InfiniteDuration(), std::stop_token()));
}

TEST_F(ScreenTest, AStopEndsIt) {
  Screen screen(out_, near_);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(screen.Wait(absl::InfiniteDuration(), stop.get_token()));
}

TEST_F(ScreenTest, APauseEnds) {
  Screen screen(out_, near_);
  EXPECT_TRUE(screen.Wait(absl::Milliseconds(1), std::stop_token()));
}

TEST_F(ScreenTest, WithoutATerminalNoKeysAreRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    Screen screen(out_, ends[0]);
    ASSERT_EQ(write(ends[1], "q", 1), 1);
    EXPECT_TRUE(screen.Wait(absl::Milliseconds(1), std::stop_token()));
  }
  close(ends[0]);
  close(ends[1]);
}

// Each test runs in its own process, since signal masks are inherited.
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
