#include "client/server_choice.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/small_file.h"
#include "engine/base/status_macros.h"

namespace hearth::client {
namespace {

constexpr char kDefaultAddress[] = "127.0.0.1:7600";

// Whether somebody listens on the socket `path`.
bool IsServed(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return false;
  const bool served =
      connect(connection, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0;
  close(connection);
  return served;
}

absl::Status CheckPem(const std::string& text, const std::string& path) {
  if (absl::StrContains(text, "-----BEGIN ")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": is not in PEM form"));
}

// The first line.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::string text, ReadSecret(path));
  absl::string_view token = *absl::StrSplit(text, '\n').begin();
  absl::ConsumeSuffix(&token, "\r");
  const bool is_token =
      !token.empty() && std::all_of(token.begin(), token.end(),
                                    [](char c) { return c > ' ' && c <= '~'; });
  if (is_token) return std::string(token);
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": its first line is not a token"));
}

}  // namespace

std::string DefaultDataDir() {
  const char* home = std::getenv("HEARTH_HOME");
  std::string folder = home != nullptr ? home : "";
  if (folder.empty()) {
    home = std::getenv("HOME");
    folder = absl::StrCat(home != nullptr ? home : "", "/.hearth");
  }
  std::error_code error;
  return std::filesystem::absolute(folder, error).lexically_normal().string();
}

absl::StatusOr<std::string> DefaultServer(const CredentialFiles& files) {
  const std::string path = DefaultDataDir() + "/hearth.sock";
  if (IsServed(path)) return absl::StrCat("unix:", path);
  if (files.token.empty() || !files.ca.empty()) {
    return std::string(kDefaultAddress);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no daemon listens on ", path,
                   ", and a token is not sent to ", kDefaultAddress,
                   " unasked, since any user of this machine may listen there: "
                   "start hearthd,"
                   " or say by --server or --context which daemon is meant"));
}

bool IsLocal(absl::string_view server) {
  if (absl::StrContains(server, ',')) return false;
  absl::ConsumePrefix(&server, "ipv4:");
  absl::ConsumePrefix(&server, "ipv6:");
  return absl::StartsWith(server, "unix:") ||
         absl::StartsWith(server, "127.0.0.1:") ||
         absl::StartsWith(server, "[::1]:") ||
         absl::StartsWith(server, "localhost:");
}

absl::Status LoadCredentials(const CredentialFiles& files,
                             ClientOptions& options) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(
        "--cert and --key go together: one of them is missing");
  }
  if (!files.certificate.empty() && files.ca.empty()) {
    return absl::InvalidArgumentError(
        "--cert needs --ca, the authority that vouches for the daemon");
  }
  if (!files.ca.empty()) {
    HEARTH_ASSIGN_OR_RETURN(options.ca, ReadSmallFile(files.ca));
    HEARTH_RETURN_IF_ERROR(CheckPem(options.ca, files.ca));
  }
  if (!files.certificate.empty()) {
    HEARTH_ASSIGN_OR_RETURN(options.certificate,
                            ReadSmallFile(files.certificate));
    HEARTH_RETURN_IF_ERROR(CheckPem(options.certificate, files.certificate));
    HEARTH_ASSIGN_OR_RETURN(options.key, ReadSecret(files.key));
    HEARTH_RETURN_IF_ERROR(CheckPem(options.key, files.key));
  }
  if (files.token.empty()) return absl::OkStatus();
  if (files.ca.empty() && !IsLocal(options.server)) {
    return absl::FailedPreconditionError(
        absl::StrCat("a token is not sent to ", options.server,
                     " unencrypted: give --ca FILE, the authority that vouches "
                     "for the daemon"));
  }
  HEARTH_ASSIGN_OR_RETURN(options.token, ReadToken(files.token));
  return absl::OkStatus();
}

}  // namespace hearth::client
