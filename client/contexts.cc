#include "client/contexts.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/small_file.h"
#include "engine/base/status_macros.h"

namespace hearth::client {
namespace {

constexpr size_t kMaxNameLength = 64;

using nlohmann::ordered_json;

// The files of a context by their keys.
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

// Throws what nlohmann::json throws.
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
