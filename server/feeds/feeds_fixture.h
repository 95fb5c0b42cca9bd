#ifndef HEARTH_SERVER_FEEDS_FEEDS_FIXTURE_H_
#define HEARTH_SERVER_FEEDS_FEEDS_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "engine/io/descriptor.h"
#include "engine/io/file_system.h"
#include "engine/metrics/registry.h"
#include "hearth/v1/feeds.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/spec.pb.h"
#include "server/feeds/feeds.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"

/// Feeds with a store of jobs, and a client's end of the socket; for tests.

namespace hearth::server {

/// A folder for sockets, whose paths have 107 bytes at most.
inline std::string ShortFolder() {
  return absl::StrCat("/tmp/hearth-feeds-", ::getpid());
}

class FeedsFixture : public ::testing::Test {
 protected:
  static constexpr double kPatienceSeconds = 600;

  ~FeedsFixture() override { std::filesystem::remove_all(folder_); }

  std::string NewFeed() {
    v1::JobSpec spec;
    spec.mutable_feed()->mutable_data()->set_dataset("graph");
    spec.mutable_feed()->mutable_data()->set_trainers(1);
    return store_->Submit("", spec)->id();
  }

  void ChangeState(const std::string& id, v1::JobState state,
                   std::optional<v1::JobError> error = {}) {
    StateUpdate update;
    if (state != v1::CANCELLED) {
      for (const v1::JobState before : {v1::PREPARING, v1::RUNNING}) {
        update.state = before;
        EXPECT_TRUE(store_->ChangeState(id, update).ok());
      }
    }
    update.state = state;
    update.error = std::move(error);
    const absl::Status status = store_->ChangeState(id, update);
    EXPECT_TRUE(status.ok()) << status;
  }

  const std::string folder_ = ShortFolder();
  ManualClock clock_;
  const std::unique_ptr<JobStore> store_ = [this] {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    return *JobStore::Open(io::FileSystem::Posix(), folder_ + "/hearth.db",
                           clock_, [](const auto&) {});
  }();
  const std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  std::vector<std::string> cancelled_;
  // What cancelling a job returns.
  absl::Status cancel_;
  std::atomic<int> wakes_ = 0;
  Feeds feeds_{*store_, clock_,
               Feeds::Options{.patience = absl::Seconds(kPatienceSeconds),
                              .cancel =
                                  [this](const std::string& id) {
                                    if (!cancel_.ok()) return cancel_;
                                    cancelled_.push_back(id);
                                    return absl::OkStatus();
                                  },
                              .wake = [this] { ++wakes_; },
                              .registry = registry_.get()}};
};

/// A message to a client; with the descriptor that came with it.
struct Received {
  v1::FeedDown message = {};
  io::Descriptor descriptor{-1};
};

/// A client's end of the socket of feeds.
class FeedConnection {
 public:
  explicit FeedConnection(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                        sizeof(address)),
              0)
        << path;
  }

  int descriptor() const { return socket_.get(); }

  /// Whether the daemon could take it.
  bool SendPacket(const std::string& packet) {
    return ::send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(packet.size());
  }
  bool Send(const v1::FeedUp& message) {
    return SendPacket(message.SerializeAsString());
  }
  bool SayHello(const std::string& ticket) {
    v1::FeedUp hello;
    hello.mutable_hello()->set_ticket(ticket);
    return Send(hello);
  }
  bool Open(uint64_t pass, v1::FeedSplit split = v1::FEED_TRAIN,
            uint64_t first_batch = 0) {
    v1::FeedUp open;
    open.mutable_open()->set_pass(pass);
    open.mutable_open()->set_split(split);
    open.mutable_open()->set_first_batch(first_batch);
    open.mutable_open()->set_layout(v1::FEED_LAYERS);
    return Send(open);
  }
  bool Release(const v1::FeedBatch& batch) {
    v1::FeedUp release;
    release.mutable_release()->mutable_slots()->CopyFrom(batch.slots());
    return Send(release);
  }

  /// Waits for the next message; absent once the daemon has closed.
  std::optional<Received> Receive() {
    std::array<char, 64 << 10> buffer;
    iovec part = {.iov_base = buffer.data(), .iov_len = buffer.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t bytes = ::recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    if (bytes <= 0) return std::nullopt;
    int descriptor = -1;
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr) {
      std::memcpy(&descriptor, CMSG_DATA(rights), sizeof(int));
    }
    Received received = {.descriptor = io::Descriptor(descriptor)};
    EXPECT_TRUE(received.message.ParseFromArray(buffer.data(),
                                                static_cast<int>(bytes)));
    return received;
  }

  /// Waits until the daemon closes; returns the error that it has told before,
  /// OK without one.
  absl::Status AwaitClosed() {
    absl::Status error;
    while (const std::optional<Received> received = Receive()) {
      if (!received->message.has_error()) continue;
      error = absl::Status(
          static_cast<absl::StatusCode>(received->message.error().code()),
          received->message.error().message());
    }
    return error;
  }

 private:
  const io::Descriptor socket_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FEEDS_FEEDS_FIXTURE_H_
