#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/table.h"
#include "client/proto_json.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

constexpr Table::Align kRight = Table::Align::kRight;

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Upload> uploads,
                          session.client.ListUploads());
  if (session.output == Output::kJson) {
    auto list = nlohmann::ordered_json::array();
    for (const v1::Upload& upload : uploads) {
      list.push_back(client::ToJson(upload));
    }
    PrintJson({{"uploads", list}}, session);
    return kExitDone;
  }
  Table table({{"id"},
               {"dataset"},
               {"owner"},
               {"files", kRight},
               {"received", kRight},
               {"size", kRight},
               {"kept until"}});
  for (const v1::Upload& upload : uploads) {
    table.AddRow({upload.id(), upload.name(), upload.owner(),
                  FormatCount(upload.num_files()),
                  FormatByteSize(upload.received_bytes()),
                  FormatByteSize(upload.size_bytes()),
                  upload.job_id().empty()
                      ? FormatTimestamp(upload.expire_time())
                      : absl::StrCat("end of ", upload.job_id())});
  }
  table.Print(session.environment.out);
  return kExitDone;
}

absl::StatusOr<int> Delete(const std::string& id, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeleteUpload(id));
  if (session.output == Output::kJson) {
    PrintJson({{"deleted", id}}, session);
  } else {
    session.environment.out << "deleted " << EscapeControl(id) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddUploadsCommands(CLI::App& dataset, Action* chosen) {
  CLI::App* uploads = dataset.add_subcommand(
      "uploads",
      "Files that `dataset upload` has sent and that are not imported yet");
  uploads->require_subcommand(1);
  uploads->add_subcommand("list", "All uploads, by dataset")->callback([=] {
    *chosen = List;
  });
  const auto id = std::make_shared<std::string>();
  CLI::App* remove = uploads->add_subcommand(
      "delete",
      "Delete an upload that no job uses, even while it is being sent");
  remove->add_option("ID", *id, "The upload's id")->required();
  remove->callback([=] {
    *chosen = [=](Session& session) { return Delete(*id, session); };
  });
}

}  // namespace hearth::cli
