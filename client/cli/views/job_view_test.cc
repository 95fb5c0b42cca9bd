#include "client/cli/views/job_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

namespace hearth::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

v1::Job TrainedJob() {
  v1::Job job;
  job.set_id("train-7");
  job.set_state(v1::SUCCEEDED);
  job.mutable_create_time()->set_seconds(1700000000);
  job.mutable_start_time()->set_seconds(1700000001);
  job.mutable_end_time()->set_seconds(1700000063);
  v1::TrainJobSpec* spec = job.mutable_spec()->mutable_train();
  spec->mutable_data()->set_dataset("wordnet");
  spec->mutable_data()->mutable_mmap();
  spec->mutable_data()->mutable_neighbor()->add_fanouts(10);
  spec->add_trains()->mutable_sage()->set_hidden(64);
  v1::TrainReport* report = job.mutable_report()->mutable_train();
  report->set_metric("accuracy");
  report->set_test_metric(0.8612);
  report->set_loss_digest("abcd");
  report->set_model_path("/data/models/train-7");
  report->set_peak_memory_bytes(3 << 20);
  report->set_memory_bound_bytes(4 << 20);
  report->set_first_batch_seconds(0.25);
  report->set_warm_start(true);
  report->add_verified_once("neighbors");
  report->add_verified_once("rows");
  v1::EpochReport* epoch = report->add_epochs();
  epoch->set_epoch(1);
  epoch->set_loss(2.12345);
  epoch->set_valid_metric(0.5531);
  epoch->set_batches(69);
  epoch->set_rows_needed(1234567);
  epoch->set_bytes_needed(5 << 20);
  v1::LevelHits* hits = epoch->add_hits();
  hits->set_level("cpu_cache");
  hits->set_rows(308642);
  v1::PhaseSeconds* phase = epoch->add_phases();
  phase->set_name("inspect");
  phase->set_seconds(1.25);
  epoch->add_stages()->set_name("sample");
  return job;
}

std::string Outcome(const v1::Job& job) {
  std::ostringstream out;
  PrintOutcome(job, out);
  return out.str();
}

TEST(PrintOutcome, TellsWhatWasTrained) {
  const std::string text = Outcome(TrainedJob());
  EXPECT_THAT(text, HasSubstr("test accuracy: 0.861\n"));
  EXPECT_THAT(text, HasSubstr("loss digest: abcd\n"));
  EXPECT_THAT(text, HasSubstr("model: /data/models/train-7\n"));
  EXPECT_THAT(text, HasSubstr("inspect: 1.2 s\n"));
  EXPECT_THAT(
      text,
      HasSubstr("peak memory of the daemon: 3.0 MiB (at most 4.0 MiB)\n"));
  EXPECT_THAT(text, HasSubstr("first batch after: 0.25 s (warm start)\n"));
  EXPECT_THAT(
      text,
      HasSubstr("verified before the first batch only: neighbors, rows\n"));
  EXPECT_THAT(text, HasSubstr("1  2.1235           0.553"));
  EXPECT_THAT(text, HasSubstr("1,234,567  25.0%       5.0 MiB"));
}

TEST(PrintOutcome, ShowsWhereTheTimeOfAFeedGoes) {
  v1::Job job;
  job.set_id("feed-1");
  job.set_state(v1::SUCCEEDED);
  job.mutable_spec()->mutable_feed()->mutable_data()->set_dataset("papers");
  v1::FeedReport& report = *job.mutable_report()->mutable_feed();
  EXPECT_THAT(Outcome(job), Not(HasSubstr("by stage")));
  report.mutable_train()->set_passes(2);
  v1::StageReport& stage = *report.mutable_train()->mutable_sum()->add_stages();
  stage.set_name("client");
  stage.set_threads(1);
  stage.set_busy_seconds(3.5);
  stage.set_starved_seconds(0.5);
  const std::string text = Outcome(job);
  EXPECT_THAT(text, HasSubstr("passes over the training nodes by stage\n"));
  EXPECT_THAT(text, ContainsRegex("client +1 +3.5 +0.5 +0.0\n"));
}

TEST(PrintOutcome, ShowsWhatAHistoryCosts) {
  v1::Job job = TrainedJob();
  EXPECT_THAT(Outcome(job), Not(HasSubstr("with and without the history")));
  v1::EpochReport& epoch =
      *job.mutable_report()->mutable_train()->mutable_epochs(0);
  epoch.set_seconds(1.5);
  v1::ExactEpoch& exact = *epoch.mutable_without_history();
  exact.set_loss(2.125);
  exact.set_valid_metric(0.5575);
  exact.set_rows_needed(2345678);
  exact.set_seconds(2.5);
  const std::string text = Outcome(job);
  EXPECT_THAT(text, HasSubstr("\nwith and without the history\n"));
  EXPECT_THAT(text, ContainsRegex("1 +0.553 +0.557 +2.1235 +2.1250 +1,234,567 "
                                  "+2,345,678 +1.5 +2.5\n"));
}

TEST(PrintOutcome, ShowsAnOrderOfLocality) {
  v1::Job job = TrainedJob();
  v1::LocalityChoice& choice =
      *job.mutable_report()->mutable_train()->mutable_locality();
  choice.set_parts(180);
  choice.set_macro_batch_parts(12);
  choice.set_label_distance(0.021);
  choice.set_shuffled_label_distance(0.0205);
  EXPECT_THAT(Outcome(job),
              HasSubstr("order: 12 of 180 parts in a macro batch; label "
                        "distance 0.0210, in random order 0.0205\n"));
  EXPECT_THAT(Outcome(job), Not(HasSubstr("epoch 2:")));
  choice.set_valid_metric(0.5);
  choice.set_shuffled_valid_metric(0.75);
  choice.set_rows_needed(1000);
  choice.set_shuffled_rows_needed(2000);
  EXPECT_THAT(Outcome(job),
              HasSubstr("epoch 2: valid accuracy 0.500, 1,000 rows; in random "
                        "order 0.750, 2,000 rows\n"));
  EXPECT_THAT(Outcome(job), Not(HasSubstr("from epoch 3 on")));
  choice.set_reverted(true);
  EXPECT_THAT(Outcome(job), HasSubstr("from epoch 3 on the order was random"));
}

TEST(PrintOutcome, ShowsWhereRowsWereFoundAndHowOthersWereRead) {
  v1::Job job = TrainedJob();
  EXPECT_THAT(Outcome(job), Not(HasSubstr("of the rows")))
      << "the table says it of a single level";
  v1::EpochReport& epoch =
      *job.mutable_report()->mutable_train()->mutable_epochs(0);
  epoch.set_rows_needed(1000);
  epoch.clear_hits();
  for (const auto& [level, rows] :
       {std::pair{"constant_buffer", 842}, {"window_cache", 37}}) {
    v1::LevelHits& hits = *epoch.add_hits();
    hits.set_level(level);
    hits.set_rows(static_cast<uint64_t>(rows));
  }
  epoch.set_rows_read(121);
  v1::ReadOverlap& overlap = *epoch.mutable_overlap();
  overlap.set_storage_path("io_uring, host-initiated");
  overlap.set_target_reads(3243);
  overlap.set_mean_merged(2.96);
  EXPECT_THAT(
      Outcome(job),
      HasSubstr("  constant_buffer: 84.2% of the rows\n"
                "  window_cache: 3.7% of the rows\n"
                "  read: 12.1% of the rows\n"
                "  batches read at a time: 3.0, for 3,243 reads to overlap, "
                "by io_uring, host-initiated\n"));
  EXPECT_THAT(Outcome(job), Not(HasSubstr("came late")));
  overlap.set_held_by_staging(4);
  EXPECT_THAT(Outcome(job), HasSubstr("  batches that came late: 0 for "
                                      "--merge-max, 4 for --staging\n"));
}

TEST(PrintOutcome, NamesTheMetric) {
  v1::Job job = TrainedJob();
  v1::TrainReport& report = *job.mutable_report()->mutable_train();
  report.set_metric("micro_f1");
  EXPECT_THAT(Outcome(job), HasSubstr("test micro-F1: 0.861\n"));
  EXPECT_THAT(Outcome(job), HasSubstr("valid micro-F1"));
  report.set_metric("mse");
  report.set_test_metric(0.000123456);
  EXPECT_THAT(Outcome(job),
              HasSubstr("test mean squared error: 0.000123456\n"));
  EXPECT_THAT(Outcome(job), HasSubstr("valid mean squared error"));
}

TEST(PrintOutcome, WhatIsNotKnownIsADashOrAbsent) {
  v1::Job job = TrainedJob();
  job.mutable_report()->mutable_train()->clear_test_metric();
  job.mutable_report()
      ->mutable_train()
      ->mutable_epochs(0)
      ->clear_valid_metric();
  const std::string text = Outcome(job);
  EXPECT_THAT(text, Not(HasSubstr("test accuracy")));
  EXPECT_THAT(text, HasSubstr("1  2.1235               -"));
}

TEST(PrintOutcome, TellsWhyAJobFailed) {
  v1::Job job = TrainedJob();
  job.set_state(v1::FAILED);
  job.mutable_error()->set_code(3);
  job.mutable_error()->set_message("node_feat.npy: \x1b[31mNaN");
  EXPECT_EQ(Outcome(job),
            "train-7 failed: INVALID_ARGUMENT: node_feat.npy: \\x1b[31mNaN\n");
}

TEST(PrintOutcome, TellsThatAJobWasCancelled) {
  v1::Job job = TrainedJob();
  job.set_state(v1::CANCELLED);
  EXPECT_EQ(Outcome(job), "train-7 is cancelled\n");
}

TEST(PrintOutcome, TellsWhatWasImported) {
  v1::Job job;
  job.set_state(v1::SUCCEEDED);
  job.mutable_spec()->mutable_import()->set_name("wordnet");
  v1::ImportReport* report = job.mutable_report()->mutable_import();
  report->set_num_nodes(117659);
  report->set_num_edges(367578);
  report->set_feature_dim(1024);
  report->set_label_kind(v1::CLASSES);
  report->set_label_width(45);
  report->set_bytes_written(2048);
  report->set_seconds(2.34);
  EXPECT_EQ(Outcome(job),
            "imported wordnet: 117,659 nodes, 367,578 edges, 1,024 features, "
            "45 classes; 2.0 KiB written in 2.3 s\n");
}

TEST(PrintOutcome, TellsWhatWasCopied) {
  v1::Job job;
  job.set_state(v1::SUCCEEDED);
  job.mutable_spec()->mutable_import()->set_name("wordnet");
  job.mutable_spec()->mutable_import()->set_from_member("host-b");
  job.mutable_report()->mutable_import()->set_num_nodes(7);
  EXPECT_THAT(Outcome(job), HasSubstr("copied wordnet: 7 nodes"));
}

TEST(PrintJob, ShowsTheMemberThatACopyComesFrom) {
  v1::Job job;
  job.mutable_spec()->mutable_import()->set_name("wordnet");
  job.mutable_spec()->mutable_import()->set_from_member("host-b");
  std::ostringstream out;
  PrintJob(job, out);
  EXPECT_THAT(out.str(), ContainsRegex("from +host-b\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("share")));
  job.mutable_spec()->mutable_import()->set_share("2/4");
  PrintJob(job, out);
  EXPECT_THAT(out.str(), ContainsRegex("share of feature rows +2/4\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("source")));
}

TEST(PrintJob, ShowsTheOptionsByTheirNames) {
  std::ostringstream out;
  PrintJob(TrainedJob(), out);
  EXPECT_THAT(out.str(), HasSubstr("strategy          mmap\n"));
  EXPECT_THAT(out.str(), HasSubstr("fanouts           10\n"));
  EXPECT_THAT(out.str(), HasSubstr("hidden            64\n"));
  EXPECT_THAT(out.str(), HasSubstr("test accuracy: 0.861\n"));
}

TEST(PrintJobList, HasALinePerJob) {
  v1::Job queued;
  queued.set_id("import-8");
  queued.set_state(v1::QUEUED);
  queued.mutable_spec()->mutable_import()->set_name("cora");
  std::ostringstream out;
  PrintJobList({queued, TrainedJob()}, out);
  EXPECT_THAT(out.str(), HasSubstr("import-8  import  cora     queued     -"));
  EXPECT_THAT(out.str(),
              HasSubstr("train-7   train   wordnet  succeeded  2023"));
  EXPECT_THAT(out.str(), HasSubstr("1:02\n"));
}

TEST(PrintOutcome, TellsWhatWasPrepared) {
  v1::Job job;
  job.set_state(v1::SUCCEEDED);
  job.mutable_spec()->mutable_prepare()->mutable_data()->set_dataset("wordnet");
  v1::PreparationReport& preparation =
      *job.mutable_report()->mutable_prepare()->mutable_preparation();
  preparation.set_plan("diskgnn-ab-12");
  preparation.set_seconds(12.34);
  preparation.set_disk_bytes(5 << 20);
  preparation.set_reason("segments of 4 batches");
  v1::PhaseSeconds& phase = *preparation.add_phases();
  phase.set_name("sampling");
  phase.set_seconds(7);
  const std::string text = Outcome(job);
  EXPECT_THAT(text, HasSubstr("plan diskgnn-ab-12: made in 12.3 s (sampling "
                              "7.0 s), 5.0 MiB on disk\n"
                              "  segments of 4 batches\n"));
  preparation.set_reused(true);
  preparation.set_first_epoch(5);
  EXPECT_THAT(Outcome(job), HasSubstr("from epoch 5 on: found in"));
  v1::PiecesToMake& to_make = *preparation.mutable_to_make();
  to_make.set_plan("/p/samples.json");
  to_make.set_pieces(3);
  to_make.set_missing(1);
  to_make.set_fault("piece 2 is missing");
  const std::string pieces = Outcome(job);
  EXPECT_THAT(pieces, HasSubstr("1 of 3 pieces is to be made before the plan "
                                "is: hearth piece --of /p/samples.json "
                                "--index N\n  piece 2 is missing\n"));
  EXPECT_EQ(pieces.find("diskgnn-ab-12"), std::string::npos);
}

TEST(PrintOutcome, TellsWhatIsExpected) {
  v1::Job job;
  job.set_state(v1::SUCCEEDED);
  job.mutable_spec()->mutable_explain();
  v1::ExplainReport& report = *job.mutable_report()->mutable_explain();
  report.set_batches(82);
  report.set_rows_needed(1234567);
  report.set_bytes_read(8 << 20);
  report.set_memory_bytes(9 << 20);
  report.set_sampled_batches(10);
  report.set_total_batches(100);
  v1::LevelForecast& level = *report.add_levels();
  level.set_level("cpu_cache");
  level.set_rows(1000);
  v1::MemoryShare& share = *report.add_memory();
  share.set_owner("cache");
  share.set_bytes(9 << 20);
  report.add_memory()->set_owner("nothing");
  report.add_notes("the disk decides");
  const std::string text = Outcome(job);
  EXPECT_THAT(text, HasSubstr("1,234,567"));
  EXPECT_THAT(text, HasSubstr("8.0 MiB"));
  EXPECT_THAT(text, HasSubstr("10 of 100 batches"));
  EXPECT_THAT(text, HasSubstr("cpu_cache"));
  EXPECT_THAT(text, HasSubstr("the disk decides\n"));
  EXPECT_THAT(text, Not(HasSubstr("an epoch takes")));
  EXPECT_THAT(text, Not(HasSubstr("nothing")));
}

TEST(PrintOutcome, TellsWhatWasCut) {
  v1::Job job = TrainedJob();
  v1::TrainReport& report = *job.mutable_report()->mutable_train();
  report.set_memory_limit_bytes(uint64_t{2816} << 20);
  v1::BudgetCut& cache = *report.add_cuts();
  cache.set_option("cpu-cache");
  cache.set_asked(1 << 30);
  cache.set_chosen(512 << 20);
  cache.set_unit("bytes");
  v1::BudgetCut& threads = *report.add_cuts();
  threads.set_option("samplers");
  threads.set_asked(4);
  threads.set_chosen(1);
  threads.set_unit("threads");
  EXPECT_THAT(
      Outcome(job),
      HasSubstr(
          "cpu-cache: 512.0 MiB instead of 1.0 GiB, to fit the memory limit "
          "of 2.8 GiB\nsamplers: 1 instead of 4, to fit the memory limit of "
          "2.8 GiB\n"));
}

TEST(PrintJob, ShowsPriorityAndWhatItWaitsFor) {
  v1::Job job = TrainedJob();
  job.set_priority(-7);
  std::ostringstream ended;
  PrintJob(job, ended);
  EXPECT_THAT(ended.str(), HasSubstr("priority          -7\n"));
  EXPECT_THAT(ended.str(), Not(HasSubstr("trial of")));
  job.set_sweep("sweep-2");
  job.set_trial(3);
  std::ostringstream trial;
  PrintJob(job, trial);
  EXPECT_THAT(trial.str(), HasSubstr("trial of          sweep-2, number 3\n"));
  EXPECT_THAT(ended.str(), Not(HasSubstr("waits for")));
  job.set_state(v1::WAITING);
  job.set_waiting_reason("disk: EIO");
  std::ostringstream waiting;
  PrintJob(job, waiting);
  EXPECT_THAT(waiting.str(), HasSubstr("waits for         disk: EIO\n"));
}

}  // namespace
}  // namespace hearth::cli
