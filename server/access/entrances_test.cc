#include "server/access/entrances.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/access/access_fixture.h"
#include "server/access/caller.h"
#include "server/front/front.h"

namespace hearth::server {
namespace {

constexpr size_t kDoors = 2;

// Tells each caller who it is.
class Mirror final : public grpc::CallbackGenericService {
  class Answer final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Answer(const std::string& name) {
      Finish(grpc::Status(grpc::StatusCode::ALREADY_EXISTS, name));
    }
    void OnDone() override { delete this; }
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return new Answer(CredentialsOf(*context).certificate_name);
  }
};

// A client that came in by a door.
class Client {
 public:
  explicit Client(Passage passage)
      : leave_(std::move(passage.leave)),
        channel_(grpc::CreateInsecureChannelFromFd(
            "here", dup(passage.socket.get()))) {}

  // Who the server says that it is.
  std::string Call() {
    has_asked_ = true;
    grpc::ClientContext context;
    const grpc::Slice nothing;
    grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> done;
    grpc::GenericStub(channel_).UnaryCall(
        &context, "/hearth.v1.Jobs/GetJob", {}, &request, &response,
        [&](grpc::Status status) { done.set_value(std::move(status)); });
    const grpc::Status status = done.get_future().get();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
    return status.error_message();
  }

  // Ends, as the front does.
  void Leave() {
    channel_ = nullptr;
    leave_(has_asked_);
  }

 private:
  std::function<void(bool)> leave_;
  std::shared_ptr<grpc::Channel> channel_;
  bool has_asked_ = false;
};

class DoorsTest : public AccessTest {
 protected:
  DoorsTest() : AccessTest("entrances_test") {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&mirror_);
    doors_ = std::make_unique<Doors>(builder, *access_, kDoors);
    server_ = builder.BuildAndStart();
  }
  ~DoorsTest() override { server_->Shutdown(); }

  static Credentials Named(const std::string& name) {
    return {.entrance = Entrance::kTls,
            .certificate_name = name,
            .certificate_uris = {"urn:hearth:role:viewer"}};
  }

  std::unique_ptr<Client> Enter(const std::string& name) {
    absl::StatusOr<Passage> passage = doors_->Enter(Named(name));
    EXPECT_TRUE(passage.ok()) << passage.status();
    return std::make_unique<Client>(*std::move(passage));
  }

  absl::StatusCode CodeOfEntering(const std::string& name) {
    return doors_->Enter(Named(name)).status().code();
  }

  Mirror mirror_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(DoorsTest, EachCallerIsWhoCameInHoweverManyHaveBefore) {
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("caller ", i);
    const auto client = Enter(name);
    EXPECT_EQ(client->Call(), name);
    client->Leave();
  }
}

TEST_F(DoorsTest, ADoorIsNoOthersBeforeItsConnectionHasCalled) {
  const auto ann = Enter("ann");
  const auto bob = Enter("bob");
  EXPECT_EQ(CodeOfEntering("eve"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ann->Call(), "ann");
  const auto eve = Enter("eve");
  EXPECT_EQ(CodeOfEntering("ann"), absl::StatusCode::kUnavailable);
  // The door that ann came in by is eve's now.
  EXPECT_EQ(ann->Call(), "ann");
  EXPECT_EQ(eve->Call(), "eve");
  EXPECT_EQ(bob->Call(), "bob");
  EXPECT_EQ(ann->Call(), "ann");
}

TEST_F(DoorsTest, AConnectionThatEndsWithoutACallGivesItsDoorBack) {
  const auto ann = Enter("ann");
  const auto bob = Enter("bob");
  ann->Leave();
  const auto eve = Enter("eve");
  EXPECT_EQ(eve->Call(), "eve");
}

// gRPC may tell of a call long after its connection has ended.
TEST_F(DoorsTest, AConnectionThatEndsWithACallUnheardOfKeepsItsDoor) {
  absl::StatusOr<Passage> ann = doors_->Enter(Named("ann"));
  ASSERT_TRUE(ann.ok());
  ann->leave(/*has_asked=*/true);
  const auto bob = Enter("bob");
  EXPECT_EQ(CodeOfEntering("eve"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Enter("ann")->Call(), "ann");
}

TEST_F(DoorsTest, TheDoorUnusedLongestGoesAndNoneThatIsReserved) {
  ASSERT_TRUE(doors_->Reserve(Named("root")).ok());
  EXPECT_EQ(Enter("ann")->Call(), "ann");
  EXPECT_EQ(Enter("root")->Call(), "root");
  EXPECT_EQ(Enter("bob")->Call(), "bob");
  const auto silent = Enter("eve");
  EXPECT_EQ(CodeOfEntering("ann"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Enter("root")->Call(), "root");
}

}  // namespace
}  // namespace hearth::server
