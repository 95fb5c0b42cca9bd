// Reads that fail while jobs run in a whole daemon: a job survives them, or
// ends with an error that names the file; the daemon and the next job are well.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/daemon_fixture.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

class DaemonFaultTest : public DaemonTest {
 protected:
  DaemonFaultTest() { Import("planted"); }

  static v1::JobSpec Spec(const std::string& strategy) {
    v1::JobSpec spec = TrainSpec("planted");
    v1::DataSpec& data = *spec.mutable_train()->mutable_data();
    data.set_epochs(1);
    if (strategy == "gnndrive") {
      data.mutable_gnndrive();
      data.mutable_budgets()->set_cpu_cache_bytes(4096);
    } else {
      data.mutable_ginex()->set_superbatch(3);
      data.mutable_budgets()->set_cpu_cache_bytes(8192);
    }
    return spec;
  }

  // Every so many reads, further apart as they come later.
  static int64_t After(int64_t nth) { return nth + 1 + nth / 4; }

  void ExpectWell(const v1::JobSpec& spec) {
    files_.Clear();
    const v1::Job job = AwaitEnd(Submit(spec));
    ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
    EXPECT_EQ(SetDraining(false).memory_reserved_bytes(), 0u);
  }

  // The job's error, or that of its submission; OK if it succeeded.
  absl::Status Run(const v1::JobSpec& spec) {
    v1::Job job;
    if (const grpc::Status status = TrySubmit(spec, &job); !status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    job = AwaitEnd(job.id());
    if (job.state() == v1::SUCCEEDED) return absl::OkStatus();
    EXPECT_EQ(job.state(), v1::FAILED);
    return absl::Status(static_cast<absl::StatusCode>(job.error().code()),
                        job.error().message());
  }

  // Runs jobs with the fault at one read after the other, until none is hit;
  // gives how many of them failed.
  int RunWithFaults(const std::string& strategy, io::Fault fault) {
    const v1::JobSpec spec = Spec(strategy);
    fault.only = io::Operation::kRead;
    int failed = 0;
    for (fault.nth = 1;; fault.nth = After(fault.nth)) {
      // A new daemon reads everything anew.
      daemon_.reset();
      Start();
      files_.Inject(fault);
      const absl::Status status = Run(spec);
      const bool hit = files_.hits() > 0;
      if (!status.ok()) {
        ++failed;
        EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsDataLoss(status))
            << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(root_))
            << "the file";
        ExpectWell(spec);
      }
      if (!hit) return failed;
    }
  }
};

TEST_F(DaemonFaultTest, ReadsThatFailOnce) {
  for (const char* strategy : {"gnndrive", "ginex"}) {
    SCOPED_TRACE(strategy);
    RunWithFaults(strategy, {});
  }
}

TEST_F(DaemonFaultTest, ReadsThatFailForGood) {
  for (const char* strategy : {"gnndrive", "ginex"}) {
    SCOPED_TRACE(strategy);
    EXPECT_GE(RunWithFaults(strategy, {.for_good = true}), 8);
  }
}

TEST_F(DaemonFaultTest, ReadsThatGiveOtherBytes) {
  for (const char* strategy : {"gnndrive", "ginex"}) {
    SCOPED_TRACE(strategy);
    RunWithFaults(strategy, {.effect = io::Effect::kCorruptRead});
  }
}

}  // namespace
}  // namespace hearth::server
