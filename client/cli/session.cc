#include "client/cli/session.h"

#include <filesystem>

namespace hearth::cli {

void PrintJson(const nlohmann::ordered_json& json, Session& session) {
  session.environment.out << json.dump(2, ' ', /*ensure_ascii=*/true,
                                       nlohmann::json::error_handler_t::replace)
                          << "\n";
}

std::string AbsolutePath(const std::string& path, const Session& session) {
  return (std::filesystem::path(session.environment.working_directory) / path)
      .lexically_normal()
      .string();
}

}  // namespace hearth::cli
