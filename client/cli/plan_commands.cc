#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/plan_view.h"
#include "client/proto_json.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Plan> plans,
                          session.client.ListPlans());
  if (session.output == Output::kTable) {
    PrintPlanList(plans, session.environment.out);
    return kExitDone;
  }
  auto list = nlohmann::ordered_json::array();
  for (const v1::Plan& plan : plans) list.push_back(client::ToJson(plan));
  PrintJson({{"plans", list}}, session);
  return kExitDone;
}

absl::StatusOr<int> Show(const std::string& name, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Plan plan, session.client.GetPlan(name));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(plan), session);
  } else {
    PrintPlan(plan, session.environment.out);
  }
  return kExitDone;
}

absl::StatusOr<int> Delete(const std::string& name, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeletePlan(name));
  if (session.output == Output::kJson) {
    PrintJson({{"deleted", name}}, session);
  } else {
    session.environment.out << "deleted " << EscapeControl(name) << "\n";
  }
  return kExitDone;
}

void AddNamed(CLI::App& plan, const char* command, const char* help,
              absl::StatusOr<int> (*act)(const std::string&, Session&),
              Action* chosen) {
  const auto name = std::make_shared<std::string>();
  CLI::App* added = plan.add_subcommand(command, help);
  added->add_option("NAME", *name, "The plan's name")->required();
  added->callback(
      [=] { *chosen = [=](Session& session) { return act(*name, session); }; });
}

}  // namespace

void AddPlanCommands(CLI::App& app, Action* chosen) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Prepared samples, packs and partitions, kept for later jobs");
  plan->require_subcommand(1);
  plan->add_subcommand("list", "All plans, the last used first")->callback([=] {
    *chosen = List;
  });
  AddNamed(*plan, "show", "One plan", Show, chosen);
  AddNamed(*plan, "delete", "Delete a plan that no job uses", Delete, chosen);
}

}  // namespace hearth::cli
