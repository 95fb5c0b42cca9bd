#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cli/enum_words.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/one_of.h"
#include "client/cli/table.h"
#include "client/proto_json.h"
#include "client/small_file.h"
#include "engine/base/status_macros.h"
#include "hearth/v1/access.pb.h"

namespace hearth::cli {
namespace {

const std::map<std::string, v1::Role>& Roles() {
  static const std::map<std::string, v1::Role> roles = {
      {"viewer", v1::VIEWER}, {"user", v1::USER}, {"operator", v1::OPERATOR}};
  return roles;
}

// Seconds in "90d", "12h" or "30m".
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
      // Nobody has the secret.
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

absl::StatusOr<int> List(Session& session) {
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
    *chosen = List;
  });
  const auto name = std::make_shared<std::string>();
  CLI::App* revoke = tokens->add_subcommand(
      "revoke", "Revoke a token: the next call with it is refused");
  revoke->add_option("name", *name, "Name of the token")->required();
  revoke->callback([=] {
    *chosen = [=](Session& session) { return Revoke(*name, session); };
  });
}

}  // namespace hearth::cli
