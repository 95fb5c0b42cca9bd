#include "server/access/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "hearth/v1/access.pb.h"
#include "server/access/caller.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double SteadySeconds() const override { return seconds; }
  double seconds = 1000;
};

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  static std::vector<nlohmann::json> Lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }

  const std::string folder_ = ::testing::TempDir() + "/audit_log_test";
  const std::string path_ = folder_ + "/audit.log";
  const Caller caller_ = {.name = "token:ann", .role = v1::USER};
};

TEST_F(AuditLogTest, ALineTellsWhoDidWhatToWhichJobWithWhichResult) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  log->Write(caller_, "Jobs/CancelJob", "train-7", absl::StatusCode::kOk);
  log->Write({}, "Jobs/GetJob", "", absl::StatusCode::kUnauthenticated);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["caller"], "token:ann");
  EXPECT_EQ(lines[0]["role"], "USER");
  EXPECT_EQ(lines[0]["method"], "Jobs/CancelJob");
  EXPECT_EQ(lines[0]["target"], "train-7");
  EXPECT_EQ(lines[0]["result"], "OK");
  EXPECT_EQ(lines[0]["time"].get<std::string>().size(), 24u);
  EXPECT_EQ(lines[1]["caller"], "");
  EXPECT_EQ(lines[1]["role"], "");
  EXPECT_EQ(lines[1]["result"], "UNAUTHENTICATED");
}

TEST_F(AuditLogTest, NoTextForgesALine) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  log->Write({.name = "certificate:x\"}\n{", .role = v1::VIEWER}, "a\nb",
             "\xff\x1b[2J\n", absl::StatusCode::kOk);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["caller"], "certificate:x\"}\n{");
}

TEST_F(AuditLogTest, ACallOfATraceNamesIt) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  Caller caller = caller_;
  log->Write(caller, "a", "", absl::StatusCode::kOk);
  caller.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  log->Write(caller, "b", "", absl::StatusCode::kOk);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_FALSE(lines[0].contains("trace_id"));
  EXPECT_EQ(lines[1]["trace_id"], caller.trace_id);
}

TEST_F(AuditLogTest, OnlyItsOwnerReadsIt) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AuditLogTest, AnotherRunGoesOnAtTheEnd) {
  (*AuditLog::Open(path_, Clock::Real()))
      ->Write(caller_, "a", "", absl::StatusCode::kOk);
  (*AuditLog::Open(path_, Clock::Real()))
      ->Write(caller_, "b", "", absl::StatusCode::kOk);
  EXPECT_EQ(Lines(path_).size(), 2u);
}

TEST_F(AuditLogTest, AFileThatIsRotatedIsBegunAnew) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  log->Write(caller_, "a", "", absl::StatusCode::kOk);
  fs::rename(path_, path_ + ".1");
  log->Write(caller_, "b", "", absl::StatusCode::kOk);
  fs::remove(path_);
  log->Write(caller_, "c", "", absl::StatusCode::kOk);
  EXPECT_EQ(Lines(path_ + ".1").size(), 1u);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["method"], "c");
}

TEST_F(AuditLogTest, StrangersDoNotFillTheDisk) {
  ManualClock clock;
  const auto log = *AuditLog::Open(path_, clock);
  const auto refuse = [&] {
    log->Write({}, "Jobs/GetJob", "", absl::StatusCode::kUnauthenticated);
  };
  for (int i = 0; i < AuditLog::kFailuresPerMinute + 7; ++i) refuse();
  EXPECT_EQ(Lines(path_).size(), 600u);
  // Later calls are written nevertheless.
  log->Write(caller_, "Jobs/CancelJob", "train-7", absl::StatusCode::kOk);
  auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 601u);
  EXPECT_EQ(lines.back()["failures_left_out"], 7);
  clock.seconds += 60;
  refuse();
  lines = Lines(path_);
  ASSERT_EQ(lines.size(), 602u);
  EXPECT_FALSE(lines.back().contains("failures_left_out"));
}

TEST_F(AuditLogTest, ACallerWhoseCallsFailFillsNeitherTheDiskNorTheLog) {
  ManualClock clock;
  const auto log = *AuditLog::Open(path_, clock);
  const Caller other = {.name = "token:bob", .role = v1::USER};
  for (int i = 0; i < AuditLog::kFailuresPerMinute + 7; ++i) {
    log->Write(caller_, "Jobs/CancelJob", "no-job",
               absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(Lines(path_).size(), 600u);
  log->Write(other, "Jobs/CancelJob", "train-7",
             absl::StatusCode::kPermissionDenied);
  log->Write({}, "Jobs/GetJob", "", absl::StatusCode::kUnauthenticated);
  log->Write(caller_, "Jobs/CancelJob", "train-7", absl::StatusCode::kOk);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 603u);
  EXPECT_EQ(lines[600]["caller"], "token:bob");
  EXPECT_EQ(lines[600]["failures_left_out"], 7);
}

TEST_F(AuditLogTest, AFolderThatIsMissingIsTold) {
  const auto log = AuditLog::Open(folder_ + "/no/audit.log", Clock::Real());
  EXPECT_EQ(log.status().code(), absl::StatusCode::kNotFound);
}

// The call that is told of goes on; the next line is whole.
TEST_F(AuditLogTest, ALineThatCannotBeWrittenHarmsNoOther) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  fs::rename(folder_, folder_ + ".away");
  log->Write(caller_, "lost", "", absl::StatusCode::kOk);
  fs::rename(folder_ + ".away", folder_);
  log->Write(caller_, "b", "", absl::StatusCode::kOk);
  ASSERT_EQ(Lines(path_).size(), 1u);
  EXPECT_EQ(Lines(path_)[0]["method"], "b");
}

}  // namespace
}  // namespace hearth::server
