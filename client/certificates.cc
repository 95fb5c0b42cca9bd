#include "client/certificates.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace hearth::client {
namespace {

constexpr size_t kMaxNameLength = 64;
// Serial numbers have 20 bytes at most, and are positive.
constexpr int kSerialBits = 159;
// Clocks of other machines may be a little behind.
constexpr absl::Duration kBefore = absl::Minutes(5);

struct Freer {
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(BIGNUM* p) const { BN_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Freer>;

// OpenSSL's reasons are about its own state: what fails here has no cause that
// a user could mend.
absl::Status Failed(const char* what) {
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("OpenSSL: cannot make ", what));
}

struct Extension {
  int nid;
  std::string value;
};

struct Request {
  std::string common_name;
  std::vector<Extension> extensions;
  absl::Time now;
  absl::Duration lifetime;
};

std::string TextOf(BIO& memory) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&memory, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<std::string> CertificateText(X509& certificate) {
  const Owned<BIO> memory(BIO_new(BIO_s_mem()));
  if (memory == nullptr ||
      PEM_write_bio_X509(memory.get(), &certificate) != 1) {
    return Failed("a certificate");
  }
  return TextOf(*memory);
}

absl::StatusOr<std::string> KeyText(EVP_PKEY& key) {
  // Its memory is wiped when it is freed.
  const Owned<BIO> memory(BIO_new(BIO_s_secmem()));
  if (memory == nullptr ||
      PEM_write_bio_PrivateKey(memory.get(), &key, nullptr, nullptr, 0, nullptr,
                               nullptr) != 1) {
    return Failed("a key");
  }
  return TextOf(*memory);
}

absl::StatusOr<Owned<X509>> ParseCertificate(const std::string& text) {
  const Owned<BIO> memory(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Owned<X509> certificate(
      PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
  if (certificate != nullptr) return certificate;
  ERR_clear_error();
  return absl::InvalidArgumentError(
      "the authority's certificate is not in PEM form");
}

absl::StatusOr<Owned<EVP_PKEY>> ParseKey(const std::string& text) {
  const Owned<BIO> memory(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(
      memory.get(), nullptr, [](char*, int, int, void*) { return -1; },
      nullptr));
  if (key != nullptr) return key;
  ERR_clear_error();
  return absl::InvalidArgumentError(
      "the authority's key is not in PEM form, or has a passphrase");
}

bool SetTime(ASN1_TIME* time, absl::Time value) {
  return ASN1_TIME_set(time, absl::ToTimeT(value)) != nullptr;
}

bool SetSerial(X509& certificate) {
  const Owned<BIGNUM> serial(BN_new());
  return serial != nullptr &&
         BN_rand(serial.get(), kSerialBits, BN_RAND_TOP_ONE,
                 BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(),
                            X509_get_serialNumber(&certificate)) != nullptr;
}

bool SetName(X509& certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(
             X509_get_subject_name(&certificate), "CN", MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(name.data()),
             static_cast<int>(name.size()), -1, 0) == 1;
}

bool AddExtensions(X509& certificate, X509& issuer,
                   const std::vector<Extension>& extensions) {
  X509V3_CTX context{};
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  return std::all_of(
      extensions.begin(), extensions.end(), [&](const Extension& extension) {
        const Owned<X509_EXTENSION> made(X509V3_EXT_conf_nid(
            nullptr, &context, extension.nid, extension.value.c_str()));
        return made != nullptr &&
               X509_add_ext(&certificate, made.get(), -1) == 1;
      });
}

// A key and its certificate, signed by `issuer` with its key; by itself where
// that is null.
absl::StatusOr<KeyPair> Issue(const Request& request, X509* issuer,
                              EVP_PKEY* issuer_key) {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("a key");
  const Owned<X509> certificate(X509_new());
  if (certificate == nullptr) return Failed("a certificate");
  if (issuer == nullptr) issuer = certificate.get();
  if (issuer_key == nullptr) issuer_key = key.get();
  X509& made = *certificate;
  const bool ok =
      X509_set_version(&made, X509_VERSION_3) == 1 && SetSerial(made) &&
      SetTime(X509_getm_notBefore(&made), request.now - kBefore) &&
      SetTime(X509_getm_notAfter(&made), request.now + request.lifetime) &&
      SetName(made, request.common_name) &&
      X509_set_issuer_name(&made, X509_get_subject_name(issuer)) == 1 &&
      X509_set_pubkey(&made, key.get()) == 1 &&
      AddExtensions(made, *issuer, request.extensions) &&
      X509_sign(&made, issuer_key, EVP_sha256()) != 0;
  if (!ok) return Failed("a certificate");
  KeyPair pair;
  HEARTH_ASSIGN_OR_RETURN(pair.certificate, CertificateText(made));
  HEARTH_ASSIGN_OR_RETURN(pair.key, KeyText(*key));
  return pair;
}

absl::StatusOr<KeyPair> IssueBy(const KeyPair& authority,
                                const Request& request) {
  HEARTH_ASSIGN_OR_RETURN(const Owned<X509> issuer,
                          ParseCertificate(authority.certificate));
  HEARTH_ASSIGN_OR_RETURN(const Owned<EVP_PKEY> key, ParseKey(authority.key));
  if (X509_check_private_key(issuer.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        "the authority's key does not belong to its certificate");
  }
  return Issue(request, issuer.get(), key.get());
}

bool IsNumber(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

bool IsOf(const std::string& text, absl::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           others.find(c) != absl::string_view::npos;
  });
}

Request LeafRequest(const std::string& name, const char* usage,
                    const std::string& names, absl::Time now,
                    absl::Duration lifetime) {
  return {.common_name = name,
          .extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                         {NID_key_usage, "critical,digitalSignature"},
                         {NID_ext_key_usage, usage},
                         {NID_subject_alt_name, names},
                         {NID_subject_key_identifier, "hash"},
                         {NID_authority_key_identifier, "keyid:always"}},
          .now = now,
          .lifetime = lifetime};
}

}  // namespace

absl::StatusOr<KeyPair> NewAuthority(absl::Time now) {
  return Issue(
      {.common_name = "Hearth private authority",
       .extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                      {NID_key_usage, "critical,keyCertSign,cRLSign"},
                      {NID_subject_key_identifier, "hash"}},
       .now = now,
       .lifetime = kAuthorityLifetime},
      nullptr, nullptr);
}

absl::StatusOr<KeyPair> NewServerCertificate(
    const KeyPair& authority, const std::vector<std::string>& hosts,
    absl::Time now, absl::Duration lifetime) {
  if (hosts.empty()) {
    return absl::InvalidArgumentError("a server's certificate needs a host");
  }
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (!IsNumber(host) && !IsOf(host, "-.")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::Utf8SafeCEscape(host),
                       "\" is neither the name nor the number of a host"));
    }
    names.push_back(absl::StrCat(IsNumber(host) ? "IP:" : "DNS:", host));
  }
  return IssueBy(authority,
                 LeafRequest("hearthd", "serverAuth", absl::StrJoin(names, ","),
                             now, lifetime));
}

absl::StatusOr<KeyPair> NewClientCertificate(const KeyPair& authority,
                                             const std::string& name,
                                             const std::string& role,
                                             absl::Time now,
                                             absl::Duration lifetime) {
  if (!IsOf(name, "-_.@") || name.size() > kMaxNameLength) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::Utf8SafeCEscape(name),
        "\" is not a name of a client: it must be 1 to ", kMaxNameLength,
        " letters, digits, \"-\", \"_\", \".\" and \"@\""));
  }
  if (role != "viewer" && role != "user" && role != "operator") {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::Utf8SafeCEscape(role),
                     "\" is not a role: viewer, user or operator"));
  }
  return IssueBy(
      authority,
      LeafRequest(name, "clientAuth",
                  absl::StrCat("URI:urn:hearth:role:", role), now, lifetime));
}

}  // namespace hearth::client
