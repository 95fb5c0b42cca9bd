#include "client/channel.h"

#include "absl/strings/str_cat.h"
#include "client/hearth_client.h"
#include "client/rpc_status.h"

namespace hearth::client {
namespace {

// A job of 100,000 epochs has a report of each.
constexpr int kMaxReceivedBytes = 256 << 20;
constexpr int kReconnectMs = 100;
constexpr int kMaxReconnectMs = 1000;
constexpr int kConnectMs = 10000;

constexpr char kUnreachablePayload[] = "hearth/unreachable";

}  // namespace

std::shared_ptr<grpc::Channel> NewChannel(const std::string& server) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  // By its name a pause; in truth the time that an attempt to connect has.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // The daemon is on this machine or on the local network.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Clients of one process each have their own connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(server, grpc::InsecureChannelCredentials(),
                                   arguments);
}

absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server) {
  const absl::Status answer = RpcStatus(
      status.error_code(), status.error_message(), status.error_details());
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return UnreachableError(
        absl::StrCat("hearthd at ", server, " does not answer"));
  }
  // A daemon that drains or stops answers UNAVAILABLE over a connection that
  // is up.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      channel.GetState(false) != GRPC_CHANNEL_READY) {
    return UnreachableError(absl::StrCat("cannot reach hearthd at ", server,
                                         ": ", std::string(answer.message())));
  }
  if (absl::IsUnimplemented(answer)) {
    return absl::UnimplementedError(
        absl::StrCat("no hearthd of this version at ", server, ": ",
                     std::string(answer.message())));
  }
  return answer;
}

absl::Status UnreachableError(const std::string& message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kUnreachablePayload, absl::Cord());
  return status;
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachablePayload).has_value();
}

}  // namespace hearth::client
