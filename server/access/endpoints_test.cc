#include "server/access/endpoints.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/access/access_fixture.h"
#include "server/front/connection_limiter.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {

namespace {

using ::testing::HasSubstr;

TEST(StatusMappingTest, CodesKeepTheirNumbers) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  for (int code = 1; code <= 16; ++code) {
    const grpc::Status status = ToGrpcStatus(
        absl::Status(static_cast<absl::StatusCode>(code), "message"));
    EXPECT_EQ(static_cast<int>(status.error_code()), code);
    EXPECT_EQ(status.error_message(), "message");
    EXPECT_EQ(status.error_details(), "");
  }
}

// The bytes of google.rpc.Status { code: 3, message: "f: d", details:
// Any { BadRequest { field_violations { field: "f", description: "d" } } } },
// by protobuf's encoding rules.
TEST(StatusMappingTest, FieldViolationsTravelAsBadRequest) {
  FieldViolations violations;
  violations.Add("f", "d");
  const grpc::Status status = ToGrpcStatus(violations.ToStatus());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "f: d");
  const std::string url = kBadRequestTypeUrl;
  const std::string bad_request =
      "\x0a\x06\x0a\x01"
      "f"
      "\x12\x01"
      "d";
  const std::string any =
      "\x0a" + std::string(1, static_cast<char>(url.size())) + url + "\x12" +
      std::string(1, static_cast<char>(bad_request.size())) + bad_request;
  EXPECT_EQ(status.error_details(),
            "\x08\x03\x12\x04"
            "f: d"
            "\x1a" +
                std::string(1, static_cast<char>(any.size())) + any);
}

TEST(StatusMappingTest, LongMessagesAreCutBetweenCharacters) {
  const std::string long_text(kMaxMessageLength - 1, 'x');
  const grpc::Status status =
      ToGrpcStatus(absl::InternalError(long_text + "\u00e9\u00e9"));
  EXPECT_EQ(status.error_message(), long_text + "...");
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(long_text + "x")).error_message(),
            long_text + "x");
}

TEST(FieldViolationsTest, MessagesListThemInOrder) {
  FieldViolations violations;
  EXPECT_TRUE(violations.empty());
  EXPECT_TRUE(violations.ToStatus().ok());
  violations.Add("a", "must be b");
  violations.Add("c", "must be d");
  const absl::Status status =
      violations.ToStatus(absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a: must be b; c: must be d"));
}

namespace fs = std::filesystem;

class SocketListenerTest : public ::testing::Test {
 protected:
  SocketListenerTest() { fs::create_directories(folder_); }
  ~SocketListenerTest() override { fs::remove_all(folder_); }

  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }

  // Short: the path of a socket has 107 bytes at most.
  const std::string folder_ = absl::StrCat("/tmp/hearth-socket-", getpid());
  const std::string path_ = folder_ + "/s";
};

TEST_F(SocketListenerTest, TheSocketIsItsOwnersAndGoesWithTheListener) {
  {
    const auto listener = SocketListener::Bind(path_, std::nullopt);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ModeOf(path_), 0600u);
  }
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SocketListenerTest, AGroupMayUseIt) {
  const auto listener = SocketListener::Bind(path_, getegid());
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_EQ(ModeOf(path_), 0660u);
}

TEST_F(SocketListenerTest, ASocketThatWasLeftIsReplaced) {
  const auto left = SocketListener::Bind(path_, std::nullopt);
  ASSERT_TRUE(left.ok());
  EXPECT_TRUE(SocketListener::Bind(path_, std::nullopt).ok());
}

TEST_F(SocketListenerTest, AnotherFileIsLeftAlone) {
  std::ofstream(path_) << "mine";
  const auto listener = SocketListener::Bind(path_, std::nullopt);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fs::file_size(path_), 4u);
  fs::remove(path_);
  fs::create_symlink("/etc/passwd", path_);
  EXPECT_FALSE(SocketListener::Bind(path_, std::nullopt).ok());
  EXPECT_TRUE(fs::is_symlink(path_));
}

TEST_F(SocketListenerTest, APathThatIsTooLongIsRefusedWithItsLength) {
  const std::string longest =
      folder_ + "/" + std::string(107 - folder_.size() - 1, 'x');
  EXPECT_TRUE(SocketListener::Bind(longest, std::nullopt).ok());
  const auto longer = SocketListener::Bind(longest + "x", std::nullopt);
  EXPECT_EQ(longer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(longer.status().message()), HasSubstr("108 bytes"));
  EXPECT_THAT(std::string(longer.status().message()), HasSubstr("107"));
}

TEST(IdOfUnknownUsersTest, ItIsTheOverflowIdUnlessAUserHasIt) {
  EXPECT_EQ(IdOfUnknownUsers("         0          0 4294967295\n", 65534),
            std::nullopt);
  EXPECT_EQ(IdOfUnknownUsers("0 1000 1\n1 100000 65536\n", 65534),
            std::nullopt);
  EXPECT_EQ(IdOfUnknownUsers("0 1000 1\n", 65534), 65534u);
  EXPECT_EQ(IdOfUnknownUsers("0 100000 65534\n65535 1 9\n", 65534), 65534u);
  EXPECT_EQ(IdOfUnknownUsers("", 65534), 65534u);
}

TEST_F(SocketListenerTest, AFolderThatIsMissingIsNamed) {
  const auto listener = SocketListener::Bind(folder_ + "/no/s", std::nullopt);
  EXPECT_EQ(listener.status().code(), absl::StatusCode::kNotFound);
}

constexpr size_t kEndpoints = 2;

// Service that tells each caller who they are.
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

// Client that came in by an endpoint.
class Client {
 public:
  explicit Client(Bridge bridge)
      : leave_(std::move(bridge.leave)),
        channel_(grpc::CreateInsecureChannelFromFd("here",
                                                   dup(bridge.socket.get()))) {}

  // Caller that the server takes the client for.
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

  // Ends the connection as the limiter does.
  void Leave() {
    channel_ = nullptr;
    leave_(has_asked_);
  }

 private:
  std::function<void(bool)> leave_;
  std::shared_ptr<grpc::Channel> channel_;
  bool has_asked_ = false;
};

class EndpointsTest : public AccessTest {
 protected:
  EndpointsTest() : AccessTest("endpoints_test") {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&mirror_);
    endpoints_ = std::make_unique<Endpoints>(builder, *access_, kEndpoints);
    server_ = builder.BuildAndStart();
  }
  ~EndpointsTest() override { server_->Shutdown(); }

  static Credentials Named(const std::string& name) {
    return {.source = CallerSource::kTls,
            .certificate_name = name,
            .certificate_uris = {"urn:hearth:role:viewer"}};
  }

  std::unique_ptr<Client> Enter(const std::string& name) {
    absl::StatusOr<Bridge> bridge = endpoints_->Enter(Named(name));
    EXPECT_TRUE(bridge.ok()) << bridge.status();
    return std::make_unique<Client>(*std::move(bridge));
  }

  absl::StatusCode CodeOfEntering(const std::string& name) {
    return endpoints_->Enter(Named(name)).status().code();
  }

  Mirror mirror_;
  std::unique_ptr<Endpoints> endpoints_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(EndpointsTest, EachCallerIsWhoCameInHoweverManyHaveBefore) {
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("caller ", i);
    const auto client = Enter(name);
    EXPECT_EQ(client->Call(), name);
    client->Leave();
  }
}

TEST_F(EndpointsTest, AnEndpointIsNoOthersBeforeItsConnectionHasCalled) {
  const auto ann = Enter("ann");
  const auto bob = Enter("bob");
  EXPECT_EQ(CodeOfEntering("eve"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ann->Call(), "ann");
  const auto eve = Enter("eve");
  EXPECT_EQ(CodeOfEntering("ann"), absl::StatusCode::kUnavailable);
  // ann's endpoint is eve's now.
  EXPECT_EQ(ann->Call(), "ann");
  EXPECT_EQ(eve->Call(), "eve");
  EXPECT_EQ(bob->Call(), "bob");
  EXPECT_EQ(ann->Call(), "ann");
}

TEST_F(EndpointsTest, AConnectionThatEndsWithoutACallGivesItsEndpointBack) {
  const auto ann = Enter("ann");
  const auto bob = Enter("bob");
  ann->Leave();
  const auto eve = Enter("eve");
  EXPECT_EQ(eve->Call(), "eve");
}

// gRPC may tell of a call long after its connection has ended.
TEST_F(EndpointsTest, AConnectionThatEndsWithACallUnheardOfKeepsItsEndpoint) {
  absl::StatusOr<Bridge> ann = endpoints_->Enter(Named("ann"));
  ASSERT_TRUE(ann.ok());
  ann->leave(/*has_asked=*/true);
  const auto bob = Enter("bob");
  EXPECT_EQ(CodeOfEntering("eve"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Enter("ann")->Call(), "ann");
}

TEST_F(EndpointsTest, TheEndpointUnusedLongestGoesAndNoneThatIsReserved) {
  ASSERT_TRUE(endpoints_->Reserve(Named("root")).ok());
  EXPECT_EQ(Enter("ann")->Call(), "ann");
  EXPECT_EQ(Enter("root")->Call(), "root");
  EXPECT_EQ(Enter("bob")->Call(), "bob");
  const auto silent = Enter("eve");
  EXPECT_EQ(CodeOfEntering("ann"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Enter("root")->Call(), "root");
}

}  // namespace

}  // namespace hearth::server
