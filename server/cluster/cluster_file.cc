#include "server/cluster/cluster_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {

namespace {

constexpr uint64_t kMostFileBytes = 64 << 10;

absl::Status CheckAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port == 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be HOST:PORT, not \"", address, "\""));
  }
  return absl::OkStatus();
}

absl::Status CheckName(absl::string_view name) {
  if (IsValidName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "must be a name of letters, digits, '.', '_' and '-', not \"", name,
      "\""));
}

absl::StatusOr<std::string> TextOf(const YAML::Node& root, const char* key) {
  const YAML::Node node = root[key];
  if (node.IsDefined() && node.IsScalar() && !node.Scalar().empty()) {
    return node.Scalar();
  }
  return absl::InvalidArgumentError(absl::StrCat(key, ": is missing"));
}

absl::Status CheckKeys(const YAML::Node& root) {
  constexpr absl::string_view kKeys[] = {"name", "listen",    "certificate",
                                         "key",  "authority", "members"};
  if (!root.IsMap()) {
    return absl::InvalidArgumentError("must be a list of keys with values");
  }
  for (const auto& entry : root) {
    const std::string& key = entry.first.Scalar();
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown key \"", key,
                       "\"; the keys are name, listen, certificate, key, "
                       "authority, members"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ClusterMember>> MembersOf(const YAML::Node& node) {
  if (!node.IsDefined() || !node.IsMap()) {
    return absl::InvalidArgumentError(
        "members: must have a line \"NAME: HOST:PORT\" for each member");
  }
  std::vector<ClusterMember> members;
  for (const auto& entry : node) {
    const std::string& name = entry.first.Scalar();
    HEARTH_RETURN_IF_ERROR(Annotate(CheckName(name), "members"));
    std::string address;
    if (entry.second.IsScalar()) {
      address = entry.second.Scalar();
      HEARTH_RETURN_IF_ERROR(
          Annotate(CheckAddress(address), absl::StrCat("members: ", name)));
    } else if (!entry.second.IsNull()) {
      return absl::InvalidArgumentError(
          absl::StrCat("members: ", name, ": must be HOST:PORT"));
    }
    const bool again =
        std::any_of(members.begin(), members.end(),
                    [&](const auto& other) { return other.name == name; });
    if (again) {
      return absl::InvalidArgumentError(
          absl::StrCat("members: ", name, " is there twice"));
    }
    members.push_back({.name = name, .address = std::move(address)});
  }
  return members;
}

absl::StatusOr<ClusterFile> Parse(const YAML::Node& root,
                                  const std::string& folder) {
  HEARTH_RETURN_IF_ERROR(CheckKeys(root));
  ClusterFile file;
  HEARTH_ASSIGN_OR_RETURN(file.name, TextOf(root, "name"));
  HEARTH_RETURN_IF_ERROR(Annotate(CheckName(file.name), "name"));
  HEARTH_ASSIGN_OR_RETURN(file.listen, TextOf(root, "listen"));
  HEARTH_RETURN_IF_ERROR(Annotate(CheckAddress(file.listen), "listen"));
  const auto path_of = [&](const char* key) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> path = TextOf(root, key);
    if (!path.ok() || path->front() == '/') return path;
    return io::JoinPath(folder, *path);
  };
  HEARTH_ASSIGN_OR_RETURN(file.tls.certificate, path_of("certificate"));
  HEARTH_ASSIGN_OR_RETURN(file.tls.key, path_of("key"));
  HEARTH_ASSIGN_OR_RETURN(file.tls.client_ca, path_of("authority"));
  HEARTH_ASSIGN_OR_RETURN(file.members, MembersOf(root["members"]));
  if (file.Find(file.name) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "members: ", file.name, ", which this daemon is, is not among them"));
  }
  return file;
}

}  // namespace

const ClusterMember* ClusterFile::Find(absl::string_view member) const {
  const auto found = std::find_if(
      members.begin(), members.end(),
      [&](const ClusterMember& one) { return one.name == member; });
  return found == members.end() ? nullptr : &*found;
}

absl::StatusOr<ClusterFile> ParseClusterFile(const std::string& text,
                                             const std::string& path) {
  // yaml-cpp reports errors by throwing.
  try {
    auto file = Parse(YAML::Load(text), io::ParentDirectory(path));
    HEARTH_RETURN_IF_ERROR(Annotate(file.status(), path));
    return file;
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
}

absl::StatusOr<ClusterFile> ReadClusterFile(io::FileSystem& files,
                                            const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          io::ReadWholeFile(files, path, kMostFileBytes));
  return ParseClusterFile(text, path);
}

}  // namespace hearth::server
