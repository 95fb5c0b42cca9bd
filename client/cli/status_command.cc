#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/enum_words.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/table.h"
#include "client/proto_json.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

absl::StatusOr<int> ShowStatus(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Status status, session.client.GetStatus());
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(status), session);
    return kExitDone;
  }
  Table table({{""}, {""}});
  table.AddRow({"version", status.version()});
  table.AddRow({"pid", absl::StrCat(status.pid())});
  table.AddRow({"started", FormatTimestamp(status.start_time())});
  table.AddRow({"data directory", status.data_dir()});
  if (!status.caller().empty()) {
    table.AddRow({"you are", absl::StrCat(status.caller(), ", ",
                                          EnumWord(status.caller_role()))});
  }
  table.AddRow({"metrics", status.metrics_address().empty()
                               ? "off"
                               : status.metrics_address()});
  table.AddRow({"takes new jobs", status.draining() ? "no" : "yes"});
  table.AddRow({"jobs queued", absl::StrCat(status.jobs_queued())});
  table.AddRow({"jobs waiting", absl::StrCat(status.jobs_waiting())});
  table.AddRow({"jobs running",
                absl::StrCat(status.jobs_running(), " (at most ",
                             status.max_running_jobs(), " of training and ",
                             status.max_short_jobs(), " others)")});
  table.AddRow({"datasets", absl::StrCat(status.datasets())});
  table.AddRow({"memory", FormatByteSize(status.memory_bytes())});
  table.AddRow(
      {"memory of jobs",
       absl::StrCat(FormatByteSize(status.memory_reserved_bytes()),
                    " reserved, ", FormatByteSize(status.memory_warm_bytes()),
                    " kept warm, of ",
                    FormatByteSize(status.memory_limit_bytes()))});
  table.AddRow(
      {"plans", status.plan_limit_bytes() == 0
                    ? FormatByteSize(status.plan_bytes())
                    : absl::StrCat(FormatByteSize(status.plan_bytes()), " of ",
                                   FormatByteSize(status.plan_limit_bytes()))});
  table.AddRow({"disk free", FormatByteSize(status.disk_free_bytes())});
  for (const v1::DataDisk& disk : status.data_disks()) {
    table.AddRow({"data disk",
                  absl::StrCat(disk.folder(), ", plans ",
                               FormatByteSize(disk.plan_bytes()), ", ",
                               FormatByteSize(disk.free_bytes()), " free")});
  }
  table.AddRow(
      {"reads by", absl::StrCat(status.read_queues(), ", ",
                                status.reads_in_flight(), " in flight")});
  table.AddRow({"devices", absl::StrJoin(status.devices(), ", ")});
  table.Print(session.environment.out);
  for (const std::string& warning : status.warnings()) {
    session.environment.out << "warning: " << EscapeControl(warning) << "\n";
  }
  return kExitDone;
}

}  // namespace

void AddStatusCommand(CLI::App& app, Action* chosen) {
  app.add_subcommand("status", "Version, jobs, memory and disk of the daemon")
      ->callback([=] { *chosen = ShowStatus; });
}

}  // namespace hearth::cli
