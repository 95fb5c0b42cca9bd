// Whole daemon on a failing file system: reads that fail or return other bytes,
// writes, syncs and renames that fail, a disk that fills up. A job survives
// these with its usual results: it waits, naming the file that it waits for,
// and goes on when the fault is gone. Bytes that stay wrong end it with an
// error that names the file; daemon and next job are unaffected. SQLite's own
// file does not go through this file system.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/test_daemon.h"

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
    data.mutable_budgets()->set_cpu_cache_bytes(8192);
    if (strategy == "gnndrive") {
      data.mutable_gnndrive();
    } else if (strategy == "ginex") {
      data.mutable_ginex()->set_superbatch(3);
    } else if (strategy == "diskgnn") {
      data.mutable_diskgnn();
    } else if (strategy == "outre") {
      data.mutable_outre()->set_superbatch(3);
      data.mutable_partition()->set_parts(12);
      data.mutable_partition()->set_macro_batch_parts(1);
      // Memory for the lists of some, but not all, parts of a batch.
      data.set_batch_size(30);
      data.mutable_outre()->set_neighbor_cache_bytes(56 << 10);
    } else if (strategy == "gids") {
      data.mutable_gids();
      spec.mutable_train()->mutable_pipeline()->set_io_depth(4);
    } else {
      data.clear_budgets();
    }
    return spec;
  }

  // Starts a daemon without faults, warm caches and plans.
  void StartAnew() {
    files_.Clear();
    daemon_.reset();
    std::filesystem::remove_all(root_ + "/data/plans");
    Start();
  }

  // Everything that a job saw of its batches.
  static std::string Results(const v1::Job& job) {
    const v1::TrainReport& report = job.report().train();
    std::string results =
        absl::StrCat(report.loss_digest(), " ", report.test_metric());
    for (const v1::EpochReport& epoch : report.epochs()) {
      absl::StrAppend(&results, " ", epoch.valid_metric());
    }
    return results;
  }

  // Results of the job on a new daemon without faults.
  std::string Undisturbed(const v1::JobSpec& spec) {
    StartAnew();
    const v1::Job job = AwaitEnd(Submit(spec));
    EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
    return Results(job);
  }

  // Runs the job again on the same daemon, without fault.
  void ExpectWell(const v1::JobSpec& spec, const std::string& results) {
    files_.Clear();
    const v1::Job job = AwaitEnd(Submit(spec));
    ASSERT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
    EXPECT_EQ(Results(job), results);
    EXPECT_EQ(SetDraining(false).memory_reserved_bytes(), 0u);
  }

  // Error of the job, or of its submission; OK if it succeeded.
  absl::Status Run(const v1::JobSpec& spec, v1::Job* job) {
    if (const grpc::Status status = TrySubmit(spec, job); !status.ok()) {
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                          status.error_message());
    }
    *job = AwaitEnd(job->id());
    if (job->state() == v1::SUCCEEDED) return absl::OkStatus();
    EXPECT_EQ(job->state(), v1::FAILED);
    return absl::Status(static_cast<absl::StatusCode>(job->error().code()),
                        job->error().message());
  }

  // Runs a job with faults; when it waits, `on_wait` is called, which ends
  // them. Returns whether it waited. The job must end with `results`; if its
  // submission fails, it is submitted again after the faults.
  bool Outlasts(const v1::JobSpec& spec, const std::string& results,
                const std::function<void()>& on_wait) {
    v1::Job job;
    const grpc::Status submitted = TrySubmit(spec, &job);
    if (!submitted.ok()) {
      EXPECT_THAT(submitted.error_message(), HasSubstr(root_)) << "the file";
      ExpectWell(spec, results);
      return true;
    }
    const v1::StateChange change = AwaitEndOrWait(job.id());
    const bool waits = change.state() == v1::WAITING;
    if (waits) {
      EXPECT_THAT(change.waiting_reason(), HasSubstr(root_)) << "the file";
      on_wait();
    }
    job = AwaitEnd(job.id());
    EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
    EXPECT_EQ(Results(job), results);
    EXPECT_THAT(HalfWritten(), ::testing::IsEmpty());
    last_job_ = job.id();
    return waits;
  }

  // Files that a job reads on a new daemon.
  std::set<std::string> FilesRead(const v1::JobSpec& spec) {
    StartAnew();
    const size_t before = files_.calls().size();
    v1::Job job;
    EXPECT_TRUE(Run(spec, &job).ok());
    std::set<std::string> names;
    const std::vector<io::FaultyFileSystem::Call> calls = files_.calls();
    for (size_t i = before; i < calls.size(); ++i) {
      if (calls[i].operation != io::Operation::kRead) continue;
      names.insert(std::filesystem::path(calls[i].path).filename().string());
    }
    return names;
  }

  // Files that a job left unfinished. The copy of a job in its folder may still
  // be being written when its end is reported.
  std::vector<std::string> HalfWritten() {
    std::vector<std::string> paths;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(root_)) {
      if (absl::EndsWith(entry.path().string(), io::kTemporarySuffix) &&
          entry.path().filename() != "job.json.tmp") {
        paths.push_back(entry.path().string());
      }
    }
    return paths;
  }

  // Runs jobs with a fault at one read after the other, until none is hit;
  // returns how many of them waited.
  int RunWithFailingReads(const std::string& strategy, io::Fault fault) {
    const v1::JobSpec spec = Spec(strategy);
    const std::string results = Undisturbed(spec);
    fault.only = io::Operation::kRead;
    int waited = 0;
    // Reads at growing distances.
    for (fault.nth = 1;; fault.nth += 1 + fault.nth / 4) {
      StartAnew();
      files_.Inject(fault);
      if (Outlasts(spec, results, [this] { files_.Clear(); })) ++waited;
      if (files_.hits() == 0) return waited;
    }
  }

  // Runs jobs that read other bytes in a file, at one read after the other,
  // once and from there on. Returns whether a job used them. A job that did not
  // use them succeeded with the usual results, since the bytes were read again,
  // or ended with DATA_LOSS naming the file, which is required where they stay
  // wrong.
  bool UsesOtherBytes(const v1::JobSpec& spec, const std::string& results,
                      const std::string& file) {
    bool used = false;
    int detected = 0;
    for (const bool for_good : {false, true}) {
      io::Fault fault = {.for_good = for_good,
                         .effect = io::Effect::kCorruptRead,
                         .only = io::Operation::kRead,
                         .path_end = "/" + file};
      for (fault.nth = 1;; fault.nth *= 2) {
        StartAnew();
        files_.Inject(fault);
        v1::Job job;
        const absl::Status status = Run(spec, &job);
        if (files_.hits() == 0) break;
        if (status.ok()) {
          used |= Results(job) != results;
          continue;
        }
        ++detected;
        EXPECT_TRUE(absl::IsDataLoss(status)) << file << ": " << status;
        // Where a block and its checksum differ, either may be wrong.
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(std::string(absl::StripSuffix(file, ".crc"))));
        ExpectWell(spec, results);
      }
    }
    EXPECT_TRUE(used || detected > 0) << file << ": these bytes do not matter";
    return used;
  }

  // Runs jobs with the fault at one operation after the other, until none is
  // hit; returns how many of them waited. They go on with the next daemon.
  int RunWithFailingWrites(const v1::JobSpec& spec, const std::string& results,
                           io::Fault fault) {
    config_.first_wait_pause = absl::Hours(1);
    int waited = 0;
    for (fault.nth = 1;; fault.nth += 1 + fault.nth / 2) {
      StartAnew();
      files_.Inject(fault);
      waited += Outlasts(spec, results, [this] {
        EXPECT_THAT(HalfWritten(), ::testing::IsEmpty());
        daemon_.reset();
        Start();
      });
      if (files_.hits() == 0) return waited;
    }
  }

  // Id of the last job that Outlasts ran.
  std::string last_job_;
};

TEST_F(DaemonFaultTest, ReadsThatFailOnce) {
  for (const char* strategy : {"gnndrive", "ginex", "outre", "gids"}) {
    SCOPED_TRACE(strategy);
    RunWithFailingReads(strategy, {});
  }
}

TEST_F(DaemonFaultTest, ReadsThatFailForGood) {
  for (const char* strategy : {"gnndrive", "ginex", "outre", "gids"}) {
    SCOPED_TRACE(strategy);
    EXPECT_GE(RunWithFailingReads(strategy, {.for_good = true}), 8);
  }
}

// Jobs verify what they read: whole files when they are loaded, rows one by
// one, and topologies before the first batch. Neighbors that ginex reads one by
// one later are not verified again: other bytes that appear on the way there
// are trained on, unless they name a node that does not exist. Mapped files are
// not read in this sense.
struct OtherBytesCase {
  std::string strategy;
  // Files whose bytes may be trained on unverified.
  std::set<std::string> unverified;
  // Some of the files that only this strategy reads.
  std::set<std::string> own_files;
};

class OtherBytesTest : public DaemonFaultTest,
                       public ::testing::WithParamInterface<OtherBytesCase> {};

TEST_P(OtherBytesTest, AreFoundOrHarmless) {
  const std::string& strategy = GetParam().strategy;
  v1::JobSpec spec = Spec(strategy);
  // Greatest fan-outs, so that most bytes matter.
  v1::DataSpec& data = *spec.mutable_train()->mutable_data();
  data.mutable_neighbor()->set_fanouts(0, 11);
  if (strategy != "outre") data.set_batch_size(120);
  if (strategy == "ginex") data.mutable_ginex()->set_superbatch(2);
  const std::string results = Undisturbed(spec);
  const std::set<std::string> files = FilesRead(spec);
  EXPECT_THAT(files,
              ::testing::IsSupersetOf({"manifest.json", "edge.indptr.npy",
                                       "node.features.npy", "node.labels.npy",
                                       "node.train.npy", "node.valid.npy"}));
  EXPECT_THAT(files, ::testing::IsSupersetOf(GetParam().own_files));
  std::set<std::string> used;
  for (const std::string& file : files) {
    if (UsesOtherBytes(spec, results, file)) used.insert(file);
  }
  // The neighbors that a fault hits depend on threads: some runs draw none of
  // them.
  EXPECT_THAT(GetParam().unverified, ::testing::IsSupersetOf(used));
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, OtherBytesTest,
    ::testing::Values(
        OtherBytesCase{"memory", {}, {"edge.indices.npy"}},
        OtherBytesCase{"gnndrive", {}, {}},
        OtherBytesCase{
            "ginex",
            {"edge.indices.npy"},
            {"edge.indices.npy", "neighbor_cache", "plan.0", "sample.0"}},
        OtherBytesCase{
            "outre",
            {"edge.indices.npy"},
            {"edge.indices.npy", "neighbor_cache.cross", "partition.cross",
             "partition.index", "partition.lists", "partition.scatter.tmp",
             "partition.training", "plan.0", "sample.0"}},
        OtherBytesCase{
            "diskgnn", {}, {"cpu_cache", "index", "packs", "samples"}},
        OtherBytesCase{"gids", {}, {}}),
    [](const ::testing::TestParamInfo<OtherBytesCase>& info) {
      return info.param.strategy;
    });

// Every job writes checkpoints and its model; ginex also runtime files, outre a
// partition, diskgnn a plan, gids scores.
TEST_F(DaemonFaultTest, WritesThatFail) {
  for (const char* strategy :
       {"gnndrive", "ginex", "outre", "diskgnn", "gids"}) {
    SCOPED_TRACE(strategy);
    const v1::JobSpec spec = Spec(strategy);
    const std::string results = Undisturbed(spec);
    for (const auto operation :
         {io::Operation::kCreate, io::Operation::kWrite, io::Operation::kSync,
          io::Operation::kClose, io::Operation::kRename,
          io::Operation::kSyncDirectory}) {
      SCOPED_TRACE(static_cast<int>(operation));
      // No job fails because the copy in its folder fails.
      EXPECT_GE(RunWithFailingWrites(spec, results, {.only = operation}), 1);
    }
  }
}

TEST_F(DaemonFaultTest, ImportsWhoseWritesFail) {
  for (const auto operation :
       {io::Operation::kCreate, io::Operation::kWrite, io::Operation::kSync,
        io::Operation::kClose, io::Operation::kRename}) {
    SCOPED_TRACE(static_cast<int>(operation));
    int waited = 0;
    io::Fault fault = {.only = operation};
    for (fault.nth = 1;; fault.nth += 1 + fault.nth / 2) {
      files_.Inject(fault);
      v1::Job job;
      ASSERT_TRUE(TrySubmit(ImportSpec("other"), &job).ok());
      const v1::StateChange change = AwaitEndOrWait(job.id());
      if (change.state() == v1::WAITING) {
        ++waited;
        EXPECT_THAT(change.waiting_reason(), HasSubstr(root_));
      }
      job = AwaitEnd(job.id());
      EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
      const bool hit = files_.hits() > 0;
      files_.Clear();
      EXPECT_THAT(HalfWritten(), ::testing::IsEmpty());
      ASSERT_TRUE(DeleteDataset("other").ok());
      if (!hit) break;
    }
    EXPECT_GE(waited, 1);
  }
}

// The space of a deleted job lets another job go on.
TEST_F(DaemonFaultTest, ADiskThatFillsUp) {
  config_.first_wait_pause = absl::Hours(1);
  for (const char* strategy :
       {"gnndrive", "ginex", "outre", "diskgnn", "gids"}) {
    SCOPED_TRACE(strategy);
    const v1::JobSpec spec = Spec(strategy);
    const std::string results = Undisturbed(spec);
    ASSERT_FALSE(Outlasts(spec, results, [] {}));
    int waited = 0;
    for (uint64_t space = 0;; space = 2 * space + 64) {
      StartAnew();
      files_.LimitSpace(space);
      if (!Outlasts(spec, results, [this] {
            EXPECT_THAT(HalfWritten(), ::testing::IsEmpty());
            files_.Clear();
            EXPECT_TRUE(DeleteJob(last_job_).ok());
          })) {
        break;
      }
      ++waited;
    }
    EXPECT_GE(waited, 3);
  }
}

}  // namespace
}  // namespace hearth::server
