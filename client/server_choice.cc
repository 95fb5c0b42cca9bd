#include "client/server_choice.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"

namespace hearth::client {

namespace {

constexpr size_t kMaxFileBytes = 1 << 20;

absl::StatusOr<std::string> Read(const std::string& path, bool is_secret) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return ErrnoStatus(errno, path, "open");
  const absl::Cleanup closer = [file] { close(file); };
  struct stat info {};
  if (fstat(file, &info) != 0) return ErrnoStatus(errno, path, "stat");
  if (is_secret && S_ISREG(info.st_mode) && (info.st_mode & S_IRWXO) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": holds a secret that everybody may read: chmod 600 it"));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(file, &text[size], text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path, "read");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is too long"));
  }
  text.resize(size);
  return text;
}

// Writes a new file, mode 0600, and syncs it.
absl::Status WriteNew(const std::string& path, const std::string& text) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return ErrnoStatus(errno, path, "create");
  const absl::Cleanup closer = [file] { close(file); };
  const ssize_t written = write(file, text.data(), text.size());
  if (written < 0 || fsync(file) != 0) return ErrnoStatus(errno, path, "write");
  if (static_cast<size_t>(written) == text.size()) return absl::OkStatus();
  return ErrnoStatus(ENOSPC, path, "write");
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  return Read(path, /*is_secret=*/false);
}

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  return Read(path, /*is_secret=*/true);
}

absl::Status WriteSmallFile(const std::string& path, const std::string& text) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty() && !std::filesystem::exists(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return ErrnoStatus(error.value(), folder, "create");
    if (chmod(folder.c_str(), 0700) != 0) {
      return ErrnoStatus(errno, folder, "chmod");
    }
  }
  const std::string unfinished = absl::StrCat(path, ".", getpid(), ".tmp");
  absl::Status status = WriteNew(unfinished, text);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, path, "replace");
  }
  if (!status.ok()) unlink(unfinished.c_str());
  return status;
}

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

// The token in the first line of a file.
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
  return absl::FailedPreconditionError(absl::StrCat(
      "no daemon listens on ", path, ", and a token is not sent to ",
      kDefaultAddress,
      " unasked, since any user of this machine may listen there: "
      "start hearthd, or say by --server or --context which daemon is meant"));
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

namespace {

constexpr size_t kMaxNameLength = 64;

using nlohmann::ordered_json;

// A file of a context, and its key in the file of contexts.
struct Field {
  const char* key;
  std::string CredentialFiles::*file;
};
constexpr Field kFields[] = {
    {"ca", &CredentialFiles::ca},
    {"cert", &CredentialFiles::certificate},
    {"key", &CredentialFiles::key},
    {"token-file", &CredentialFiles::token},
};

// Contexts of `json`; throws the exceptions of nlohmann::json.
Contexts FromJson(const ordered_json& json) {
  Contexts contexts;
  contexts.current = json.value("current", "");
  for (const auto& [name, value] : json.at("contexts").items()) {
    Context& context = contexts.by_name[name];
    context.server = value.at("server").get<std::string>();
    for (const Field& field : kFields) {
      context.files.*field.file = value.value(field.key, "");
    }
  }
  return contexts;
}

ordered_json ToJson(const Contexts& contexts) {
  ordered_json json = {{"current", contexts.current},
                       {"contexts", ordered_json::object()}};
  for (const auto& [name, context] : contexts.by_name) {
    ordered_json& value = json["contexts"][name];
    value["server"] = context.server;
    for (const Field& field : kFields) {
      const std::string& path = context.files.*field.file;
      if (!path.empty()) value[field.key] = path;
    }
  }
  return json;
}

}  // namespace

std::string ContextsPath() {
  if (const char* path = std::getenv("HEARTH_CONTEXTS"); path && *path) {
    return path;
  }
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && config[0] == '/') {
    return absl::StrCat(config, "/hearth/contexts.json");
  }
  const char* home = std::getenv("HOME");
  return absl::StrCat(home != nullptr ? home : "",
                      "/.config/hearth/contexts.json");
}

absl::StatusOr<Contexts> ReadContexts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path);
  if (absl::IsNotFound(text.status())) return Contexts();
  HEARTH_RETURN_IF_ERROR(text.status());
  try {
    return FromJson(ordered_json::parse(*text));
  } catch (const ordered_json::exception&) {
    return absl::DataLossError(
        absl::StrCat(path, ": is not a file of contexts; mend or remove it"));
  }
}

absl::Status WriteContexts(const Contexts& contexts, const std::string& path) {
  return WriteSmallFile(
      path, ToJson(contexts).dump(2, ' ', /*ensure_ascii=*/true,
                                  ordered_json::error_handler_t::replace) +
                "\n");
}

absl::StatusOr<Context> FindContext(const Contexts& contexts,
                                    const std::string& name) {
  const auto found = contexts.by_name.find(name);
  if (found != contexts.by_name.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, context] : contexts.by_name) names.push_back(known);
  return absl::NotFoundError(absl::StrCat(
      "there is no context \"", absl::Utf8SafeCEscape(name), "\"; ",
      names.empty() ? "`hearth context add` makes one"
                    : absl::StrCat("there are ", absl::StrJoin(names, ", "))));
}

absl::Status CheckContextName(const std::string& name) {
  const bool is_name =
      !name.empty() && name.size() <= kMaxNameLength &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
               c == '_' || c == '.';
      });
  if (is_name) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::Utf8SafeCEscape(name),
                   "\" is not a name of a context: it must be 1 to ",
                   kMaxNameLength, " letters, digits, \"-\", \"_\" and \".\""));
}

}  // namespace hearth::client
