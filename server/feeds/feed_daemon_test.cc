// Feeds of a whole daemon, as clients use them.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/sha256.h"
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
                      v1::AttachFeedResponse* response = nullptr,
                      bool stream = false) {
    grpc::ClientContext context;
    v1::AttachFeedRequest request;
    request.set_id(id);
    request.set_stream(stream);
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

  // A feed whose validation nodes are `nodes`.
  v1::JobSpec SpecOf(const std::vector<int64_t>& nodes) const {
    v1::JobSpec spec = FeedSpec();
    v1::FeedNodes& own = *spec.mutable_feed()->add_nodes();
    own.set_split("valid");
    own.set_count(nodes.size());
    own.set_sha256(DigestOf(nodes));
    return spec;
  }

  static std::string BytesOf(const std::vector<int64_t>& nodes) {
    return {reinterpret_cast<const char*>(nodes.data()),
            nodes.size() * sizeof(int64_t)};
  }

  static std::string DigestOf(const std::vector<int64_t>& nodes) {
    Sha256 digest;
    digest.Update(BytesOf(nodes));
    return digest.HexDigest();
  }

  // Sends nodes, one in each message, as those of the digest.
  grpc::Status PutNodes(const std::string& id, const std::string& sha256,
                        const std::vector<int64_t>& nodes) {
    grpc::ClientContext context;
    v1::PutNodesResponse response;
    const auto stub = v1::Feeds::NewStub(channel_);
    const auto writer = stub->PutNodes(&context, &response);
    v1::PutNodesRequest request;
    request.set_id(id);
    request.set_sha256(sha256);
    for (const int64_t node : nodes) {
      request.set_ids(BytesOf({node}));
      if (!writer->Write(request)) break;
      request.Clear();
    }
    writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status PutNodes(const std::string& id,
                        const std::vector<int64_t>& nodes) {
    return PutNodes(id, DigestOf(nodes), nodes);
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

TEST_F(FeedDaemonTest, AJobWaitsForTheNodesOfItsClient) {
  Import("graph");
  const std::vector<int64_t> nodes = {500, 3, 77, 12};
  const std::string id = Submit(SpecOf(nodes));
  auto client = NewClient(id);
  // Before its client had come, it waited for that.
  while (
      !absl::StrContains(Get(id).waiting_reason(), "has not sent its nodes")) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  const grpc::Status put = PutNodes(id, nodes);
  ASSERT_TRUE(put.ok()) << put.error_message();
  EXPECT_EQ(Next(*client).welcome().valid_seeds(), 4u);
  // They are there after a restart, and once.
  EXPECT_EQ(daemon_->Stop(absl::Minutes(1)), absl::OkStatus());
  Restart();
  EXPECT_TRUE(PutNodes(id, nodes).ok());
  client = NewClient(id);
  EXPECT_EQ(Next(*client).welcome().valid_seeds(), 4u);
  ASSERT_TRUE(client->Open(1, v1::FEED_VALID));
  EXPECT_EQ(Next(*client).batch().num_seeds(), 4u);
  const std::string folder = config_.data_dir + "/jobs/" + id;
  EXPECT_TRUE(std::filesystem::exists(
      absl::StrCat(folder, "/nodes-", DigestOf(nodes), ".npy")));
  ASSERT_TRUE(Cancel(id).ok());
  AwaitEnd(id);
  ASSERT_TRUE(DeleteJob(id).ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(FeedDaemonTest, WrongNodesAreRefused) {
  Import("graph");
  const std::vector<int64_t> nodes = {5, 3, 77};
  const std::string id = Submit(SpecOf(nodes));
  const std::string sha256 = DigestOf(nodes);
  const auto refusal = [&](const std::vector<int64_t>& sent) {
    const grpc::Status status = PutNodes(id, sha256, sent);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(refusal({5, -3, 77}), HasSubstr("ids[1]: must be from 0 to 599"));
  EXPECT_THAT(refusal({5, 3, 600}), HasSubstr("ids[2]: must be"));
  EXPECT_THAT(refusal({5, 3, 5}), HasSubstr("ids[2]: 5 is there twice"));
  EXPECT_THAT(refusal({5, 3}), HasSubstr("must be 3, as the job says, not 2"));
  EXPECT_THAT(refusal({}), HasSubstr("without any message"));
  EXPECT_EQ(PutNodes(id, DigestOf({1}), {1}).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(PutNodes("feed-99", nodes).error_code(),
            grpc::StatusCode::NOT_FOUND);
  // Nothing is left of them.
  EXPECT_TRUE(PutNodes(id, nodes).ok());
  ASSERT_TRUE(Cancel(id).ok());
  AwaitEnd(id);
  EXPECT_EQ(PutNodes(id, nodes).error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
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

// A client elsewhere, over the daemon's TCP address.
class StreamClient {
 public:
  explicit StreamClient(const std::string& address)
      : stub_(v1::Feeds::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
        stream_(stub_->Stream(&context_)) {}
  ~StreamClient() { context_.TryCancel(); }

  bool Send(const v1::FeedUp& message) { return stream_->Write(message); }
  bool SayHello(const std::string& ticket) {
    v1::FeedUp hello;
    hello.mutable_hello()->set_ticket(ticket);
    return Send(hello);
  }
  bool Open(uint64_t pass) {
    v1::FeedUp open;
    open.mutable_open()->set_pass(pass);
    open.mutable_open()->set_split(v1::FEED_TRAIN);
    open.mutable_open()->set_layout(v1::FEED_GRAPH);
    return Send(open);
  }

  // The next message that is no slot; empty at the end. Adds the bytes of
  // pieces to `piece_bytes`.
  v1::FeedDown Next() {
    v1::FeedDown message;
    while (stream_->Read(&message)) {
      if (!message.has_slot() && !message.has_piece()) return message;
      piece_bytes += message.piece().data().size();
    }
    return {};
  }

  // The call's status, after all messages.
  grpc::Status End() {
    v1::FeedDown message;
    while (stream_->Read(&message)) {
    }
    return stream_->Finish();
  }
  void SendNoMore() { stream_->WritesDone(); }

  size_t piece_bytes = 0;

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<v1::Feeds::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::FeedUp, v1::FeedDown>>
      stream_;
};

class FeedStreamTest : public FeedDaemonTest {
 protected:
  FeedStreamTest() { Import("graph"); }

  std::string Ticket(const std::string& id, bool stream = true) {
    v1::AttachFeedResponse response;
    const grpc::Status status =
        Attach(stream ? daemon_->grpc_address() : daemon_->socket_address(), id,
               &response, stream);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.path().empty(), stream);
    return response.ticket();
  }

  // A client of a job that has been welcomed.
  std::unique_ptr<StreamClient> NewStream(const std::string& id) {
    auto client = std::make_unique<StreamClient>(daemon_->grpc_address());
    EXPECT_TRUE(client->SayHello(Ticket(id)));
    EXPECT_TRUE(client->Next().has_welcome());
    return client;
  }
};

TEST_F(FeedStreamTest, AClientElsewhereTakesAllBatchesOfAPass) {
  const std::string id = Submit(FeedSpec());
  const auto client = NewStream(id);
  ASSERT_TRUE(client->Open(1));
  uint64_t seeds = 0;
  size_t bytes = 0;
  v1::FeedDown message = client->Next();
  for (uint64_t number = 0; message.has_batch(); ++number) {
    EXPECT_EQ(message.batch().number(), number);
    seeds += message.batch().num_seeds();
    for (const v1::FeedArray& array : message.batch().arrays()) {
      size_t values = 1;
      for (const uint64_t length : array.shape()) values *= length;
      bytes += values * (array.type() == v1::FeedArray::FLOAT32 ? 4 : 8);
    }
    EXPECT_GE(client->piece_bytes, bytes);
    v1::FeedUp release;
    *release.mutable_release()->mutable_slots() = message.batch().slots();
    ASSERT_TRUE(client->Send(release));
    message = client->Next();
  }
  EXPECT_EQ(message.end().batches(), 6u);
  EXPECT_EQ(seeds, kTrainSeeds);
  // No more than the arrays, and what is between them.
  EXPECT_LT(client->piece_bytes, bytes + 6 * 64 * 8);
  v1::FeedUp bye;
  bye.mutable_bye();
  ASSERT_TRUE(client->Send(bye));
  client->SendNoMore();
  EXPECT_TRUE(client->End().ok());
  EXPECT_EQ(AwaitEnd(id).state(), v1::SUCCEEDED);
}

TEST_F(FeedStreamTest, OnlyATicketOfAStreamIsGoodForOne) {
  const std::string id = Submit(FeedSpec());
  for (const std::string& ticket :
       {std::string("guessed"), Ticket(id, /*stream=*/false)}) {
    StreamClient client(daemon_->grpc_address());
    ASSERT_TRUE(client.SayHello(ticket));
    EXPECT_EQ(client.End().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  }
  v1::AttachFeedResponse socket;
  ASSERT_TRUE(Attach(daemon_->socket_address(), id, &socket).ok());
  FeedConnection connection(socket.path());
  ASSERT_TRUE(connection.SayHello(Ticket(id)));
  EXPECT_TRUE(absl::IsPermissionDenied(connection.AwaitClosed()));
  // The users of the socket and of the loopback address are two callers.
  StreamClient other(daemon_->socket_address());
  ASSERT_TRUE(other.SayHello(Ticket(id)));
  EXPECT_EQ(other.End().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_NE(NewStream(id), nullptr);
}

TEST_F(FeedStreamTest, AStreamBeginsWithHello) {
  StreamClient silent(daemon_->grpc_address());
  StreamClient other(daemon_->grpc_address());
  ASSERT_TRUE(other.Open(1));
  EXPECT_EQ(other.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  StreamClient ended(daemon_->grpc_address());
  ended.SendNoMore();
  EXPECT_TRUE(ended.End().ok());
  EXPECT_EQ(silent.End().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(FeedStreamTest, FaultsEndAStreamAndTheNextOneWorks) {
  const std::string id = Submit(FeedSpec());
  const auto unknown = NewStream(id);
  v1::FeedUp release;
  release.mutable_release()->add_slots(1'000'000);
  ASSERT_TRUE(unknown->Send(release));
  EXPECT_EQ(unknown->End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto long_winded = NewStream(id);
  for (uint64_t i = 0; i < (64 << 10); ++i) {
    release.mutable_release()->add_slots(i);
  }
  ASSERT_TRUE(long_winded->Send(release));
  EXPECT_THAT(long_winded->End().error_message(), HasSubstr("longer than"));
  EXPECT_NE(NewStream(id), nullptr);
}

TEST_F(FeedStreamTest, ACancelledJobTellsItsClientAndEndsTheStream) {
  const std::string id = Submit(FeedSpec());
  const auto client = NewStream(id);
  ASSERT_TRUE(Cancel(id).ok());
  EXPECT_EQ(client->Next().error().code(),
            static_cast<int>(absl::StatusCode::kCancelled));
  EXPECT_TRUE(client->End().ok());
}

TEST_F(FeedStreamTest, AStopEndsStreams) {
  const std::string id = Submit(FeedSpec());
  const auto client = NewStream(id);
  ASSERT_TRUE(client->Open(1));
  const absl::Status stopped = daemon_->Stop(absl::Minutes(1));
  EXPECT_TRUE(stopped.ok()) << stopped;
  EXPECT_EQ(client->End().error_code(), grpc::StatusCode::UNAVAILABLE);
  Restart();
  EXPECT_NE(NewStream(id), nullptr);
}

}  // namespace
}  // namespace hearth::server
