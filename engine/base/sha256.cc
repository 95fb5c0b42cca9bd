#include "engine/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"

namespace hearth {

struct Sha256::Context {
  Context() : digest(EVP_MD_CTX_new()) {}
  ~Context() { EVP_MD_CTX_free(digest); }
  EVP_MD_CTX* digest;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  EVP_DigestInit_ex(context_->digest, EVP_sha256(), nullptr);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(absl::Span<const std::byte> data) {
  EVP_DigestUpdate(context_->digest, data.data(), data.size());
}

void Sha256::Update(absl::string_view text) {
  EVP_DigestUpdate(context_->digest, text.data(), text.size());
}

std::string Sha256::HexDigest() const {
  Context copy;
  EVP_MD_CTX_copy_ex(copy.digest, context_->digest);
  std::array<unsigned char, 32> bytes;
  EVP_DigestFinal_ex(copy.digest, bytes.data(), nullptr);
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace hearth
