#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/table.h"
#include "client/contexts.h"
#include "client/server_choice.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct AddOptions {
  std::string name;
  client::Context context;
};

absl::StatusOr<int> Add(AddOptions options, Session& session) {
  HEARTH_RETURN_IF_ERROR(client::CheckContextName(options.name));
  for (std::string* file :
       {&options.context.files.ca, &options.context.files.certificate,
        &options.context.files.key, &options.context.files.token}) {
    if (!file->empty()) *file = AbsolutePath(*file, session);
  }
  // Mistakes in the files are told now.
  client::ClientOptions checked;
  checked.server = options.context.server;
  HEARTH_RETURN_IF_ERROR(
      client::LoadCredentials(options.context.files, checked));
  const std::string path = client::ContextsPath();
  HEARTH_ASSIGN_OR_RETURN(client::Contexts contexts,
                          client::ReadContexts(path));
  contexts.by_name[options.name] = options.context;
  HEARTH_RETURN_IF_ERROR(client::WriteContexts(contexts, path));
  return kExitDone;
}

absl::StatusOr<int> Use(const std::string& name) {
  const std::string path = client::ContextsPath();
  HEARTH_ASSIGN_OR_RETURN(client::Contexts contexts,
                          client::ReadContexts(path));
  if (!name.empty()) {
    HEARTH_RETURN_IF_ERROR(client::FindContext(contexts, name).status());
  }
  contexts.current = name;
  HEARTH_RETURN_IF_ERROR(client::WriteContexts(contexts, path));
  return kExitDone;
}

absl::StatusOr<int> Remove(const std::string& name) {
  const std::string path = client::ContextsPath();
  HEARTH_ASSIGN_OR_RETURN(client::Contexts contexts,
                          client::ReadContexts(path));
  HEARTH_RETURN_IF_ERROR(client::FindContext(contexts, name).status());
  contexts.by_name.erase(name);
  if (contexts.current == name) contexts.current.clear();
  HEARTH_RETURN_IF_ERROR(client::WriteContexts(contexts, path));
  return kExitDone;
}

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const client::Contexts contexts,
                          client::ReadContexts(client::ContextsPath()));
  if (session.output == Output::kJson) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const auto& [name, context] : contexts.by_name) {
      json.push_back({{"name", name},
                      {"current", name == contexts.current},
                      {"server", context.server},
                      {"ca", context.files.ca},
                      {"cert", context.files.certificate},
                      {"key", context.files.key},
                      {"token_file", context.files.token}});
    }
    PrintJson(json, session);
    return kExitDone;
  }
  Table table({{"used"}, {"name"}, {"server"}, {"ca"}, {"cert"}, {"token"}});
  for (const auto& [name, context] : contexts.by_name) {
    table.AddRow({name == contexts.current ? "*" : "", name, context.server,
                  context.files.ca, context.files.certificate,
                  context.files.token});
  }
  table.Print(session.environment.out);
  return kExitDone;
}

}  // namespace

void AddContextCommands(CLI::App& app, Action* chosen) {
  CLI::App* contexts = app.add_subcommand(
      "context",
      "Names for daemons, with the certificate and token files for each");
  contexts->require_subcommand(1);
  const auto options = std::make_shared<AddOptions>();
  CLI::App* add = contexts->add_subcommand(
      "add", "Give a daemon a name, or change the daemon of a name");
  // Its own --server and files, not those of the call.
  add->fallthrough(false);
  add->add_option("name", options->name, "Name")->required();
  add->add_option("--server", options->context.server,
                  "Address of the daemon: HOST:PORT or unix:PATH")
      ->required();
  client::CredentialFiles& files = options->context.files;
  add->add_option("--ca", files.ca,
                  "PEM file with the authority that vouches for the daemon");
  add->add_option("--cert", files.certificate,
                  "PEM file with the client's certificate");
  add->add_option("--key", files.key,
                  "PEM file with the private key of --cert");
  add->add_option("--token-file", files.token, "File with a token");
  add->callback([=] {
    *chosen = [=](Session& session) { return Add(*options, session); };
  });
  const auto used = std::make_shared<std::string>();
  CLI::App* use = contexts->add_subcommand(
      "use",
      "Choose the default daemon; without NAME, the daemon of this "
      "machine");
  use->add_option("name", *used, "Name");
  use->callback([=] { *chosen = [=](Session&) { return Use(*used); }; });
  contexts->add_subcommand("list", "All names")->callback([=] {
    *chosen = List;
  });
  const auto removed = std::make_shared<std::string>();
  CLI::App* remove = contexts->add_subcommand("remove", "Forget a name");
  remove->add_option("name", *removed, "Name")->required();
  remove->callback(
      [=] { *chosen = [=](Session&) { return Remove(*removed); }; });
}

}  // namespace hearth::cli
