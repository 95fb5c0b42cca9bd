// Feeds of a whole daemon, as clients use them.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "hearth/v1/feeds.grpc.pb.h"
#include "hearth/v1/feeds.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "server/feeds/feeds_fixture.h"
#include "server/testing/test_daemon.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kTrainSeeds = 360;

class FeedDaemonTest : public DaemonTest {
 protected:
  FeedDaemonTest() {
    std::filesystem::remove_all(ShortFolder());
    config_.data_dir = ShortFolder();
    Restart();
  }
  ~FeedDaemonTest() override {
    gate_.Open();
    daemon_ = nullptr;
    std::filesystem::remove_all(ShortFolder());
  }

  void Restart() {
    daemon_ = nullptr;
    Start();
  }

  v1::JobSpec FeedSpec() const {
    v1::JobSpec spec;
    v1::DataSpec& data = *spec.mutable_feed()->mutable_data();
    data.set_dataset("graph");
    data.mutable_memory();
    data.mutable_subgraph()->add_fanouts(3);
    data.set_batch_size(64);
    return spec;
  }

  grpc::Status Attach(const std::string& address, const std::string& id,
                      v1::AttachFeedResponse* response = nullptr) {
    grpc::ClientContext context;
    v1::AttachFeedRequest request;
    request.set_id(id);
    v1::AttachFeedResponse unused;
    return v1::Feeds::NewStub(
               grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))
        ->AttachFeed(&context, request,
                     response == nullptr ? &unused : response);
  }

  // A client of a job, that has said hello.
  std::unique_ptr<FeedConnection> NewClient(const std::string& id) {
    v1::AttachFeedResponse response;
    const grpc::Status status =
        Attach(daemon_->socket_address(), id, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    auto client = std::make_unique<FeedConnection>(response.path());
    EXPECT_TRUE(client->SayHello(response.ticket()));
    return client;
  }

  // The next message that is no slot.
  static v1::FeedDown Next(FeedConnection& client) {
    while (const std::optional<Received> received = client.Receive()) {
      if (!received->message.has_slot() && !received->message.has_drop()) {
        return received->message;
      }
    }
    ADD_FAILURE() << "the daemon has closed the connection";
    return {};
  }
};

TEST_F(FeedDaemonTest, AClientTakesAllBatchesOfAPass) {
  Import("graph");
  const std::string id = Submit(FeedSpec());
  const auto client = NewClient(id);
  const v1::FeedDown welcome = Next(*client);
  EXPECT_EQ(welcome.welcome().train_seeds(), kTrainSeeds);
  EXPECT_EQ(welcome.welcome().train_batches(), 6u);
  EXPECT_EQ(welcome.welcome().labels(), "classes");
  ASSERT_TRUE(client->Open(1));
  uint64_t seeds = 0;
  v1::FeedDown message = Next(*client);
  for (uint64_t number = 0; message.has_batch(); ++number) {
    EXPECT_EQ(message.batch().number(), number);
    seeds += message.batch().num_seeds();
    ASSERT_TRUE(client->Release(message.batch()));
    message = Next(*client);
  }
  EXPECT_EQ(message.end().batches(), 6u);
  EXPECT_EQ(seeds, kTrainSeeds);
  // While the job runs.
  const v1::FeedReport::Passes passes = Get(id).report().feed().train();
  EXPECT_EQ(passes.passes(), 1u);
  EXPECT_EQ(passes.sum().batches(), 6u);
  EXPECT_EQ(passes.sum().stages().rbegin()->name(), "client");
  v1::FeedUp last;
  last.mutable_epoch()->set_epoch(1);
  last.mutable_epoch()->set_loss(0.5);
  ASSERT_TRUE(client->Send(last));
  last.mutable_bye();
  ASSERT_TRUE(client->Send(last));
  const v1::Job job = AwaitEnd(id);
  EXPECT_EQ(job.state(), v1::SUCCEEDED) << job.error().message();
  ASSERT_EQ(job.report().feed().epochs_size(), 1);
  EXPECT_EQ(job.report().feed().epochs(0).loss(), 0.5);
}

TEST_F(FeedDaemonTest, OnlyAFeedThatGoesOnIsAttached) {
  const std::string& socket = daemon_->socket_address();
  EXPECT_EQ(Attach(socket, "feed-9").error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string import = Submit(ImportSpec("graph"));
  const grpc::Status no_feed = Attach(socket, import);
  EXPECT_EQ(no_feed.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(no_feed.error_message(), HasSubstr("not a feed"));
  AwaitEnd(import);
  const std::string id = Submit(FeedSpec());
  const grpc::Status far = Attach(daemon_->grpc_address(), id);
  EXPECT_EQ(far.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(far.error_message(), HasSubstr("Unix socket"));
  const auto client = NewClient(id);
  EXPECT_TRUE(Next(*client).has_welcome());
  EXPECT_EQ(Attach(socket, id).error_code(), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(Cancel(id).ok());
  AwaitEnd(id);
  const grpc::Status ended = Attach(socket, id);
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(ended.error_message(), HasSubstr("cancelled"));
}

TEST_F(FeedDaemonTest, ACancelledJobTellsItsClient) {
  Import("graph");
  const std::string id = Submit(FeedSpec());
  const auto client = NewClient(id);
  EXPECT_TRUE(Next(*client).has_welcome());
  ASSERT_TRUE(Cancel(id).ok());
  EXPECT_EQ(Next(*client).error().code(),
            static_cast<int>(absl::StatusCode::kCancelled));
}

// A client comes while another job has the only place, and gets the place.
TEST_F(FeedDaemonTest, AClientWaitsForAPlace) {
  config_.max_running_jobs = 1;
  Restart();
  Import("graph");
  gate_.Close();
  const std::string train = Submit(TrainSpec("graph"));
  gate_.AwaitWaiting();
  const std::string id = Submit(FeedSpec());
  const auto client = NewClient(id);
  gate_.Open();
  EXPECT_TRUE(Next(*client).has_welcome());
  EXPECT_EQ(AwaitEnd(train).state(), v1::SUCCEEDED);
}

TEST_F(FeedDaemonTest, ADrainEndsWithTheTrainingPass) {
  Import("graph");
  const std::string id = Submit(FeedSpec());
  const auto client = NewClient(id);
  EXPECT_TRUE(Next(*client).has_welcome());
  ASSERT_TRUE(client->Open(1));
  v1::FeedDown message = Next(*client);
  EXPECT_TRUE(SetDraining(true).draining());
  for (; message.has_batch(); message = Next(*client)) {
    ASSERT_TRUE(client->Release(message.batch()));
  }
  EXPECT_EQ(message.end().batches(), 6u);
  EXPECT_FALSE(message.end().has_error());
  ASSERT_TRUE(client->Open(2));
  message = Next(*client);
  EXPECT_EQ(message.end().pass(), 2u);
  EXPECT_EQ(message.end().error().code(),
            static_cast<int>(absl::StatusCode::kUnavailable));
  while (Get(id).state() != v1::WAITING) absl::SleepFor(absl::Milliseconds(1));
  SetDraining(false);
  ASSERT_TRUE(client->Open(3));
  EXPECT_TRUE(Next(*client).has_welcome());
  EXPECT_EQ(Next(*client).batch().pass(), 3u);
}

TEST_F(FeedDaemonTest, AStopHangsUpAndTheJobGoesOnAfterTheNextStart) {
  Import("graph");
  const std::string id = Submit(FeedSpec());
  auto client = NewClient(id);
  EXPECT_TRUE(Next(*client).has_welcome());
  ASSERT_TRUE(client->Open(1));
  EXPECT_EQ(Next(*client).batch().number(), 0u);
  const absl::Status stopped = daemon_->Stop(absl::Minutes(1));
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_EQ(client->AwaitClosed(), absl::OkStatus());
  Restart();
  client = NewClient(id);
  EXPECT_TRUE(Next(*client).has_welcome());
  ASSERT_TRUE(client->Open(1, v1::FEED_TRAIN, /*first_batch=*/5));
  const v1::FeedDown message = Next(*client);
  EXPECT_EQ(message.batch().number(), 5u);
  ASSERT_TRUE(client->Release(message.batch()));
  EXPECT_TRUE(Next(*client).has_end());
}

}  // namespace
}  // namespace hearth::server
