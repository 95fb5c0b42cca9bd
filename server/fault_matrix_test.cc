// Every kind of fault at every call of the file system that a daemon makes from
// its start to the export of a model: import, train with checkpoints, export.
// The cases are generated from the calls of an undisturbed run. After each: a
// job has ended rightly, the daemon starts again, what was acknowledged is
// there, and what failed succeeds once the fault is gone, with the results of
// the undisturbed run.
//
// By default a keyed sample of the cases runs. HEARTH_FAULT_CASES=all runs all,
// HEARTH_FAULT_CASES=2/5 the second of five parts. SQLite's own file does not
// go through this file system.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "engine/base/random.h"
#include "engine/io/faulty_file_system.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "gtest/gtest.h"
#include "server/daemon_fixture.h"

namespace hearth::server {
namespace {

using io::Effect;
using io::Operation;

// Cases of the sample.
constexpr size_t kSample = 90;

// Faults that a call of a kind can meet. `kCorruptRead` and `kForgetWrite`
// have no status.
std::vector<io::Fault> FaultsOf(Operation operation) {
  const absl::Status eio = absl::UnavailableError("Input/output error");
  const absl::Status enospc =
      absl::ResourceExhaustedError("No space left on device");
  switch (operation) {
    case Operation::kRead:
      return {{.status = eio}, {.effect = Effect::kCorruptRead}};
    case Operation::kWrite:
      return {{.status = eio},
              {.status = enospc},
              {.effect = Effect::kTearWrite, .status = eio},
              {.effect = Effect::kTearWrite, .status = enospc},
              {.effect = Effect::kForgetWrite}};
    case Operation::kCreate:
    case Operation::kAllocate:
    case Operation::kSync:
    case Operation::kClose:
    case Operation::kRename:
    case Operation::kCreateDirectory:
    case Operation::kSyncDirectory:
      return {{.status = eio},
              {.status = enospc},
              {.effect = Effect::kLoseReply, .status = eio}};
    case Operation::kOpenForRead:
    case Operation::kInfo:
    case Operation::kMap:
    case Operation::kStat:
    case Operation::kRealPath:
    case Operation::kList:
    case Operation::kRemoveTree:
    case Operation::kFreeBytes:
      return {{.status = eio}};
  }
  return {};
}

class FaultMatrixTest : public DaemonTest {
 protected:
  // One run of the script: the jobs' ids and states, by step.
  struct Run {
    absl::Status start;
    std::vector<v1::Job> jobs;
  };

  v1::JobSpec Training(const std::string& strategy) {
    v1::JobSpec spec = TrainSpec("planted");
    spec.mutable_train()->set_checkpoint_every(2);
    v1::DataSpec& data = *spec.mutable_train()->mutable_data();
    data.mutable_budgets()->set_cpu_cache_bytes(8192);
    if (strategy == "gnndrive") data.mutable_gnndrive();
    if (strategy == "diskgnn") data.mutable_diskgnn();
    return spec;
  }

  // The job at its end. A job that waits for the disk goes on once the fault
  // is over.
  v1::Job Settle(const std::string& id) {
    while (true) {
      const v1::Job job = Get(id);
      switch (job.state()) {
        case v1::SUCCEEDED:
        case v1::FAILED:
        case v1::CANCELLED:
          return job;
        case v1::WAITING:
          files_.Clear();
          break;
        default:
          break;
      }
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  // Whether the step succeeded. A refused submission is a job without an id.
  bool Step(const v1::JobSpec& spec, std::vector<v1::Job>& jobs) {
    v1::Job job;
    const grpc::Status status = TrySubmit(spec, &job);
    if (status.ok()) {
      job = Settle(job.id());
    } else {
      job.set_state(v1::FAILED);
      job.mutable_error()->set_code(status.error_code());
      job.mutable_error()->set_message(status.error_message());
    }
    jobs.push_back(job);
    return job.state() == v1::SUCCEEDED;
  }

  // As far as the first step that fails.
  std::vector<v1::Job> RunScript() {
    std::vector<v1::Job> jobs;
    if (Step(ImportSpec("planted"), jobs) && Step(Training("gnndrive"), jobs) &&
        Step(Training("diskgnn"), jobs)) {
      Step(ExportSpec(jobs.back().id(), "exported"), jobs);
    }
    return jobs;
  }

  void StartOver() {
    files_.Clear();
    daemon_.reset();
    for (const char* name : {"/data", "/exported", "/again"}) {
      std::filesystem::remove_all(root_ + name);
    }
  }

  bool TryStart() {
    auto daemon = NewDaemon(config_);
    if (!daemon.ok()) {
      start_error_ = daemon.status();
      return false;
    }
    Adopt(*std::move(daemon));
    return true;
  }

  static std::string Digest(const v1::Job& job) {
    return absl::StrCat(job.report().train().loss_digest(), " ",
                        job.report().train().test_metric());
  }

  // That of the dataset; empty without one.
  std::string Fingerprint() const {
    const auto dataset = store::Dataset::Open(io::FileSystem::Posix(),
                                              root_ + "/data/datasets/planted");
    return dataset.ok() ? (*dataset)->manifest().fingerprint : "";
  }

  // Calls of an undisturbed run, by kind.
  std::map<Operation, int64_t> CountCalls() {
    StartOver();
    const size_t before = files_.calls().size();
    EXPECT_TRUE(TryStart());
    expected_ = RunScript();
    EXPECT_EQ(expected_.size(), 4u);
    for (const v1::Job& job : expected_) {
      EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
    }
    fingerprint_ = Fingerprint();
    std::map<Operation, int64_t> counts;
    const auto calls = files_.calls();
    for (size_t i = before; i < calls.size(); ++i) ++counts[calls[i].operation];
    return counts;
  }

  // Other bytes of a source that is imported are like another source; an
  // import reads back what it has written as it reads a source.
  void ExpectRightError(const v1::Job& job, Effect effect) {
    const auto code = static_cast<absl::StatusCode>(job.error().code());
    EXPECT_TRUE(
        code == absl::StatusCode::kUnavailable ||
        code == absl::StatusCode::kResourceExhausted ||
        code == absl::StatusCode::kDataLoss ||
        (code == absl::StatusCode::kInvalidArgument &&
         (effect == Effect::kCorruptRead || effect == Effect::kForgetWrite)))
        << job.error().code() << " " << job.error().message();
    EXPECT_TRUE(absl::StrContains(job.error().message(), root_))
        << "names no file: " << job.error().message();
  }

  void RunCase(const io::Fault& fault) {
    StartOver();
    files_.Inject(fault);
    std::vector<v1::Job> jobs;
    if (TryStart()) {
      jobs = RunScript();
    } else {
      // A parent of the data directory, even.
      EXPECT_TRUE(absl::StartsWith(start_error_.message(), "/"))
          << start_error_;
    }
    files_.Clear();
    daemon_.reset();
    ASSERT_TRUE(TryStart()) << start_error_;
    const bool same_source = Fingerprint() == fingerprint_;
    for (size_t step = 0; step < jobs.size(); ++step) {
      const v1::Job& job = jobs[step];
      if (!job.id().empty()) {
        EXPECT_EQ(Get(job.id()).state(), job.state()) << job.id();
      }
      if (job.state() == v1::SUCCEEDED) {
        if (same_source) {
          EXPECT_EQ(Digest(job), Digest(expected_[step])) << job.id();
        }
      } else {
        ++failed_;
        ExpectRightError(job, fault.effect);
      }
    }
    ExpectAllWell(jobs);
  }

  // Everything can be done now that could not before. A dataset that was
  // acknowledged, but whose bytes the disk has lost, is imported anew.
  void ExpectAllWell(const std::vector<v1::Job>& before) {
    const bool imported =
        !before.empty() && before.front().state() == v1::SUCCEEDED;
    std::vector<v1::Job> jobs;
    if (!imported) {
      ASSERT_TRUE(Step(ImportSpec("planted"), jobs))
          << jobs.back().error().message();
    }
    for (const char* strategy : {"gnndrive", "diskgnn"}) {
      if (Step(Training(strategy), jobs)) continue;
      ASSERT_EQ(jobs.back().error().code(), grpc::DATA_LOSS)
          << jobs.back().error().message();
      ASSERT_TRUE(DeleteDataset("planted").ok());
      ASSERT_TRUE(Step(ImportSpec("planted"), jobs));
      ASSERT_TRUE(Step(Training(strategy), jobs))
          << jobs.back().error().message();
      EXPECT_EQ(Digest(jobs.back()),
                Digest(expected_[strategy == std::string("gnndrive") ? 1 : 2]));
    }
    ASSERT_TRUE(Step(ExportSpec(jobs.back().id(), "again"), jobs))
        << jobs.back().error().message();
    EXPECT_EQ(SetDraining(false).memory_reserved_bytes(), 0u);
  }

  absl::Status start_error_;
  std::vector<v1::Job> expected_;
  std::string fingerprint_;
  int failed_ = 0;
};

TEST_F(FaultMatrixTest, EveryFaultAtEveryCall) {
  std::vector<io::Fault> cases;
  for (const auto& [operation, count] : CountCalls()) {
    for (io::Fault fault : FaultsOf(operation)) {
      fault.only = operation;
      for (fault.nth = 1; fault.nth <= count; ++fault.nth) {
        for (fault.for_good = false;; fault.for_good = true) {
          cases.push_back(fault);
          if (fault.for_good) break;
        }
      }
    }
  }
  const size_t all = cases.size();
  // A permutation that is always the same.
  RandomStream random(1, RandomPurpose::kGenerator);
  for (size_t i = all; i > 1; --i) {
    std::swap(cases[i - 1], cases[random.Below(static_cast<uint32_t>(i))]);
  }
  size_t first = 0;
  size_t count = std::min(kSample, all);
  if (const char* chosen = std::getenv("HEARTH_FAULT_CASES");
      chosen != nullptr) {
    const std::vector<std::string> part = absl::StrSplit(chosen, '/');
    int64_t number = 1;
    int64_t parts = 1;
    if (part.size() == 2) {
      ASSERT_TRUE(absl::SimpleAtoi(part[0], &number) &&
                  absl::SimpleAtoi(part[1], &parts))
          << chosen;
    }
    first = all * static_cast<size_t>(number - 1) / static_cast<size_t>(parts);
    count =
        all * static_cast<size_t>(number) / static_cast<size_t>(parts) - first;
  }
  for (size_t i = first; i < first + count; ++i) {
    const io::Fault& fault = cases[i];
    SCOPED_TRACE(absl::StrCat(
        "operation ", static_cast<int>(*fault.only), ", call ", fault.nth,
        ", effect ", static_cast<int>(fault.effect),
        fault.for_good ? ", for good, " : ", once, ", fault.status.ToString()));
    RunCase(fault);
    if (HasFatalFailure()) return;
  }
  std::cout << count << " of " << all << " cases run; in " << failed_
            << " of them a job failed\n";
  EXPECT_GT(failed_, 0);
}

}  // namespace
}  // namespace hearth::server
