#include "server/listen_address.h"

#include <arpa/inet.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

absl::Status Malformed(absl::string_view address) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", address,
                   "\" is not an address to listen on: it must be HOST:PORT "
                   "with the number of an interface, such as 127.0.0.1:7600"));
}

// Whether `host` is the number of an interface, IPv6 in brackets.
bool IsNumber(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return true;
  in6_addr v6{};
  return absl::StartsWith(host, "[") && absl::EndsWith(host, "]") &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1;
}

}  // namespace

absl::StatusOr<std::string> ParseListenAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return Malformed(address);
  std::string host(address.substr(0, colon));
  const absl::string_view digits = address.substr(colon + 1);
  int port = 0;
  if (digits.empty() || digits.size() > 5 ||
      digits.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(digits, &port) || port > 65535) {
    return Malformed(address);
  }
  if (host == "localhost") host = "127.0.0.1";
  if (!IsNumber(host)) return Malformed(address);
  return absl::StrCat(host, ":", port);
}

bool IsLoopback(absl::string_view address) {
  return absl::StartsWith(address, "127.0.0.1:") ||
         absl::StartsWith(address, "[::1]:");
}

absl::Status CheckLoopback(absl::string_view address) {
  if (IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "refusing to listen on \"", address,
      "\": this port has neither encryption nor authentication, so only "
      "loopback addresses (127.0.0.1, [::1], localhost) are allowed; from "
      "another machine use a tunnel, such as ssh -L 9600:127.0.0.1:9600"));
}

std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
}

}  // namespace hearth::server
