#ifndef HEARTH_SERVER_STORAGE_TOKEN_STORE_H_
#define HEARTH_SERVER_STORAGE_TOKEN_STORE_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "hearth/v1/admin.pb.h"

namespace hearth::server {

class JobStore;

/// Tokens, in the database of the job store. Of a secret only its SHA-256 is
/// kept: secrets are 256 random bits, so nothing slower is needed against
/// guessing. Acknowledged calls survive kill -9 and power loss, except for the
/// last minute of last uses. Errors never hold a secret. Thread-safe.
class TokenStore {
 public:
  /// Reads the tokens. `marker` is the path of a file that exists once a token
  /// has been made, so that a lost database does not admit callers without one.
  /// All arguments must outlive the store.
  static absl::StatusOr<std::unique_ptr<TokenStore>> Open(JobStore& jobs,
                                                          io::FileSystem& files,
                                                          std::string marker,
                                                          const Clock& clock);

  /// Makes a token. INVALID_ARGUMENT, naming the field at fault; ALREADY_EXISTS
  /// for the name of a token that is not revoked; RESOURCE_EXHAUSTED beyond
  /// kMaxTokens.
  absl::StatusOr<v1::NewToken> Create(const v1::CreateTokenRequest& request)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  /// All tokens, by name, also revoked and expired ones.
  std::vector<v1::Token> List() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Revokes a token, from the return on. NOT_FOUND; other errors if it could
  /// not be stored: until another call stores it, the token is revoked for this
  /// run only.
  absl::StatusOr<v1::Token> Revoke(const std::string& name)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  /// Token of a secret; its last use is set to now. UNAUTHENTICATED if there is
  /// none, or if it was revoked or has expired. Its duration tells nothing
  /// about existing secrets. No I/O.
  absl::StatusOr<v1::Token> Check(absl::string_view secret)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether a token has ever been made.
  bool required() const { return required_; }

  /// Stores changed last uses, at most once a minute unless `now`.
  absl::Status SaveUses(bool now = false)
      ABSL_LOCKS_EXCLUDED(changing_, mutex_);

  static constexpr size_t kMaxTokens = 1000;
  static constexpr size_t kMaxNameLength = 64;
  /// Prefix of a secret, by which people and scanners recognize one.
  static constexpr absl::string_view kSecretPrefix = "hearth_";

 private:
  struct Entry {
    v1::Token token;
    // SHA-256 of the secret, 64 hexadecimal digits.
    std::string hash;
    bool is_use_saved = true;
    // Whether the database has the time of the revocation, if there is one.
    bool is_revocation_stored = true;
  };

  TokenStore(JobStore& jobs, io::FileSystem& files, std::string marker,
             const Clock& clock)
      : jobs_(jobs), files_(files), marker_(std::move(marker)), clock_(clock) {}

  absl::Status Load() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Mark();
  absl::Status Store(const Entry& entry);

  JobStore& jobs_;
  io::FileSystem& files_;
  const std::string marker_;
  const Clock& clock_;
  std::atomic<bool> required_ = false;
  // Held while tokens are changed; taken before `mutex_`.
  absl::Mutex changing_;
  absl::Time saved_ ABSL_GUARDED_BY(changing_) = absl::InfinitePast();
  // Not held during I/O.
  absl::Mutex mutex_;
  std::map<std::string, Entry> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_TOKEN_STORE_H_
