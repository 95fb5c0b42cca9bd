// Every kind of fault at every call of the file system, and at every call that
// SQLite makes for its own files, from a daemon's start to the export of a
// model: import, train with checkpoints, export. The cases are generated from
// the calls of an undisturbed run. After each case: jobs have ended with
// allowed errors, the daemon starts again, acknowledged data exists, and failed
// steps succeed once the fault is gone, with the results of the undisturbed
// run.
//
// By default a keyed sample of the cases runs. HEARTH_FAULT_CASES=all runs all,
// HEARTH_FAULT_CASES=2/5 the second of five parts.

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
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/store/dataset.h"
#include "gtest/gtest.h"
#include "server/storage/testing/faulty_vfs.h"
#include "server/testing/test_daemon.h"

namespace hearth::server {
namespace {

using io::Effect;
using io::Operation;

// Sizes of the samples: cases of the file system, and of the database.
constexpr size_t kFileSample = 60;
constexpr size_t kDatabaseSample = 60;

// Hits after which a lasting fault ends while a job does not: failed writes are
// repeated.
constexpr int64_t kManyHits = 8;

// Faults that calls of a kind can have. `kCorruptRead` and `kForgetWrite` have
// no status.
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

std::vector<VfsEffect> EffectsOn(VfsOperation operation) {
  switch (operation) {
    case VfsOperation::kWrite:
      return {VfsEffect::kFail, VfsEffect::kFull, VfsEffect::kTearWrite,
              VfsEffect::kLosePower, VfsEffect::kLosePowerBetweenSectors};
    case VfsOperation::kSync:
      return {VfsEffect::kFail, VfsEffect::kLosePower,
              VfsEffect::kLosePowerBetweenSectors};
    case VfsOperation::kTruncate:
    case VfsOperation::kDelete:
      return {VfsEffect::kFail, VfsEffect::kLosePower};
    case VfsOperation::kOpen:
    case VfsOperation::kShmMap:
      return {VfsEffect::kFail, VfsEffect::kFull};
    case VfsOperation::kAccess:
    case VfsOperation::kRead:
    case VfsOperation::kFileSize:
    case VfsOperation::kLock:
    case VfsOperation::kShmLock:
      return {VfsEffect::kFail};
  }
  return {};
}

bool HasEnded(const v1::Job& job) {
  return job.state() == v1::SUCCEEDED || job.state() == v1::FAILED ||
         job.state() == v1::CANCELLED;
}

// Key by which a case is drawn. It is equal in every run, however many cases
// there are: their number varies, since polls of a job's state also call the
// database.
uint32_t KeyOf(const io::Fault& fault) {
  return Philox(
      {static_cast<uint32_t>(*fault.only), static_cast<uint32_t>(fault.nth),
       static_cast<uint32_t>(fault.effect),
       static_cast<uint32_t>(fault.status.raw_code())},
      {fault.for_good, 0})[0];
}

uint32_t KeyOf(const VfsFault& fault) {
  return Philox(
      {static_cast<uint32_t>(fault.operation), static_cast<uint32_t>(fault.nth),
       static_cast<uint32_t>(fault.effect), 0},
      {fault.for_good, 1})[0];
}

// Keeps a sample of `sample` cases, or the part in HEARTH_FAULT_CASES.
template <typename Case>
void Choose(size_t sample, std::vector<Case>& cases) {
  const char* chosen = std::getenv("HEARTH_FAULT_CASES");
  if (chosen == nullptr) {
    std::sort(cases.begin(), cases.end(),
              [](const Case& a, const Case& b) { return KeyOf(a) < KeyOf(b); });
    cases.resize(std::min(sample, cases.size()));
    return;
  }
  const std::vector<std::string> part = absl::StrSplit(chosen, '/');
  uint32_t number = 1;
  uint32_t parts = 1;
  if (part.size() == 2) {
    ASSERT_TRUE(absl::SimpleAtoi(part[0], &number) &&
                absl::SimpleAtoi(part[1], &parts) && 1 <= number &&
                number <= parts)
        << chosen;
  }
  std::erase_if(
      cases, [&](const Case& one) { return KeyOf(one) % parts != number - 1; });
}

class FaultMatrixTest : public DaemonTest {
 protected:
  v1::JobSpec Training(const std::string& strategy) {
    v1::JobSpec spec = TrainSpec("planted");
    spec.mutable_train()->set_checkpoint_every(2);
    v1::DataSpec& data = *spec.mutable_train()->mutable_data();
    data.mutable_budgets()->set_cpu_cache_bytes(8192);
    if (strategy == "gnndrive") data.mutable_gnndrive();
    if (strategy == "diskgnn") data.mutable_diskgnn();
    return spec;
  }

  // Waits for the job's end, or until power is lost. A job that waits for the
  // disk goes on once the fault is over.
  void Settle(v1::Job& job) {
    while (!HasEnded(job) && !vfs_.power_is_lost()) {
      v1::Job now;
      const grpc::Status status = TryGet(job.id(), &now);
      if (status.ok()) {
        job = now;
      } else {
        ExpectDatabaseError(status.error_code(), status.error_message());
      }
      if (!status.ok() || job.state() == v1::WAITING ||
          vfs_.hits() >= kManyHits) {
        ClearFaults();
      }
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  void ClearFaults() {
    files_.Clear();
    if (!vfs_.power_is_lost()) vfs_.Clear();
  }

  // Runs one step; returns whether it succeeded. A refused submission gives a
  // job without an id.
  bool Step(const v1::JobSpec& spec, std::vector<v1::Job>& jobs,
            const std::string& request_id = "") {
    v1::Job job;
    const grpc::Status status = TrySubmit(spec, &job, request_id);
    if (status.ok()) {
      Settle(job);
    } else {
      job.set_state(v1::FAILED);
      job.mutable_error()->set_code(status.error_code());
      job.mutable_error()->set_message(status.error_message());
    }
    jobs.push_back(job);
    return job.state() == v1::SUCCEEDED;
  }

  // Runs the steps until one fails. Called again, it continues there.
  std::vector<v1::Job> RunScript() {
    std::vector<v1::Job> jobs;
    if (Step(ImportSpec("planted"), jobs, "import") &&
        Step(Training("gnndrive"), jobs, "gnndrive") &&
        Step(Training("diskgnn"), jobs, "diskgnn")) {
      Step(ExportSpec(jobs.back().id(), "exported"), jobs, "export");
    }
    return jobs;
  }

  void StartOver() {
    files_.Clear();
    vfs_.Clear();
    daemon_.reset();
    vfs_.Forget();
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

  // Fingerprint of the dataset; empty without one.
  std::string Fingerprint() const {
    const auto dataset = store::Dataset::Open(io::FileSystem::Posix(),
                                              root_ + "/data/datasets/planted");
    return dataset.ok() ? (*dataset)->manifest().fingerprint : "";
  }

  // Runs the daemon without faults; the results are the reference for all
  // cases.
  void RunUndisturbed() {
    StartOver();
    EXPECT_TRUE(TryStart());
    expected_ = RunScript();
    EXPECT_EQ(expected_.size(), 4u);
    for (const v1::Job& job : expected_) {
      EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
    }
    fingerprint_ = Fingerprint();
    daemon_.reset();
  }

  std::vector<io::Fault> FileCases() {
    const size_t before = files_.calls().size();
    RunUndisturbed();
    std::map<Operation, int64_t> counts;
    const auto calls = files_.calls();
    for (size_t i = before; i < calls.size(); ++i) ++counts[calls[i].operation];
    std::vector<io::Fault> cases;
    for (const auto& [operation, count] : counts) {
      for (io::Fault fault : FaultsOf(operation)) {
        fault.only = operation;
        for (fault.nth = 1; fault.nth <= count; ++fault.nth) {
          for (const bool for_good : {false, true}) {
            fault.for_good = for_good;
            cases.push_back(fault);
          }
        }
      }
    }
    return cases;
  }

  std::vector<VfsFault> DatabaseCases() {
    StartOver();
    std::map<VfsOperation, int64_t> before = vfs_.counts();
    RunUndisturbed();
    std::vector<VfsFault> cases;
    for (const auto& [operation, until] : vfs_.counts()) {
      const int64_t count = until - before[operation];
      for (const VfsEffect effect : EffectsOn(operation)) {
        for (int64_t nth = 1; nth <= count; ++nth) {
          VfsFault fault = {
              .operation = operation, .nth = nth, .effect = effect};
          cases.push_back(fault);
          if (effect == VfsEffect::kLosePower ||
              effect == VfsEffect::kLosePowerBetweenSectors) {
            continue;
          }
          fault.for_good = true;
          cases.push_back(fault);
        }
      }
    }
    return cases;
  }

  // Other bytes of an imported source are like another source; an import also
  // reads back what it has written.
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

  // The error is about the failing or full disk of the database, and nothing
  // else.
  void ExpectDatabaseError(int code, const std::string& message) {
    EXPECT_TRUE(code == grpc::UNAVAILABLE || code == grpc::RESOURCE_EXHAUSTED)
        << code << " " << message;
    EXPECT_TRUE(absl::StrContains(message, root_ + "/data/hearth.db"))
        << message;
  }

  // No job fails because of the database. After another start all acknowledged
  // data exists, and the same requests lead to the end.
  void RunDatabaseCase(const VfsFault& fault) {
    StartOver();
    vfs_.Inject(fault);
    std::vector<v1::Job> jobs;
    if (TryStart()) {
      jobs = RunScript();
    } else {
      ExpectDatabaseError(static_cast<int>(start_error_.code()),
                          std::string(start_error_.message()));
    }
    failed_ += jobs.size() < expected_.size();
    daemon_.reset();
    if (vfs_.power_is_lost()) vfs_.RestorePower();
    vfs_.Clear();
    ASSERT_TRUE(TryStart()) << start_error_;
    for (const std::string& warning : SetDraining(false).warnings()) {
      ADD_FAILURE() << warning;
    }
    for (const v1::Job& job : jobs) {
      if (job.id().empty()) {
        ExpectDatabaseError(job.error().code(), job.error().message());
      } else if (HasEnded(job)) {
        EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
        EXPECT_EQ(Get(job.id()).state(), job.state());
      }
    }
    const std::vector<v1::Job> again = RunScript();
    ASSERT_EQ(again.size(), expected_.size());
    for (size_t step = 0; step < again.size(); ++step) {
      const v1::Job& job = again[step];
      EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
      EXPECT_EQ(Digest(job), Digest(expected_[step])) << job.id();
      if (step < jobs.size() && !jobs[step].id().empty()) {
        EXPECT_EQ(job.id(), jobs[step].id());
      }
    }
    EXPECT_EQ(SetDraining(false).memory_reserved_bytes(), 0u);
  }

  void RunFileCase(const io::Fault& fault) {
    StartOver();
    files_.Inject(fault);
    std::vector<v1::Job> jobs;
    if (TryStart()) {
      jobs = RunScript();
    } else {
      // The error may even name a parent of the data directory.
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

  // All failed steps succeed now. A dataset that was acknowledged, but whose
  // bytes the disk has lost, is imported again.
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
  std::vector<io::Fault> cases = FileCases();
  const size_t all = cases.size();
  Choose(kFileSample, cases);
  for (const io::Fault& fault : cases) {
    SCOPED_TRACE(absl::StrCat(
        "operation ", static_cast<int>(*fault.only), ", call ", fault.nth,
        ", effect ", static_cast<int>(fault.effect),
        fault.for_good ? ", for good, " : ", once, ", fault.status.ToString()));
    RunFileCase(fault);
    if (HasFatalFailure()) return;
  }
  std::cout << cases.size() << " of " << all << " cases run; in " << failed_
            << " of them a job failed\n";
  EXPECT_GT(failed_, 0);
}

TEST_F(FaultMatrixTest, EveryFaultAtEveryCallOfTheDatabase) {
  std::vector<VfsFault> cases = DatabaseCases();
  const size_t all = cases.size();
  Choose(kDatabaseSample, cases);
  for (const VfsFault& fault : cases) {
    SCOPED_TRACE(absl::StrCat("operation ", static_cast<int>(fault.operation),
                              ", call ", fault.nth, ", effect ",
                              static_cast<int>(fault.effect),
                              fault.for_good ? ", for good" : ", once"));
    RunDatabaseCase(fault);
    if (HasFatalFailure()) return;
  }
  std::cout << cases.size() << " of " << all << " cases run; " << failed_
            << " of them ended the script\n";
  EXPECT_GT(failed_, 0);
}

}  // namespace
}  // namespace hearth::server
