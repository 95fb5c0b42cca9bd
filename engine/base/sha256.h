#ifndef HEARTH_ENGINE_BASE_SHA256_H_
#define HEARTH_ENGINE_BASE_SHA256_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hearth {

/// SHA-256, by OpenSSL. Thread-compatible.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  /// Appends to the message.
  void Update(absl::Span<const std::byte> data);
  void Update(absl::string_view text);
  /// Appends values as text, with a delimiter behind them, so that lists of
  /// fields without ";" have equal messages only if they are equal.
  template <typename... Values>
  void AddField(const Values&... values) {
    Update(absl::StrCat(values..., ";"));
  }

  /// Digest of the message so far, 64 hexadecimal digits. Update may follow.
  std::string HexDigest() const;
  /// Whether `text` can be one, with small letters.
  static bool IsHexDigest(absl::string_view text);

  /// State after the message so far, kStateBytes bytes, for Restore.
  std::string SaveState() const;
  static constexpr size_t kStateBytes = 104;

  /// A digest that continues from `state`; nullopt if SaveState cannot have
  /// returned `state`.
  static std::optional<Sha256> Restore(absl::string_view state);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// `bytes` random bytes fit for secrets, as 2 * `bytes` hexadecimal digits.
/// UNAVAILABLE if the machine has no random numbers to give.
absl::StatusOr<std::string> RandomHex(size_t bytes);

/// Whether the texts are equal. Of texts of equal length, the time that it
/// takes tells nothing.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_SHA256_H_
