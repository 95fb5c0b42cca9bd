#include "server/storage/token_store.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr absl::Duration kSaveEvery = absl::Minutes(1);
// A hundred years: far above what anyone means, and far below what overflows.
constexpr uint64_t kMaxLifetimeSeconds = uint64_t{100} * 366 * 24 * 3600;

google::protobuf::Timestamp TimestampOf(absl::Time time) {
  const int64_t nanoseconds = absl::ToUnixNanos(time);
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(nanoseconds / 1'000'000'000);
  timestamp.set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  return timestamp;
}

int64_t NanosecondsOf(const google::protobuf::Timestamp& timestamp) {
  return timestamp.seconds() * 1'000'000'000 + timestamp.nanos();
}

std::string HashOf(absl::string_view secret) {
  Sha256 hash;
  hash.Update(secret);
  return hash.HexDigest();
}

absl::StatusOr<std::string> NewSecret() {
  std::array<unsigned char, kSecretBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) {
    return absl::UnavailableError("the machine has no random numbers to give");
  }
  return absl::StrCat(
      TokenStore::kSecretPrefix,
      absl::BytesToHexString(absl::string_view(
          reinterpret_cast<const char*>(bytes.data()), bytes.size())));
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
            return TimestampOf(absl::FromUnixNanos(row.Int64(column)));
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
  // A folder that was restored from a backup may lack it.
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
  *entry.token.mutable_create_time() = TimestampOf(now);
  if (request.lifetime_seconds() > 0) {
    *entry.token.mutable_expire_time() = TimestampOf(
        now + absl::Seconds(static_cast<int64_t>(request.lifetime_seconds())));
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
      // Worthless before that is stored, lest a full disk keep it alive.
      *known.token.mutable_revoke_time() = TimestampOf(clock_.Now());
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
  // All are compared, whole.
  Entry* found = nullptr;
  for (auto& [name, entry] : tokens_) {
    if (entry.hash.size() == hash.size() &&
        CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) {
      found = &entry;
    }
  }
  if (found == nullptr) return Worthless("is not one that hearthd knows");
  if (found->token.has_revoke_time()) return Worthless("was revoked");
  if (found->token.has_expire_time() &&
      NanosecondsOf(found->token.expire_time()) <= absl::ToUnixNanos(now)) {
    return Worthless("has expired");
  }
  *found->token.mutable_last_use_time() = TimestampOf(now);
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
