#include "client/connection.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "client/hearth_client.h"
#include "engine/base/version.h"

namespace hearth::client {

std::string NewRequestId() {
  std::random_device random;
  const uint32_t version_word = (random() & 0xffff0fffu) | 0x4000u;
  const uint32_t variant_word = (random() & 0x3fffffffu) | 0x80000000u;
  return absl::StrFormat("%08x-%04x-%04x-%04x-%04x%08x", random(),
                         version_word >> 16, version_word & 0xffffu,
                         variant_word >> 16, variant_word & 0xffffu, random());
}

namespace {

// A job of 100,000 epochs has a report of each epoch.
constexpr int kMaxReceivedBytes = 256 << 20;
constexpr int kReconnectMs = 100;
constexpr int kMaxReconnectMs = 1000;
constexpr int kConnectMs = 10000;
constexpr std::chrono::milliseconds kAwaitConnection{200};

// A daemon that is silent for kKeepaliveMs while a call is in progress is
// pinged, and has kKeepaliveTimeoutMs to answer.
constexpr int kKeepaliveMs = 4000;
constexpr int kKeepaliveTimeoutMs = 4000;

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const ClientOptions& options) {
  if (options.ca.empty() || absl::StartsWith(options.server, "unix:")) {
    return grpc::InsecureChannelCredentials();
  }
  return grpc::SslCredentials({.pem_root_certs = options.ca,
                               .pem_private_key = options.key,
                               .pem_cert_chain = options.certificate});
}

}  // namespace

std::shared_ptr<grpc::Channel> NewChannel(const ClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  // Despite its name, the time that an attempt to connect has.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // Pings go on however long no event comes.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The daemon is on this machine or on the local network.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (!options.tls_name.empty()) {
    arguments.SetSslTargetNameOverride(options.tls_name);
  }
  // Each client of a process has a connection of its own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(options.server, CredentialsOf(options),
                                   arguments);
}

void AwaitConnection(grpc::Channel& channel) {
  if (channel.GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  channel.WaitForConnected(std::chrono::system_clock::now() + kAwaitConnection);
}

namespace {

using google::protobuf::internal::WireFormatLite;

// Fields that are read of google.rpc's messages. Their descriptors are not
// linked: Debian packages no .proto files of them, and two copies of their
// descriptors abort a process.
constexpr int kStatusDetails = 3;         // Status: repeated Any
constexpr int kViolations = 1;            // BadRequest: repeated FieldViolation
constexpr int kViolationField = 1;        // FieldViolation: string
constexpr int kViolationDescription = 2;  // FieldViolation: string

constexpr char kUnreachablePayload[] = "hearth/unreachable";
constexpr char kSilentPayload[] = "hearth/silent";

// Whether gRPC gave the connection up because of silence; only the message of
// its status tells.
bool WasSilent(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         absl::StrContains(status.error_message(), "keepalive");
}

constexpr std::chrono::milliseconds kNoticeBreak{100};

// Values of all length-delimited fields numbered `number` of a serialized
// message, up to the first byte that cannot be read.
std::vector<std::string> BytesFields(const std::string& message, int number) {
  google::protobuf::io::CodedInputStream input(
      reinterpret_cast<const uint8_t*>(message.data()),
      static_cast<int>(message.size()));
  std::vector<std::string> values;
  while (const uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagWireType(tag) !=
        WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) break;
      continue;
    }
    std::string value;
    if (!WireFormatLite::ReadBytes(&input, &value)) break;
    if (WireFormatLite::GetTagFieldNumber(tag) == number) {
      values.push_back(std::move(value));
    }
  }
  return values;
}

// "field: description" for each violation of a serialized BadRequest.
std::vector<std::string> Violations(const std::string& bad_request) {
  std::vector<std::string> lines;
  for (const std::string& violation : BytesFields(bad_request, kViolations)) {
    lines.push_back(absl::StrCat(
        absl::StrJoin(BytesFields(violation, kViolationField), ""), ": ",
        absl::StrJoin(BytesFields(violation, kViolationDescription), "")));
  }
  return lines;
}

// Whether the connection outlives a call that has just ended. When a connection
// breaks, gRPC ends its calls a moment before it changes the channel's state.
bool IsConnected(grpc::Channel& channel) {
  return channel.GetState(false) == GRPC_CHANNEL_READY &&
         !channel.WaitForStateChange(
             GRPC_CHANNEL_READY,
             std::chrono::system_clock::now() + kNoticeBreak);
}

}  // namespace

absl::Status RpcStatus(int code, const std::string& message,
                       const std::string& details) {
  if (code == 0) return absl::OkStatus();
  std::string text = message;
  for (const std::string& detail : BytesFields(details, kStatusDetails)) {
    google::protobuf::Any any;
    if (!any.ParseFromString(detail) ||
        !absl::EndsWith(any.type_url(), "/google.rpc.BadRequest")) {
      continue;
    }
    for (const std::string& line : Violations(any.value())) {
      // Some servers repeat the violation in the message.
      if (!absl::StrContains(text, line)) {
        absl::StrAppend(&text, text.empty() ? "" : ": ", line);
      }
    }
  }
  return absl::Status(static_cast<absl::StatusCode>(code), text);
}

absl::Status CallStatus(const grpc::Status& status, grpc::Channel& channel,
                        const std::string& server) {
  const absl::Status answer = RpcStatus(
      status.error_code(), status.error_message(), status.error_details());
  const bool was_silent = WasSilent(status);
  if (was_silent ||
      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    absl::Status silent = UnreachableError(
        absl::StrCat("hearthd at ", server, " does not answer"));
    if (was_silent) silent.SetPayload(kSilentPayload, absl::Cord());
    return silent;
  }
  // Over a connection that is up, UNAVAILABLE is the daemon's own answer: it
  // drains or stops.
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
      !IsConnected(channel)) {
    return UnreachableError(absl::StrCat("cannot reach hearthd at ", server,
                                         ": ", std::string(answer.message())));
  }
  if (absl::IsUnimplemented(answer)) {
    return absl::UnimplementedError(
        absl::StrCat("hearthd at ", server,
                     " does not know this call; it may be older than hearth ",
                     kVersion, ": ", std::string(answer.message())));
  }
  return answer;
}

absl::Status UnreachableError(const std::string& message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kUnreachablePayload, absl::Cord());
  return status;
}

absl::Duration SilenceBefore(const absl::Status& status) {
  return status.GetPayload(kSilentPayload).has_value()
             ? absl::Milliseconds(kKeepaliveMs + kKeepaliveTimeoutMs)
             : absl::ZeroDuration();
}

bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachablePayload).has_value();
}

Backoff::Backoff(absl::Duration first, absl::Duration patience)
    : first_(first), patience_(patience) {
  Reset();
}

void Backoff::Reset() {
  next_ = first_;
  paused_ = absl::ZeroDuration();
}

bool Backoff::Pause(const std::stop_token& stop) {
  if (stop.stop_requested() || paused_ + next_ > patience_) return false;
  absl::Notification stopped;
  bool interrupted = false;
  {
    const std::stop_callback wake(stop, [&stopped] { stopped.Notify(); });
    interrupted = stopped.WaitForNotificationWithTimeout(next_);
  }
  paused_ += next_;
  next_ = std::min(2 * next_, 20 * first_);
  return !interrupted;
}

SilenceWatch::SilenceWatch(absl::Duration limit, Notice notice,
                           const Clock& clock)
    : limit_(limit), notice_(std::move(notice)), clock_(clock) {
  if (notice_) thread_ = std::jthread([this] { Work(); });
}

SilenceWatch::~SilenceWatch() {
  absl::MutexLock lock(&mutex_);
  exiting_ = true;
  changed_.Signal();
}

void SilenceWatch::Heard() {
  absl::MutexLock lock(&mutex_);
  silent_since_.reset();
  if (std::exchange(told_, false)) notice_(absl::ZeroDuration());
}

void SilenceWatch::Lost(absl::Duration before) {
  absl::MutexLock lock(&mutex_);
  if (silent_since_.has_value()) return;
  silent_since_ = clock_.SteadySeconds() - absl::ToDoubleSeconds(before);
  changed_.Signal();
}

void SilenceWatch::Work() {
  absl::MutexLock lock(&mutex_);
  while (!exiting_) {
    if (!silent_since_.has_value() || told_) {
      changed_.Wait(&mutex_);
      continue;
    }
    const absl::Duration silent =
        absl::Seconds(clock_.SteadySeconds() - *silent_since_);
    if (silent < limit_) {
      changed_.WaitWithTimeout(&mutex_, limit_ - silent);
      continue;
    }
    told_ = true;
    notice_(silent);
  }
}

}  // namespace hearth::client
