// Only OpenSSL's deprecated interface gives access to the state of a digest.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "engine/base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"

namespace hearth {
namespace {

// Bytes of a block of the hash. The part of the message after the last whole
// block waits.
constexpr size_t kBlockBytes = 64;

// Format of SaveState, little-endian: the hash's eight words, the message's
// length in bits, and the bytes that wait for a whole block, padded with zeros.
struct SavedState {
  uint32_t words[8];
  uint64_t bits;
  std::byte waiting[kBlockBytes];
};
static_assert(sizeof(SavedState) == Sha256::kStateBytes);

}  // namespace

struct Sha256::Context {
  SHA256_CTX digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  SHA256_Init(&context_->digest);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(absl::Span<const std::byte> data) {
  SHA256_Update(&context_->digest, data.data(), data.size());
}

void Sha256::Update(absl::string_view text) {
  SHA256_Update(&context_->digest, text.data(), text.size());
}

std::string Sha256::HexDigest() const {
  Context copy = *context_;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> bytes;
  SHA256_Final(bytes.data(), &copy.digest);
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bool Sha256::IsHexDigest(absl::string_view text) {
  return text.size() == 2 * SHA256_DIGEST_LENGTH &&
         text.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

std::string Sha256::SaveState() const {
  const SHA256_CTX& digest = context_->digest;
  SavedState saved = {};
  std::memcpy(saved.words, digest.h, sizeof(saved.words));
  saved.bits = uint64_t{digest.Nh} << 32 | digest.Nl;
  std::memcpy(saved.waiting, digest.data, digest.num);
  return std::string(reinterpret_cast<const char*>(&saved), sizeof(saved));
}

std::optional<Sha256> Sha256::Restore(absl::string_view state) {
  if (state.size() != kStateBytes) return std::nullopt;
  SavedState saved;
  std::memcpy(&saved, state.data(), sizeof(saved));
  if (saved.bits % 8 != 0) return std::nullopt;
  Sha256 restored;
  SHA256_CTX& digest = restored.context_->digest;
  std::memcpy(digest.h, saved.words, sizeof(saved.words));
  digest.Nh = static_cast<SHA_LONG>(saved.bits >> 32);
  digest.Nl = static_cast<SHA_LONG>(saved.bits);
  digest.num = static_cast<unsigned int>(saved.bits / 8 % kBlockBytes);
  std::memcpy(digest.data, saved.waiting, kBlockBytes);
  return restored;
}

absl::StatusOr<std::string> RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(random.data()),
                 static_cast<int>(bytes)) != 1) {
    return absl::UnavailableError("the machine has no random numbers to give");
  }
  return absl::BytesToHexString(random);
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace hearth
