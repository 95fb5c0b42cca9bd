#include "client/hearth_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "client/testing/fake_daemon.h"
#include "engine/base/trace_parent.h"

namespace hearth::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Client> Connect(const std::string& address) {
  ClientOptions options;
  options.server = address;
  options.call_timeout = absl::Seconds(20);
  options.first_backoff = absl::Milliseconds(1);
  options.watch_patience = absl::Seconds(20);
  return NewClient(options);
}

v1::Job JobIn(v1::JobState state) {
  v1::Job job;
  job.set_id("train-1");
  job.set_state(state);
  return job;
}

std::vector<v1::JobEvent> FourEvents() {
  return {StateEvent(v1::RUNNING), LogEvent("a"), LogEvent("b"),
          StateEvent(v1::SUCCEEDED)};
}

// Numbers of the events that a whole watch hands on.
std::vector<uint64_t> WatchAll(Client& client, uint64_t from = 1) {
  std::vector<uint64_t> sequences;
  const absl::Status status = client.WatchJob(
      "train-1", from,
      [&](const v1::JobEvent& event) {
        sequences.push_back(event.sequence());
        return true;
      },
      std::stop_token());
  EXPECT_TRUE(status.ok()) << status;
  return sequences;
}

TEST(Client, TextsThatAreNotUtf8AreRefusedByTheirFields) {
  FakeDaemon daemon;
  const std::unique_ptr<Client> client = Connect(daemon.address());
  v1::JobSpec spec;
  spec.mutable_import()->set_path("/data/caf\xe9");
  const absl::Status path = client->SubmitJob(spec, 0, "a").status();
  EXPECT_TRUE(absl::IsInvalidArgument(path)) << path;
  EXPECT_THAT(std::string(path.message()),
              HasSubstr("path: \"/data/caf\\xe9\" is not UTF-8"));
  v1::DataSpec& data = *spec.mutable_train()->mutable_data();
  data.mutable_neighbor()->set_fanouts_of("\xff");
  EXPECT_THAT(std::string(client->SubmitJob(spec, 0, "b").status().message()),
              HasSubstr("fanouts_of: \"\\xff\""));
  EXPECT_THAT(std::string(client->BackUp("/\xe9").status().message()),
              HasSubstr("\"/\\xe9\""));
}

TEST(Client, WatchHandsOnAllEventsInOrder) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::SUCCEEDED), FourEvents());
  EXPECT_THAT(WatchAll(*Connect(daemon.address())), ElementsAre(1, 2, 3, 4));
}

TEST(Client, WatchStartsWhereItIsTold) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::SUCCEEDED), FourEvents());
  EXPECT_THAT(WatchAll(*Connect(daemon.address()), 3), ElementsAre(3, 4));
  EXPECT_THAT(daemon.watches(), ElementsAre(3));
}

TEST(Client, WatchFromBeyondTheEndIsOver) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::SUCCEEDED), FourEvents());
  EXPECT_THAT(WatchAll(*Connect(daemon.address()), 5), ElementsAre());
}

TEST(Client, BrokenWatchResumesWithoutGapOrDuplicate) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::SUCCEEDED), FourEvents(), {1, 3});
  EXPECT_THAT(WatchAll(*Connect(daemon.address())), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(daemon.watches(), ElementsAre(1, 2, 4));
}

TEST(Client, WatchOutlivesARestartOfTheDaemon) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::RUNNING), {StateEvent(v1::RUNNING), LogEvent("a")});
  std::thread restarter;
  daemon.OnWaitingWatch([&](const std::string&) {
    restarter = std::thread([&] {
      daemon.Stop();
      daemon.AddJob(JobIn(v1::SUCCEEDED), FourEvents());
      daemon.Start();
    });
  });
  EXPECT_THAT(WatchAll(*Connect(daemon.address())), ElementsAre(1, 2, 3, 4));
  restarter.join();
}

TEST(Client, WatchFindsADaemonThatIsBack) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::SUCCEEDED), FourEvents());
  daemon.Stop();
  ClientOptions options;
  options.server = daemon.address();
  options.first_backoff = absl::Milliseconds(1);
  // Less than the 5 s after which gRPC checks its connections by itself.
  options.watch_patience = absl::Seconds(1);
  const std::unique_ptr<Client> client = NewClient(options);
  EXPECT_TRUE(IsUnreachable(client->GetStatus().status()));
  daemon.Start();
  EXPECT_THAT(WatchAll(*client), ElementsAre(1, 2, 3, 4));
}

TEST(Client, WatchIsGivenUpWhenTheDaemonStaysAway) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::RUNNING), FourEvents());
  daemon.Stop();
  ClientOptions options;
  options.server = daemon.address();
  options.first_backoff = absl::Milliseconds(1);
  options.watch_patience = absl::Milliseconds(10);
  const absl::Status status = NewClient(options)->WatchJob(
      "train-1", 1, [](const v1::JobEvent&) { return true; },
      std::stop_token());
  EXPECT_TRUE(IsUnreachable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(daemon.address()));
}

TEST(Client, WatchOfAnUnknownJobEndsAtOnce) {
  FakeDaemon daemon;
  const absl::Status status =
      Connect(daemon.address())
          ->WatchJob(
              "train-9", 1, [](const v1::JobEvent&) { return true; },
              std::stop_token());
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(daemon.watches(), ElementsAre(1));
}

TEST(Client, SinkEndsTheWatch) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::RUNNING), FourEvents());
  int seen = 0;
  const absl::Status status =
      Connect(daemon.address())
          ->WatchJob(
              "train-1", 1, [&](const v1::JobEvent&) { return ++seen < 2; },
              std::stop_token());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen, 2);
}

TEST(Client, StopEndsAWatchThatWaits) {
  FakeDaemon daemon;
  daemon.AddJob(JobIn(v1::RUNNING), {StateEvent(v1::RUNNING)});
  std::stop_source stop;
  daemon.OnWaitingWatch([&](const std::string&) { stop.request_stop(); });
  const absl::Status status =
      Connect(daemon.address())
          ->WatchJob(
              "train-1", 1, [](const v1::JobEvent&) { return true; },
              stop.get_token());
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(Client, SubmissionWhoseAnswerIsLostGivesOneJob) {
  FakeDaemon daemon;
  daemon.LoseAnswers(1);
  ClientOptions options;
  options.server = daemon.address();
  options.call_timeout = absl::Milliseconds(500);
  const absl::StatusOr<v1::Job> job =
      NewClient(options)->SubmitJob(v1::JobSpec(), 0);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->id(), "train-1");
  const std::vector<v1::SubmitJobRequest> requests = daemon.submissions();
  ASSERT_EQ(requests.size(), 2);
  EXPECT_EQ(requests[0].request_id(), requests[1].request_id());
}

TEST(Client, CallsAreOfOneTrace) {
  FakeDaemon daemon;
  const std::unique_ptr<Client> client = Connect(daemon.address());
  ASSERT_TRUE(client->SubmitJob(v1::JobSpec(), 0).ok());
  ASSERT_TRUE(client->SubmitJob(v1::JobSpec(), 0).ok());
  const std::vector<std::string> traces = daemon.trace_parents();
  EXPECT_NE(TraceIdOf(traces[0]), "");
  EXPECT_EQ(traces[0], traces[1]);
}

TEST(Client, TheTraceThatIsGivenIsPassedOn) {
  FakeDaemon daemon;
  ClientOptions options;
  options.server = daemon.address();
  options.trace_parent =
      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  ASSERT_TRUE(NewClient(options)->SubmitJob(v1::JobSpec(), 0).ok());
  EXPECT_EQ(daemon.trace_parents(),
            std::vector<std::string>{options.trace_parent});
  // Proxies may refuse a malformed header, or misread it.
  options.trace_parent = "bad\r\nx: y";
  ASSERT_TRUE(NewClient(options)->SubmitJob(v1::JobSpec(), 0).ok());
  EXPECT_NE(TraceIdOf(daemon.trace_parents().back()), "");
}

TEST(Client, EachSubmissionHasItsOwnRequestId) {
  FakeDaemon daemon;
  const std::unique_ptr<Client> client = Connect(daemon.address());
  EXPECT_EQ(client->SubmitJob(v1::JobSpec(), 0)->id(), "train-1");
  EXPECT_EQ(client->SubmitJob(v1::JobSpec(), 0)->id(), "train-2");
}

TEST(Client, AnswersOfTheDaemonAreNotRetried) {
  FakeDaemon daemon;
  daemon.OnSubmit([](v1::Job*) { return absl::UnavailableError("draining"); });
  const absl::Status status =
      Connect(daemon.address())->SubmitJob(v1::JobSpec(), 0).status();
  EXPECT_FALSE(IsUnreachable(status));
  EXPECT_EQ(status.message(), "draining");
  EXPECT_EQ(daemon.submissions().size(), 1);
}

TEST(Client, NoDaemonIsUnreachable) {
  FakeDaemon daemon;
  daemon.Stop();
  EXPECT_TRUE(IsUnreachable(Connect(daemon.address())->GetStatus().status()));
}

TEST(Client, ListsJobsOfAllPages) {
  FakeDaemon daemon;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    v1::Job job = JobIn(id[0] == 'b' ? v1::FAILED : v1::SUCCEEDED);
    job.set_id(id);
    daemon.AddJob(job, {});
  }
  const std::unique_ptr<Client> client = Connect(daemon.address());
  EXPECT_EQ(client->ListJobs({})->size(), 5);
  EXPECT_EQ(client->ListNewestJobs({})->size(), 2);
  const absl::StatusOr<std::vector<v1::Job>> failed =
      client->ListJobs({v1::FAILED});
  ASSERT_EQ(failed->size(), 1);
  EXPECT_EQ(failed->front().id(), "b");
}

TEST(Client, DatasetsAreListedShownAndDeleted) {
  FakeDaemon daemon;
  v1::Dataset dataset;
  dataset.set_name("cora");
  daemon.AddDataset(dataset);
  const std::unique_ptr<Client> client = Connect(daemon.address());
  EXPECT_EQ(client->ListDatasets()->size(), 1);
  EXPECT_EQ(client->GetDataset("cora")->name(), "cora");
  EXPECT_TRUE(client->DeleteDataset("cora").ok());
  EXPECT_EQ(client->DeleteDataset("cora").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hearth::client
