#include "server/storage/token_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/mapping/request_checks.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr absl::Duration kSaveEvery = absl::Minutes(1);
// A hundred years: far above any real lifetime, and far below overflow.
constexpr uint64_t kMaxLifetimeSeconds = uint64_t{100} * 366 * 24 * 3600;

std::string HashOf(absl::string_view secret) {
  Sha256 hash;
  hash.Update(secret);
  return hash.HexDigest();
}

absl::StatusOr<std::string> NewSecret() {
  HEARTH_ASSIGN_OR_RETURN(const std::string random, RandomHex(kSecretBytes));
  return absl::StrCat(TokenStore::kSecretPrefix, random);
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
         c == '_' || c == '.' || c == '@';
}

absl::Status CheckFields(const v1::CreateTokenRequest& request) {
  FieldViolations violations;
  const std::string& name = request.name();
  if (name.empty() || name.size() > TokenStore::kMaxNameLength ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    violations.Add("name",
                   absl::StrCat("must be 1 to ", TokenStore::kMaxNameLength,
                                " letters, digits, \"-\", \"_\", \".\" and "
                                "\"@\""));
  }
  if (request.role() == v1::ROLE_UNSPECIFIED) {
    violations.Add("role", "must be given");
  }
  if (request.lifetime_seconds() > kMaxLifetimeSeconds) {
    violations.Add("lifetime_seconds",
                   absl::StrCat("must be at most ", kMaxLifetimeSeconds));
  }
  return violations.ToStatus();
}

absl::Status Worthless(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("the token ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenStore>> TokenStore::Open(
    JobStore& jobs, io::FileSystem& files, std::string marker,
    const Clock& clock) {
  std::unique_ptr<TokenStore> store(
      new TokenStore(jobs, files, std::move(marker), clock));
  HEARTH_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status TokenStore::Load() {
  std::map<std::string, Entry> tokens;
  HEARTH_RETURN_IF_ERROR(jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        tokens.clear();
        HEARTH_ASSIGN_OR_RETURN(
            Statement row,
            database.Prepare("SELECT name, role, hash, create_ns, expire_ns, "
                             "last_use_ns, revoke_ns FROM tokens"));
        while (true) {
          HEARTH_ASSIGN_OR_RETURN(const bool is_row, row.Step());
          if (!is_row) return absl::OkStatus();
          Entry entry;
          v1::Token& token = entry.token;
          token.set_name(row.Bytes(0));
          token.set_role(static_cast<v1::Role>(row.Int64(1)));
          entry.hash = row.Bytes(2);
          const auto time = [&](int column) {
            return TimestampOf(row.Int64(column));
          };
          *token.mutable_create_time() = time(3);
          if (!row.IsNull(4)) *token.mutable_expire_time() = time(4);
          if (!row.IsNull(5)) *token.mutable_last_use_time() = time(5);
          if (!row.IsNull(6)) *token.mutable_revoke_time() = time(6);
          tokens[token.name()] = std::move(entry);
        }
      }));
  const absl::StatusOr<io::FileInfo> marker = files_.Stat(marker_);
  if (!marker.ok() && !absl::IsNotFound(marker.status())) {
    return marker.status();
  }
  required_ = marker.ok() || !tokens.empty();
  // The marker may be missing in a folder restored from a backup.
  if (required_) HEARTH_RETURN_IF_ERROR(Mark());
  absl::MutexLock lock(&mutex_);
  tokens_ = std::move(tokens);
  return absl::OkStatus();
}

absl::Status TokenStore::Mark() {
  if (files_.Stat(marker_).ok()) return absl::OkStatus();
  return io::WriteFileAtomically(files_, marker_,
                                 "callers over TCP need a token\n");
}

absl::Status TokenStore::Store(const Entry& entry) {
  return jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        HEARTH_ASSIGN_OR_RETURN(
            Statement statement,
            database.Prepare("INSERT OR REPLACE INTO tokens (name, role, hash, "
                             "create_ns, expire_ns, last_use_ns, revoke_ns) "
                             "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"));
        const v1::Token& token = entry.token;
        statement.BindText(1, token.name()).Bind(2, token.role());
        statement.BindText(3, entry.hash);
        statement.Bind(4, NanosecondsOf(token.create_time()));
        if (token.has_expire_time()) {
          statement.Bind(5, NanosecondsOf(token.expire_time()));
        }
        if (token.has_last_use_time()) {
          statement.Bind(6, NanosecondsOf(token.last_use_time()));
        }
        if (token.has_revoke_time()) {
          statement.Bind(7, NanosecondsOf(token.revoke_time()));
        }
        return statement.Run();
      });
}

absl::StatusOr<v1::NewToken> TokenStore::Create(
    const v1::CreateTokenRequest& request) {
  HEARTH_RETURN_IF_ERROR(CheckFields(request));
  absl::MutexLock changing(&changing_);
  {
    absl::MutexLock lock(&mutex_);
    const auto found = tokens_.find(request.name());
    if (found != tokens_.end() && !found->second.token.has_revoke_time()) {
      return absl::AlreadyExistsError(
          absl::StrCat("there is a token \"", request.name(),
                       "\"; revoke it first, or choose another name"));
    }
    if (found == tokens_.end() && tokens_.size() >= kMaxTokens) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", kMaxTokens,
                       " tokens; names of revoked ones can be used again"));
    }
  }
  v1::NewToken made;
  HEARTH_ASSIGN_OR_RETURN(*made.mutable_secret(), NewSecret());
  Entry entry{.token = {}, .hash = HashOf(made.secret())};
  entry.token.set_name(request.name());
  entry.token.set_role(request.role());
  const absl::Time now = clock_.Now();
  *entry.token.mutable_create_time() = TimestampOf(absl::ToUnixNanos(now));
  if (request.lifetime_seconds() > 0) {
    *entry.token.mutable_expire_time() = TimestampOf(absl::ToUnixNanos(
        now + absl::Seconds(static_cast<int64_t>(request.lifetime_seconds()))));
  }
  *made.mutable_token() = entry.token;
  HEARTH_RETURN_IF_ERROR(Mark());
  required_ = true;
  HEARTH_RETURN_IF_ERROR(Store(entry));
  absl::MutexLock lock(&mutex_);
  tokens_[request.name()] = std::move(entry);
  return made;
}

std::vector<v1::Token> TokenStore::List() {
  absl::MutexLock lock(&mutex_);
  std::vector<v1::Token> tokens;
  for (const auto& [name, entry] : tokens_) tokens.push_back(entry.token);
  return tokens;
}

absl::StatusOr<v1::Token> TokenStore::Revoke(const std::string& name) {
  absl::MutexLock changing(&changing_);
  Entry entry;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = tokens_.find(name);
    if (found == tokens_.end()) {
      return absl::NotFoundError(absl::StrCat(
          "there is no token \"", absl::Utf8SafeCEscape(name), "\""));
    }
    Entry& known = found->second;
    if (!known.token.has_revoke_time()) {
      // Revoked before that is stored, lest a full disk keep the token alive.
      *known.token.mutable_revoke_time() =
          TimestampOf(absl::ToUnixNanos(clock_.Now()));
      known.is_revocation_stored = false;
    }
    if (known.is_revocation_stored) return known.token;
    entry = known;
  }
  HEARTH_RETURN_IF_ERROR(Store(entry));
  absl::MutexLock lock(&mutex_);
  tokens_[name].is_revocation_stored = true;
  return entry.token;
}

absl::StatusOr<v1::Token> TokenStore::Check(absl::string_view secret) {
  const std::string hash = HashOf(secret);
  const absl::Time now = clock_.Now();
  absl::MutexLock lock(&mutex_);
  // Compares with all tokens, whole hashes each.
  Entry* found = nullptr;
  for (auto& [name, entry] : tokens_) {
    if (EqualInConstantTime(entry.hash, hash)) found = &entry;
  }
  if (found == nullptr) return Worthless("is not one that hearthd knows");
  if (found->token.has_revoke_time()) return Worthless("was revoked");
  if (found->token.has_expire_time() &&
      NanosecondsOf(found->token.expire_time()) <= absl::ToUnixNanos(now)) {
    return Worthless("has expired");
  }
  *found->token.mutable_last_use_time() = TimestampOf(absl::ToUnixNanos(now));
  found->is_use_saved = false;
  return found->token;
}

absl::Status TokenStore::SaveUses(bool now) {
  absl::MutexLock changing(&changing_);
  // The wall clock may have been set back.
  const absl::Duration since = clock_.Now() - saved_;
  if (!now && since >= absl::ZeroDuration() && since < kSaveEvery) {
    return absl::OkStatus();
  }
  std::vector<v1::Token> used;
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [name, entry] : tokens_) {
      if (!entry.is_use_saved) used.push_back(entry.token);
      entry.is_use_saved = true;
    }
  }
  saved_ = clock_.Now();
  if (used.empty()) return absl::OkStatus();
  return jobs_.Transact(
      [&](Database& database, JobRows&, ChangedJobs&) -> absl::Status {
        for (const v1::Token& token : used) {
          HEARTH_ASSIGN_OR_RETURN(
              Statement statement,
              database.Prepare(
                  "UPDATE tokens SET last_use_ns = ?2 WHERE name = ?1"));
          statement.BindText(1, token.name());
          statement.Bind(2, NanosecondsOf(token.last_use_time()));
          HEARTH_RETURN_IF_ERROR(statement.Run());
        }
        return absl::OkStatus();
      });
}

}  // namespace hearth::server
