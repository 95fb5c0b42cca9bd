#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/certificates.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/one_of.h"
#include "client/small_file.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

struct CertsOptions {
  std::string folder;
  std::vector<std::string> hosts;
  std::string client;
  std::string role = "user";
  int days = 365;
};

// Writes the two files of a pair, the key first: who sees a new certificate
// finds its key.
absl::Status Write(const client::KeyPair& pair, const std::string& stem,
                   Session& session) {
  HEARTH_RETURN_IF_ERROR(client::WriteSmallFile(stem + ".key", pair.key));
  HEARTH_RETURN_IF_ERROR(
      client::WriteSmallFile(stem + ".pem", pair.certificate));
  session.environment.out << EscapeControl(stem) << ".pem\n"
                          << EscapeControl(stem) << ".key\n";
  return absl::OkStatus();
}

// The authority in the folder, which is made if there is none, and never
// replaced.
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
  if (options.hosts.empty() && options.client.empty()) {
    return absl::InvalidArgumentError(
        "--host HOST makes the daemon's certificate, --client NAME a client's "
        "certificate: one of them is needed");
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

}  // namespace hearth::cli
