#include "server/feeds/feed_socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/feed/batch_layout.h"
#include "engine/feed/channel.h"
#include "engine/feed/slot_pool.h"
#include "engine/io/descriptor.h"
#include "google/protobuf/text_format.h"
#include "hearth/v1/feeds.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "server/access/endpoints.h"
#include "server/feeds/feeds.h"
#include "server/feeds/feeds_fixture.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

template <typename Condition>
void Await(const Condition& condition) {
  while (!condition()) absl::SleepFor(absl::Milliseconds(1));
}

class FeedSocketTest : public FeedsFixture {
 protected:
  FeedSocketTest() {
    auto listener = SocketListener::Bind(path_, std::nullopt, SOCK_SEQPACKET);
    EXPECT_TRUE(listener.ok()) << listener.status();
    socket_ = *FeedSocket::Start(*std::move(listener), feeds_, clock_);
    channel_->SetReady({.feature_dim = 4, .credits = 3, .batch_size = 8});
  }

  std::string NewTicket() { return *feeds_.NewTicket(id_, 0, ::geteuid()); }

  // A client that has been welcomed.
  std::unique_ptr<FeedConnection> NewClient() {
    auto client = std::make_unique<FeedConnection>(path_);
    EXPECT_TRUE(client->SayHello(NewTicket()));
    const std::optional<Received> welcome = client->Receive();
    EXPECT_TRUE(welcome.has_value() && welcome->message.has_welcome());
    return client;
  }

  bool WantsPass() const {
    std::optional<feed::OpenPass> pass;
    return channel_->demand(pass) == feed::Channel::Demand::kPass;
  }

  std::shared_ptr<feed::Slot> TakeSlot(char content) {
    std::shared_ptr<feed::Slot> slot = *pool_->TakeSlot(kSlotBytes);
    slot->data()[0] = static_cast<std::byte>(content);
    return slot;
  }

  void Deliver(int64_t number) {
    const feed::BatchArrays arrays = {
        .arrays = {{.name = "x", .shape = {2, 4}, .in_rows = true}}};
    channel_->Deliver({.pass = 1,
                       .number = number,
                       .num_seeds = 1,
                       .arrays = arrays,
                       .rows = TakeSlot('x'),
                       .rest = TakeSlot('y')});
  }

  static constexpr uint64_t kSlotBytes = 4096;
  const std::string path_ = folder_ + "/feed.sock";
  const std::string id_ = NewFeed();
  const std::shared_ptr<feed::Channel> channel_ = feeds_.ChannelsOf(id_, 1)[0];
  const std::shared_ptr<feed::SlotPool> pool_ = feed::SlotPool::Make(0);
  std::unique_ptr<FeedSocket> socket_;
};

TEST_F(FeedSocketTest, ATicketBringsAWelcome) {
  EXPECT_EQ(socket_->path(), path_);
  struct ::stat status;
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  FeedConnection client(path_);
  ASSERT_TRUE(client.SayHello(NewTicket()));
  const std::optional<Received> received = client.Receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->message.welcome().feature_dim(), 4u);
  EXPECT_EQ(received->message.welcome().credits(), 3u);
  EXPECT_TRUE(channel_->has_client());
}

// Seconds of processors that this process has taken.
double ProcessorSeconds() {
  struct ::rusage usage;
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  const auto seconds = [](const ::timeval& time) {
    return static_cast<double>(time.tv_sec) +
           1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST_F(FeedSocketTest, AConnectionForWhichThereIsNoDescriptorWaits) {
  const std::string ticket = NewTicket();
  testing::internal::CaptureStdout();
  // There is one more, which the client takes.
  ::rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  const ::rlimit one_more = {.rlim_cur = static_cast<rlim_t>(next) + 1,
                             .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  FeedConnection client(path_);
  const double began = ProcessorSeconds();
  for (int i = 0; i < 3; ++i) {
    absl::SleepFor(absl::Milliseconds(300));
    clock_.Advance(1);
  }
  EXPECT_LT(ProcessorSeconds() - began, 0.2);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  clock_.Advance(1);
  ASSERT_TRUE(client.SayHello(ticket));
  const std::optional<Received> received = client.Receive();
  EXPECT_TRUE(received.has_value() && received->message.has_welcome());
  const std::string log = testing::internal::GetCapturedStdout();
  EXPECT_THAT(log, HasSubstr("no connection is accepted"));
  EXPECT_EQ(log.find("no connection"), log.rfind("no connection")) << log;
}

TEST_F(FeedSocketTest, AWrongTicketIsRefused) {
  FeedConnection client(path_);
  ASSERT_TRUE(client.SayHello("guessed"));
  EXPECT_TRUE(absl::IsPermissionDenied(client.AwaitClosed()));
  EXPECT_FALSE(channel_->has_client());
}

TEST_F(FeedSocketTest, ASecondClientIsRefused) {
  const std::string ticket = NewTicket();
  const auto first = NewClient();
  FeedConnection second(path_);
  ASSERT_TRUE(second.SayHello(ticket));
  EXPECT_TRUE(absl::IsAlreadyExists(second.AwaitClosed()));
  EXPECT_TRUE(channel_->has_client());
  ASSERT_TRUE(first->Open(1));
  Await([&] { return WantsPass(); });
}

TEST_F(FeedSocketTest, AClientThatHangsUpIsGone) {
  auto client = NewClient();
  ASSERT_TRUE(client->Open(1));
  Await([&] { return WantsPass(); });
  Deliver(0);
  EXPECT_EQ(channel_->held_batches(), 1);
  client.reset();
  Await([&] { return !channel_->has_client(); });
  EXPECT_EQ(channel_->held_batches(), 0);
  EXPECT_EQ(pool_->num_slots(), 0);
  NewClient();
}

TEST_F(FeedSocketTest, WhoSaysNothingIsClosed) {
  FeedConnection silent(path_);
  const auto client = NewClient();
  clock_.Advance(absl::ToDoubleSeconds(FeedSocket::kHelloPatience) + 0.1);
  EXPECT_EQ(silent.AwaitClosed(), absl::OkStatus());
  ASSERT_TRUE(client->Open(1));
  Await([&] { return WantsPass(); });
}

TEST_F(FeedSocketTest, SilentConnectionsAreBounded) {
  const auto client = NewClient();
  std::vector<std::unique_ptr<FeedConnection>> silent;
  for (size_t i = 0; i < FeedSocket::kMostSilent; ++i) {
    silent.push_back(std::make_unique<FeedConnection>(path_));
  }
  EXPECT_EQ(FeedConnection(path_).AwaitClosed(), absl::OkStatus());
  // They are served, one by one.
  ASSERT_TRUE(silent.back()->SayHello("guessed"));
  EXPECT_TRUE(absl::IsPermissionDenied(silent.back()->AwaitClosed()));
  FeedConnection next(path_);
  ASSERT_TRUE(next.SayHello("guessed"));
  EXPECT_TRUE(absl::IsPermissionDenied(next.AwaitClosed()));
  ASSERT_TRUE(client->Open(1));
  Await([&] { return WantsPass(); });
}

TEST_F(FeedSocketTest, TooLongAPacketEndsTheConnection) {
  const auto client = NewClient();
  v1::FeedUp release;
  // Slots take a byte each.
  for (size_t i = 0; i < FeedSocket::kMaxMessage; ++i) {
    release.mutable_release()->add_slots(1);
  }
  ASSERT_TRUE(client->Send(release));
  client->AwaitClosed().IgnoreError();
  Await([&] { return !channel_->has_client(); });
}

TEST_F(FeedSocketTest, AnEmptyPacketEndsTheConnection) {
  const auto client = NewClient();
  ASSERT_TRUE(client->SendPacket(""));
  EXPECT_EQ(client->AwaitClosed(), absl::OkStatus());
  Await([&] { return !channel_->has_client(); });
}

TEST_F(FeedSocketTest, HelloComesFirst) {
  FeedConnection client(path_);
  ASSERT_TRUE(client.Open(1));
  EXPECT_TRUE(absl::IsInvalidArgument(client.AwaitClosed()));
}

// What no client may say: as text, or as bytes that are no message.
struct BadPacket {
  std::string name;
  std::string text;
  std::string bytes = {};
};

class BadPacketTest : public FeedSocketTest,
                      public testing::WithParamInterface<BadPacket> {};

TEST_P(BadPacketTest, EndsTheConnection) {
  const auto client = NewClient();
  ASSERT_TRUE(client->Open(5));
  v1::FeedUp message;
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(GetParam().text, &message));
  ASSERT_TRUE(client->SendPacket(GetParam().bytes.empty()
                                     ? message.SerializeAsString()
                                     : GetParam().bytes));
  const absl::Status error = client->AwaitClosed();
  EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
  Await([&] { return !channel_->has_client(); });
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPacketTest,
    testing::Values(
        BadPacket{"Bytes", "", "\xff\xff\xff"},
        BadPacket{"HalfAMessage", "", std::string("\x12\x7f", 2)},
        BadPacket{"AnUnknownMessage", "", std::string("\xfa\x01\x00", 3)},
        BadPacket{"AnotherHello", "hello { ticket: 'x' }"},
        BadPacket{"NoSplit", "open { pass: 6 layout: FEED_GRAPH }"},
        BadPacket{"AnUnknownSplit",
                  "open { pass: 6 split: 9 layout: FEED_GRAPH }"},
        BadPacket{"NoLayout", "open { pass: 6 split: FEED_TRAIN }"},
        BadPacket{"ALargeEpoch",
                  "open { pass: 6 split: FEED_TRAIN layout: FEED_GRAPH "
                  "epoch: 18446744073709551615 }"},
        BadPacket{"ALargeBatch",
                  "open { pass: 6 split: FEED_TRAIN layout: FEED_GRAPH "
                  "first_batch: 9223372036854775808 }"},
        BadPacket{"AnOldPass",
                  "open { pass: 5 split: FEED_TRAIN layout: FEED_GRAPH }"},
        BadPacket{"AnUnknownSlot", "release { slots: 12345678 }"},
        BadPacket{"NoEpoch", "epoch { loss: 1 }"},
        BadPacket{"AnUnknownMetric",
                  "epoch { epoch: 1 metric: 'luck' valid_metric: 1 }"},
        BadPacket{"NoSeconds", "seconds { wait: nan }"},
        BadPacket{"EndlessSeconds", "seconds { script: inf }"},
        BadPacket{"TooManyCopies", "seconds { copies: 18446744073709551615 }"}),
    [](const auto& info) { return info.param.name; });

TEST_F(FeedSocketTest, MessagesReachTheChannel) {
  const auto client = NewClient();
  clock_.Advance(4);
  v1::FeedUp message;
  message.mutable_seconds()->set_wait(2);
  message.mutable_seconds()->set_script(3);
  message.mutable_seconds()->set_copies(4);
  ASSERT_TRUE(client->Send(message));
  message.mutable_epoch()->set_epoch(6);
  message.mutable_epoch()->set_loss(0.5);
  message.mutable_epoch()->set_metric("accuracy");
  message.mutable_epoch()->set_valid_metric(0.75);
  ASSERT_TRUE(client->Send(message));
  ASSERT_TRUE(client->Open(1, v1::FEED_TEST, 7));
  Await([&] { return WantsPass(); });
  EXPECT_EQ(channel_->seconds().wait, 2);
  EXPECT_EQ(channel_->seconds().script, 3);
  EXPECT_EQ(channel_->seconds().copies, 4);
  const std::vector<feed::ReportedEpoch> epochs = channel_->TakeEpochs();
  ASSERT_EQ(epochs.size(), 1u);
  EXPECT_EQ(epochs[0].epoch, 6u);
  EXPECT_EQ(epochs[0].loss, 0.5);
  EXPECT_EQ(epochs[0].valid_metric, 0.75);
  std::optional<feed::OpenPass> pass;
  channel_->demand(pass);
  EXPECT_EQ(pass->split, feed::Split::kTest);
  EXPECT_EQ(pass->layout, feed::BatchLayout::kLayers);
  EXPECT_EQ(pass->next_batch, 7);
  Deliver(7);
  channel_->EndPass(1);
  v1::FeedDown last;
  while (!last.has_end()) {
    const std::optional<Received> received = client->Receive();
    ASSERT_TRUE(received.has_value());
    last = received->message;
  }
  EXPECT_EQ(last.end().pass(), 1u);
  EXPECT_EQ(last.end().batches(), 1u);
  message.mutable_close()->set_pass(1);
  ASSERT_TRUE(client->Send(message));
  message.mutable_yield();
  ASSERT_TRUE(client->Send(message));
  const auto demand = [&] { return channel_->demand(pass); };
  Await([&] { return demand() == feed::Channel::Demand::kAway; });
  message.mutable_bye();
  ASSERT_TRUE(client->Send(message));
  Await([&] { return demand() == feed::Channel::Demand::kDone; });
}

TEST_F(FeedSocketTest, RequestsReachTheChannel) {
  const auto client = NewClient();
  ASSERT_TRUE(client->Open(1, v1::FEED_REQUESTS, 7));
  v1::FeedUp message;
  message.mutable_request()->set_pass(1);
  message.mutable_request()->add_nodes(5);
  message.mutable_request()->add_nodes(3);
  message.mutable_request()->set_goes_on(true);
  ASSERT_TRUE(client->Send(message));
  message.mutable_request()->set_goes_on(false);
  message.mutable_request()->clear_nodes();
  message.mutable_request()->add_nodes(4);
  ASSERT_TRUE(client->Send(message));
  std::optional<feed::SeedRequest> request;
  Await([&] {
    request = channel_->AwaitRequest(1, 7, channel_->SteadySeconds(), {});
    return request.has_value();
  });
  ASSERT_TRUE(request->ok());
  EXPECT_THAT(**request, ElementsAre(5, 3, 4));
  message.mutable_request()->set_pass(9);
  ASSERT_TRUE(client->Send(message));
  EXPECT_TRUE(absl::IsInvalidArgument(client->AwaitClosed()));
}

// Whether all fails by which a client may try to write to a slot.
bool NobodyCanWrite(int descriptor) {
  const char byte = 'z';
  const io::Descriptor opened(
      ::open(absl::StrCat("/proc/self/fd/", descriptor).c_str(), O_RDWR));
  for (const int one : {descriptor, opened.get()}) {
    void* const map = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, one, 0);
    const bool refused =
        one >= 0 && map != MAP_FAILED &&
        ::mprotect(map, 4096, PROT_READ | PROT_WRITE) != 0 &&
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, one, 0) ==
            MAP_FAILED &&
        ::pwrite(one, &byte, 1, 0) < 0 && ::write(one, &byte, 1) < 0 &&
        ::fallocate(one, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) !=
            0 &&
        ::ftruncate(one, 0) != 0 && ::ftruncate(one, 8192) != 0 &&
        ::fcntl(one, F_ADD_SEALS, F_SEAL_SHRINK) != 0;
    if (map != MAP_FAILED) ::munmap(map, 4096);
    if (!refused) return false;
  }
  return true;
}

TEST_F(FeedSocketTest, SlotsComeOnceAndNoClientCanWriteThere) {
  const auto client = NewClient();
  ASSERT_TRUE(client->Open(1));
  Await([&] { return WantsPass(); });
  Deliver(0);
  std::vector<Received> slots;
  for (int i = 0; i < 2; ++i) slots.push_back(*client->Receive());
  const std::optional<Received> first = client->Receive();
  ASSERT_TRUE(first->message.has_batch());
  EXPECT_EQ(first->descriptor.get(), -1);
  const v1::FeedBatch& batch = first->message.batch();
  EXPECT_EQ(batch.arrays(0).slot(), batch.slots(0));
  EXPECT_THAT(batch.slots(), ElementsAre(slots[0].message.slot().id(),
                                         slots[1].message.slot().id()));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(slots[i].message.slot().bytes(), kSlotBytes);
    ASSERT_GE(slots[i].descriptor.get(), 0);
    EXPECT_TRUE(NobodyCanWrite(slots[i].descriptor.get()));
    auto* const map =
        static_cast<char*>(::mmap(nullptr, kSlotBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE, slots[i].descriptor.get(), 0));
    ASSERT_NE(map, MAP_FAILED);
    EXPECT_EQ(map[0], i == 0 ? 'x' : 'y');
    map[0] = 'z';
    char shared = 0;
    EXPECT_EQ(::pread(slots[i].descriptor.get(), &shared, 1, 0), 1);
    EXPECT_EQ(shared, i == 0 ? 'x' : 'y') << "its page is its own";
    ::munmap(map, kSlotBytes);
  }
  // The slots are known when they come again.
  ASSERT_TRUE(client->Release(batch));
  Await([&] { return channel_->held_batches() == 0; });
  Deliver(1);
  const std::optional<Received> second = client->Receive();
  ASSERT_TRUE(second->message.has_batch());
  EXPECT_EQ(second->message.batch().number(), 1u);
  // And are dropped once they are no more.
  ASSERT_TRUE(client->Release(second->message.batch()));
  Await([&] { return channel_->held_batches() == 0; });
  pool_->Close();
  const auto other = feed::SlotPool::Make(0);
  const feed::BatchArrays arrays = {};
  channel_->Deliver({.pass = 1,
                     .number = 2,
                     .num_seeds = 1,
                     .arrays = arrays,
                     .rows = *other->TakeSlot(1),
                     .rest = *other->TakeSlot(1)});
  const std::optional<Received> dropped = client->Receive();
  EXPECT_THAT(dropped->message.drop().slots(),
              UnorderedElementsAreArray(batch.slots()));
}

TEST_F(FeedSocketTest, TheEndOfAJobIsTold) {
  const auto client = NewClient();
  ChangeState(id_, v1::CANCELLED);
  feeds_.Sweep();
  // Once a while has passed.
  clock_.Advance(1);
  const std::optional<Received> received = client->Receive();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->message.error().code(),
            static_cast<int>(absl::StatusCode::kCancelled));
  EXPECT_THAT(received->message.error().message(), HasSubstr(id_));
  // The client may read what it holds, until it goes.
  EXPECT_TRUE(channel_->has_client());
}

TEST_F(FeedSocketTest, AClientThatDoesNotReadIsLost) {
  const auto client = NewClient();
  const feed::BatchArrays arrays = {
      .arrays = std::vector<feed::Array>(1000, {.name = "a"})};
  const auto slot = TakeSlot('x');
  ASSERT_TRUE(client->Open(1));
  Await([&] { return WantsPass(); });
  for (int64_t i = 0; channel_->has_client(); ++i) {
    ASSERT_LT(i, 10000);
    channel_->Deliver({.pass = 1,
                       .number = i,
                       .num_seeds = 1,
                       .arrays = arrays,
                       .rows = slot,
                       .rest = slot});
  }
  client->AwaitClosed().IgnoreError();
}

TEST_F(FeedSocketTest, ItsEndClosesAllConnections) {
  const auto client = NewClient();
  FeedConnection silent(path_);
  socket_ = nullptr;
  EXPECT_EQ(client->AwaitClosed(), absl::OkStatus());
  EXPECT_EQ(silent.AwaitClosed(), absl::OkStatus());
  EXPECT_FALSE(channel_->has_client());
}

}  // namespace
}  // namespace hearth::server
