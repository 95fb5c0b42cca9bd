#include "client/private_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace hearth::client {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Says that it is ready, as hearthd does.
constexpr char kReady[] =
    "import os, socket, sys\n"
    "notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
    "notify.connect('\\0' + os.environ['NOTIFY_SOCKET'][1:])\n"
    "notify.send(b'STATUS=x\\nREADY=1')\n";

class PrivateDaemonTest : public testing::Test {
 protected:
  PrivateDaemonTest() {
    char folder[] = "/tmp/hearth-private-XXXXXX";
    folder_ = mkdtemp(folder);
    options_.data_dir = folder_ + "/data";
    options_.program = folder_ + "/hearthd";
  }
  ~PrivateDaemonTest() override { fs::remove_all(folder_); }

  // Writes a script that stands in for hearthd.
  void Write(const std::string& script) {
    std::ofstream(options_.program) << "#!/usr/bin/env python3\nimport signal\n"
                                    << script;
    chmod(options_.program.c_str(), 0700);
  }

  std::string Read(const std::string& name) const {
    std::ifstream file(options_.data_dir + "/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  PrivateDaemonOptions options_;
};

TEST_F(PrivateDaemonTest, IsReadyWhenItSaysSoAndStopsWhenItIsAsked) {
  options_.flags = {"--metrics-listen", ""};
  Write(absl::StrCat(
      "import sys\n"
      "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n",
      kReady,
      "print(sys.argv[1:], os.getpgid(0) == os.getpid(), flush=True)\n"
      "print(sys.stdin.read(), int(signal.sigwait({signal.SIGTERM})))\n"));
  auto daemon = PrivateDaemon::Start(options_, std::stop_token());
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  EXPECT_EQ((*daemon)->address(),
            absl::StrCat("unix:", options_.data_dir, "/hearth.sock"));
  struct stat info {};
  ASSERT_EQ(stat(options_.data_dir.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE((*daemon)->ended().stop_requested());
  const absl::Status stopped = (*daemon)->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_EQ(Read("hearthd.log"),
            absl::StrCat("['--data-dir', '", options_.data_dir,
                         "', '--metrics-listen', ''] True\n 15\n"));
  EXPECT_TRUE((*daemon)->Stop().ok());
}

TEST_F(PrivateDaemonTest, OneThatEndsInsteadOfStartingTellsWhy) {
  Write("import sys\nsys.exit('hearthd: no such luck')\n");
  const auto daemon = PrivateDaemon::Start(options_, std::stop_token());
  EXPECT_TRUE(absl::IsInternal(daemon.status()));
  EXPECT_THAT(std::string(daemon.status().message()),
              AllOf(HasSubstr("ended with 1"), HasSubstr("no such luck")));
}

TEST_F(PrivateDaemonTest, OneThatEndsUnaskedIsNoticed) {
  Write(absl::StrCat(kReady, "sys.exit(3)\n"));
  auto daemon = PrivateDaemon::Start(options_, std::stop_token());
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  absl::Notification ended;
  const std::stop_callback notify((*daemon)->ended(), [&] { ended.Notify(); });
  ended.WaitForNotification();
  EXPECT_THAT(std::string((*daemon)->Stop().message()),
              HasSubstr("ended with 3"));
}

TEST_F(PrivateDaemonTest, ItsStartCanBeStopped) {
  Write("import os\nos.kill(os.getppid(), signal.SIGUSR1)\nsignal.pause()\n");
  std::stop_source stop;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const std::jthread stopper([&] {
    int signal = 0;
    sigwait(&signals, &signal);
    stop.request_stop();
  });
  const auto daemon = PrivateDaemon::Start(options_, stop.get_token());
  EXPECT_TRUE(absl::IsCancelled(daemon.status())) << daemon.status();
}

TEST_F(PrivateDaemonTest, AnEmptyFolderBecomesPrivateAndAnotherStaysAsItIs) {
  const auto mode_after_start = [this] {
    EXPECT_TRUE(absl::IsInternal(
        PrivateDaemon::Start(options_, std::stop_token()).status()));
    struct stat info {};
    EXPECT_EQ(stat(options_.data_dir.c_str(), &info), 0);
    return info.st_mode & 0777;
  };
  Write("");
  fs::create_directory(options_.data_dir);
  chmod(options_.data_dir.c_str(), 0755);
  EXPECT_EQ(mode_after_start(), 0700u);
  chmod(options_.data_dir.c_str(), 0755);
  EXPECT_EQ(mode_after_start(), 0755u);
}

TEST_F(PrivateDaemonTest, WhatCannotStartIsToldAtOnce) {
  EXPECT_TRUE(absl::IsNotFound(
      PrivateDaemon::Start(options_, std::stop_token()).status()));
  Write("");
  options_.data_dir = folder_ + "/" + std::string(120, 'x');
  EXPECT_TRUE(absl::IsInvalidArgument(
      PrivateDaemon::Start(options_, std::stop_token()).status()));
  options_.data_dir = folder_ + "/file";
  std::ofstream(options_.data_dir) << "x";
  EXPECT_TRUE(absl::IsFailedPrecondition(
      PrivateDaemon::Start(options_, std::stop_token()).status()));
}

TEST_F(PrivateDaemonTest, ItDoesNotOutliveItsParent) {
  // The daemon becomes a child of this process when its parent is killed.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  Write(absl::StrCat(kReady,
                     "print(os.getpid(), flush=True)\n"
                     "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                     "os.kill(os.getppid(), signal.SIGKILL)\n"
                     "while True: signal.pause()\n"));
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const auto daemon = PrivateDaemon::Start(options_, std::stop_token());
    while (true) pause();
  }
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  const pid_t orphan = waitpid(-1, &status, 0);
  EXPECT_EQ(absl::StrCat(orphan, "\n"), Read("hearthd.log"));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(PrivateDaemonTest, ProgramsAreLookedForInThePath) {
  Write("");
  setenv("PATH", absl::StrCat("/nowhere:", folder_).c_str(), 1);
  EXPECT_EQ(*FindProgram("hearthd"), options_.program);
  EXPECT_TRUE(absl::IsNotFound(FindProgram("hearthd-of-nobody").status()));
}

}  // namespace
}  // namespace hearth::client
