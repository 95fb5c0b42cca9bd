#include <CLI/CLI.hpp>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/views/text.h"
#include "client/proto_json.h"
#include "client/server_choice.h"
#include "client/tls.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "hearth/v1/access.pb.h"

namespace hearth::cli {

namespace {

const std::map<std::string, v1::Role>& Roles() {
  static const std::map<std::string, v1::Role> roles = {
      {"viewer", v1::VIEWER}, {"user", v1::USER}, {"operator", v1::OPERATOR}};
  return roles;
}

// Seconds of a text such as "90d", "12h" or "30m".
absl::StatusOr<uint64_t> ParseLifetime(const std::string& text) {
  absl::string_view days = text;
  uint32_t count = 0;
  if (absl::ConsumeSuffix(&days, "d") && absl::SimpleAtoi(days, &count) &&
      count > 0) {
    return uint64_t{count} * 24 * 3600;
  }
  absl::Duration lifetime;
  if (absl::ParseDuration(text, &lifetime) && lifetime >= absl::Seconds(1) &&
      lifetime < absl::InfiniteDuration()) {
    return static_cast<uint64_t>(absl::ToInt64Seconds(lifetime));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--expires-in must be a time, as \"90d\" or \"12h\", not \"",
                   text, "\""));
}

std::string When(bool is_set, const google::protobuf::Timestamp& time,
                 const char* otherwise) {
  return is_set ? FormatTimestamp(time) : otherwise;
}

struct CreateOptions {
  v1::CreateTokenRequest request;
  v1::Role role = v1::USER;
  std::string lifetime;
  std::string file;
};

absl::StatusOr<int> Create(CreateOptions options, Session& session) {
  options.request.set_role(options.role);
  if (!options.lifetime.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t seconds,
                            ParseLifetime(options.lifetime));
    options.request.set_lifetime_seconds(seconds);
  }
  HEARTH_ASSIGN_OR_RETURN(v1::NewToken made,
                          session.client.CreateToken(options.request));
  const std::string& name = made.token().name();
  if (!options.file.empty()) {
    const std::string path = AbsolutePath(options.file, session);
    const absl::Status written =
        client::WriteSmallFile(path, absl::StrCat(made.secret(), "\n"));
    if (!written.ok()) {
      // Nobody has the secret: the token is of no use.
      static_cast<void>(session.client.RevokeToken(name));
      return written;
    }
    made.clear_secret();
  }
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(made), session);
    return kExitDone;
  }
  session.environment.err << "token " << EscapeControl(name) << ", "
                          << EnumWord(made.token().role()) << ", expires "
                          << When(made.token().has_expire_time(),
                                  made.token().expire_time(), "never")
                          << (options.file.empty()
                                  ? "; this is shown once, keep it in a file "
                                    "of mode 600:\n"
                                  : absl::StrCat(": in ",
                                                 EscapeControl(options.file),
                                                 "\n"));
  if (options.file.empty()) session.environment.out << made.secret() << "\n";
  return kExitDone;
}

absl::StatusOr<int> ListTokens(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Token> tokens,
                          session.client.ListTokens());
  if (session.output == Output::kJson) {
    v1::ListTokensResponse all;
    for (const v1::Token& token : tokens) *all.add_tokens() = token;
    PrintJson(client::ToJson(all), session);
    return kExitDone;
  }
  Table table({{"name"},
               {"role"},
               {"created"},
               {"expires"},
               {"last use"},
               {"revoked"}});
  for (const v1::Token& token : tokens) {
    table.AddRow(
        {token.name(), EnumWord(token.role()),
         FormatTimestamp(token.create_time()),
         When(token.has_expire_time(), token.expire_time(), "never"),
         When(token.has_last_use_time(), token.last_use_time(), "never"),
         When(token.has_revoke_time(), token.revoke_time(), "no")});
  }
  table.Print(session.environment.out);
  return kExitDone;
}

absl::StatusOr<int> Revoke(const std::string& name, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Token token,
                          session.client.RevokeToken(name));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(token), session);
  } else {
    session.environment.out << EscapeControl(token.name()) << " is revoked\n";
  }
  return kExitDone;
}

}  // namespace

void AddTokenCommands(CLI::App& admin, Action* chosen) {
  CLI::App* tokens = admin.add_subcommand(
      "token",
      "Tokens, by which callers authenticate. Once there is a token, every "
      "caller over TCP needs one");
  tokens->require_subcommand(1);
  const auto options = std::make_shared<CreateOptions>();
  CLI::App* create = tokens->add_subcommand(
      "create", "Make a token and print its secret, which is shown once");
  create
      ->add_option_function<std::string>(
          "name",
          [=](const std::string& name) { options->request.set_name(name); },
          "Name of its bearer, who owns the jobs submitted with it")
      ->required();
  create
      ->add_option("--role", options->role,
                   "Role of its bearer: a viewer sees everything, a user also "
                   "submits and changes jobs of its own, an operator may do "
                   "everything. Default: user")
      ->transform(OneOf(Roles()));
  create->add_option("--expires-in", options->lifetime,
                     "Time until the token expires, such as 90d or 12h. "
                     "Default: never");
  create->add_option("--to", options->file,
                     "File of mode 600 to write the secret to, instead of "
                     "printing it");
  create->callback([=] {
    *chosen = [=](Session& session) { return Create(*options, session); };
  });
  tokens->add_subcommand("list", "All tokens, without secrets")->callback([=] {
    *chosen = ListTokens;
  });
  const auto name = std::make_shared<std::string>();
  CLI::App* revoke = tokens->add_subcommand(
      "revoke", "Revoke a token: the next call with it is refused");
  revoke->add_option("name", *name, "Name of the token")->required();
  revoke->callback([=] {
    *chosen = [=](Session& session) { return Revoke(*name, session); };
  });
}

namespace {

struct CertsOptions {
  std::string folder;
  std::vector<std::string> hosts;
  std::string client;
  std::string member;
  std::string role = "user";
  int days = 365;
};

// Writes the two files of a pair, the key first, so that a new certificate
// always has its key.
absl::Status Write(const client::KeyPair& pair, const std::string& stem,
                   Session& session) {
  HEARTH_RETURN_IF_ERROR(client::WriteSmallFile(stem + ".key", pair.key));
  HEARTH_RETURN_IF_ERROR(
      client::WriteSmallFile(stem + ".pem", pair.certificate));
  session.environment.out << EscapeControl(stem) << ".pem\n"
                          << EscapeControl(stem) << ".key\n";
  return absl::OkStatus();
}

// The authority in `folder`; made if there is none, never replaced.
absl::StatusOr<client::KeyPair> Authority(const std::string& folder,
                                          absl::Time now, Session& session) {
  const std::string stem = folder + "/ca";
  const bool has_certificate = std::filesystem::exists(stem + ".pem");
  const bool has_key = std::filesystem::exists(stem + ".key");
  if (!has_certificate && !has_key) {
    HEARTH_ASSIGN_OR_RETURN(const client::KeyPair made,
                            client::NewAuthority(now));
    HEARTH_RETURN_IF_ERROR(Write(made, stem, session));
    return made;
  }
  client::KeyPair authority;
  HEARTH_ASSIGN_OR_RETURN(authority.certificate,
                          client::ReadSmallFile(stem + ".pem"));
  HEARTH_ASSIGN_OR_RETURN(authority.key, client::ReadSecret(stem + ".key"));
  return authority;
}

absl::StatusOr<int> MakeCertificates(const CertsOptions& options,
                                     Session& session) {
  if (options.hosts.empty() && options.client.empty() &&
      options.member.empty()) {
    return absl::InvalidArgumentError(
        "--host HOST makes the daemon's certificate, --client NAME a client's "
        "certificate, --member NAME that of a cluster's member: one of them is "
        "needed");
  }
  const absl::Time now = absl::Now();
  const absl::Duration lifetime = absl::Hours(24) * options.days;
  const std::string folder = AbsolutePath(options.folder, session);
  HEARTH_ASSIGN_OR_RETURN(const client::KeyPair authority,
                          Authority(folder, now, session));
  if (!options.hosts.empty()) {
    const absl::StatusOr<client::KeyPair> made =
        client::NewServerCertificate(authority, options.hosts, now, lifetime);
    if (!made.ok()) return Annotate(made.status(), folder);
    HEARTH_RETURN_IF_ERROR(Write(*made, folder + "/server", session));
  }
  if (!options.client.empty()) {
    const absl::StatusOr<client::KeyPair> made = client::NewClientCertificate(
        authority, options.client, options.role, now, lifetime);
    if (!made.ok()) return Annotate(made.status(), folder);
    HEARTH_RETURN_IF_ERROR(Write(
        *made, absl::StrCat(folder, "/client-", options.client), session));
  }
  if (!options.member.empty()) {
    const absl::StatusOr<client::KeyPair> made =
        client::NewMemberCertificate(authority, options.member, now, lifetime);
    if (!made.ok()) return Annotate(made.status(), folder);
    HEARTH_RETURN_IF_ERROR(Write(
        *made, absl::StrCat(folder, "/member-", options.member), session));
  }
  return kExitDone;
}

}  // namespace

void AddCertsCommand(CLI::App& admin, Action* chosen) {
  CLI::App* certs = admin.add_subcommand(
      "certs",
      "Make TLS certificates on this machine, and a private authority for them "
      "where the folder has none. Existing certificates are replaced, the "
      "authority never is. Keep ca.key where hearthd cannot read it");
  const auto options = std::make_shared<CertsOptions>();
  certs->add_option("--to", options->folder, "Folder of the files")->required();
  certs
      ->add_option("--host", options->hosts,
                   "Name or number by which clients reach the daemon, for "
                   "server.pem and server.key; repeatable")
      ->allow_extra_args(false);
  certs->add_option(
      "--client", options->client,
      "Name of a client, for client-NAME.pem and client-NAME.key");
  certs->add_option(
      "--member", options->member,
      "Name of a daemon in its cluster, for member-NAME.pem and "
      "member-NAME.key. Use a folder of the cluster's own: whoever holds its "
      "authority can be any member");
  certs
      ->add_option("--role", options->role,
                   "Role of the client: viewer, user or operator. Default: "
                   "user")
      ->check(OneOf(std::vector<std::string>{"viewer", "user", "operator"}));
  certs
      ->add_option("--days", options->days,
                   "Days until the certificates expire. Default: 365")
      ->check(CLI::Range(1, 3650));
  certs->callback([=] {
    *chosen = [=](Session& session) {
      return MakeCertificates(*options, session);
    };
  });
}

namespace {

absl::StatusOr<int> BackUp(const std::string& destination, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(
      const v1::BackupReport report,
      session.client.BackUp(AbsolutePath(destination, session)));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(report), session);
  } else {
    session.environment.out << EscapeControl(report.path()) << ": "
                            << Counted(report.jobs(), "job") << ", "
                            << Counted(report.models(), "model") << ", "
                            << FormatByteSize(report.size_bytes()) << "\n";
  }
  return kExitDone;
}

absl::StatusOr<int> Drain(bool draining, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Status status,
                          session.client.SetDraining(draining));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(status), session);
  } else {
    session.environment.out
        << "takes new jobs: " << (status.draining() ? "no" : "yes") << "; "
        << status.jobs_running() << " running, " << status.jobs_queued()
        << " queued\n";
  }
  return kExitDone;
}

}  // namespace

void AddAdminCommands(CLI::App& app, Action* chosen, Action* chosen_local) {
  CLI::App* admin = app.add_subcommand("admin", "For operators of the daemon");
  admin->require_subcommand(1);
  AddTokenCommands(*admin, chosen);
  AddCertsCommand(*admin, chosen_local);
  CLI::App* backup = admin->add_subcommand(
      "backup",
      "Copy the jobs, their results and their models to a new folder on the "
      "daemon's machine, while it runs. A copy of that folder is a data "
      "directory: start hearthd on it to restore. Datasets, plans and "
      "checkpoints are not copied: import datasets again, or copy datasets/ "
      "while no job makes or deletes one");
  const auto destination = std::make_shared<std::string>();
  backup->add_option("--to", *destination, "New folder on the daemon's machine")
      ->required();
  backup->callback([=] {
    *chosen = [=](Session& session) { return BackUp(*destination, session); };
  });
  CLI::App* drain = admin->add_subcommand(
      "drain",
      "Take no new jobs and begin no trials of sweeps until the daemon is "
      "restarted, so that it runs empty");
  const auto off = std::make_shared<bool>(false);
  drain->add_flag("--off", *off, "Take new jobs again");
  drain->callback([=] {
    *chosen = [=](Session& session) { return Drain(!*off, session); };
  });
}

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
  // Reports mistakes in the files now, not at the first use.
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

absl::StatusOr<int> ListContexts(Session& session) {
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
  // --server and files are the context's, not global options.
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
    *chosen = ListContexts;
  });
  const auto removed = std::make_shared<std::string>();
  CLI::App* remove = contexts->add_subcommand("remove", "Forget a name");
  remove->add_option("name", *removed, "Name")->required();
  remove->callback(
      [=] { *chosen = [=](Session&) { return Remove(*removed); }; });
}

}  // namespace hearth::cli
