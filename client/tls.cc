#include "client/tls.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/params.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"

namespace hearth::client {

namespace {

constexpr size_t kMaxNameLength = 64;
// Serial numbers are positive and have at most 20 bytes.
constexpr int kSerialBits = 159;
// 16 more than a number of P-256 has.
constexpr size_t kKeyMaterialBytes = 48;
// Certificates begin this long ago: clocks of other machines may be behind.
constexpr absl::Duration kClockSlack = absl::Minutes(5);

struct Freer {
  void operator()(X509* p) const { X509_free(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
  void operator()(EC_GROUP* p) const { EC_GROUP_free(p); }
  void operator()(EC_POINT* p) const { EC_POINT_free(p); }
  void operator()(OSSL_PARAM_BLD* p) const { OSSL_PARAM_BLD_free(p); }
  void operator()(OSSL_PARAM* p) const { OSSL_PARAM_free(p); }
  void operator()(BIO* p) const { BIO_free(p); }
  void operator()(BIGNUM* p) const { BN_clear_free(p); }
  void operator()(BN_CTX* p) const { BN_CTX_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
  void operator()(addrinfo* p) const { freeaddrinfo(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Freer>;

// Status of a failed OpenSSL call, without OpenSSL's reason: none of these
// failures has a cause that a user could mend.
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
  // Secure memory is wiped when it is freed.
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

// The certificate of `key`, signed by `issuer` with `issuer_key`; self-signed
// where they are null.
absl::StatusOr<KeyPair> Issue(const Request& request,
                              const Owned<EVP_PKEY>& key, X509* issuer,
                              EVP_PKEY* issuer_key) {
  if (key == nullptr) return Failed("a key");
  const Owned<X509> certificate(X509_new());
  if (certificate == nullptr) return Failed("a certificate");
  if (issuer == nullptr) issuer = certificate.get();
  if (issuer_key == nullptr) issuer_key = key.get();
  X509& made = *certificate;
  const bool ok =
      X509_set_version(&made, X509_VERSION_3) == 1 && SetSerial(made) &&
      SetTime(X509_getm_notBefore(&made), request.now - kClockSlack) &&
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
  return Issue(request, Owned<EVP_PKEY>(EVP_EC_gen("P-256")), issuer.get(),
               key.get());
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

namespace {

absl::StatusOr<KeyPair> AuthorityOf(const Owned<EVP_PKEY>& key,
                                    absl::Time now) {
  return Issue(
      {.common_name = "Hearth private authority",
       .extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                      {NID_key_usage, "critical,keyCertSign,cRLSign"},
                      {NID_subject_key_identifier, "hash"}},
       .now = now,
       .lifetime = kAuthorityLifetime},
      key, nullptr, nullptr);
}

// `size` bytes that a secret and `run` give (HKDF with SHA-256, RFC 5869).
// Empty if OpenSSL fails.
std::string Derive(absl::string_view secret, absl::string_view run,
                   size_t size) {
  constexpr absl::string_view kPurpose = "hearth cluster authority";
  const auto bytes_of = [](absl::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  const Owned<EVP_PKEY_CTX> context(
      EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, nullptr));
  std::string derived(size, '\0');
  EVP_PKEY_CTX* const c = context.get();
  const bool ok =
      c != nullptr && EVP_PKEY_derive_init(c) == 1 &&
      EVP_PKEY_CTX_set_hkdf_md(c, EVP_sha256()) == 1 &&
      EVP_PKEY_CTX_set1_hkdf_key(c, bytes_of(secret),
                                 static_cast<int>(secret.size())) == 1 &&
      EVP_PKEY_CTX_set1_hkdf_salt(c, bytes_of(run),
                                  static_cast<int>(run.size())) == 1 &&
      EVP_PKEY_CTX_add1_hkdf_info(c, bytes_of(kPurpose),
                                  static_cast<int>(kPurpose.size())) == 1 &&
      EVP_PKEY_derive(c, reinterpret_cast<unsigned char*>(derived.data()),
                      &size) == 1;
  return ok ? derived : "";
}

// The key on P-256 that `bytes` give: a number from 1 to the group's order - 1,
// from 16 bytes more than it has (FIPS 186-5, A.2.1). Null if OpenSSL fails.
Owned<EVP_PKEY> KeyOf(absl::string_view bytes) {
  const Owned<EC_GROUP> group(EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const Owned<BIGNUM> number(
      BN_bin2bn(reinterpret_cast<const unsigned char*>(bytes.data()),
                static_cast<int>(bytes.size()), nullptr));
  const Owned<BN_CTX> scratch(BN_CTX_new());
  if (group == nullptr || number == nullptr || scratch == nullptr) {
    return nullptr;
  }
  const Owned<BIGNUM> most(BN_dup(EC_GROUP_get0_order(group.get())));
  const Owned<EC_POINT> point(EC_POINT_new(group.get()));
  if (most == nullptr || point == nullptr || BN_sub_word(most.get(), 1) != 1 ||
      BN_mod(number.get(), number.get(), most.get(), scratch.get()) != 1 ||
      BN_add_word(number.get(), 1) != 1 ||
      EC_POINT_mul(group.get(), point.get(), number.get(), nullptr, nullptr,
                   scratch.get()) != 1) {
    return nullptr;
  }
  std::string encoded(65, '\0');
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (EC_POINT_point2oct(group.get(), point.get(),
                         POINT_CONVERSION_UNCOMPRESSED,
                         reinterpret_cast<unsigned char*>(encoded.data()),
                         encoded.size(), scratch.get()) != encoded.size() ||
      builder == nullptr ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME,
                                      "P-256", 0) != 1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                       encoded.data(), encoded.size()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY,
                             number.get()) != 1) {
    return nullptr;
  }
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder.get()));
  const Owned<EVP_PKEY_CTX> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* made = nullptr;
  if (parameters == nullptr || context == nullptr ||
      EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &made, EVP_PKEY_KEYPAIR,
                        parameters.get()) != 1) {
    return nullptr;
  }
  return Owned<EVP_PKEY>(made);
}

}  // namespace

absl::StatusOr<KeyPair> NewAuthority(absl::Time now) {
  return AuthorityOf(Owned<EVP_PKEY>(EVP_EC_gen("P-256")), now);
}

absl::StatusOr<KeyPair> AuthorityOfSecret(absl::string_view secret,
                                          absl::string_view run,
                                          absl::Time now) {
  if (secret.size() < kLeastSecretBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a cluster's secret has at least ", kLeastSecretBytes,
                     " bytes, not ", secret.size()));
  }
  return AuthorityOf(KeyOf(Derive(secret, run, kKeyMaterialBytes)), now);
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

absl::StatusOr<KeyPair> NewMemberCertificate(const KeyPair& authority,
                                             const std::string& name,
                                             absl::Time now,
                                             absl::Duration lifetime) {
  if (!IsOf(name, "-_.") || name.size() > kMaxNameLength) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", absl::Utf8SafeCEscape(name),
        "\" is not a name of a member: it must be 1 to ", kMaxNameLength,
        " letters, digits, \"-\", \"_\" and \".\""));
  }
  return IssueBy(
      authority,
      LeafRequest(name, "serverAuth,clientAuth",
                  absl::StrCat("DNS:", name, ",URI:urn:hearth:member:", name),
                  now, lifetime));
}

// WhyTlsIsRefused makes a handshake as gRPC does:
//   1. connect; if nobody listens, TLS is not the cause;
//   2. shake hands, with the given authority and certificate, or without checks
//      for a connection that was not to be encrypted. A failure means that the
//      daemon's certificate is wrong, or that the daemon speaks no TLS;
//   3. read. In TLS 1.3 a daemon judges the client's certificate after the
//      handshake: it refuses by an alert or hangs up; otherwise gRPC's settings
//      come.

namespace {

constexpr int kConnectMs = 1000;
// Limit of each read and write.
constexpr timeval kPatience = {.tv_sec = 1, .tv_usec = 0};

// Parts of an address such as "gpu-box:7600" or "[::1]:7600"; the host is empty
// for other addresses.
struct HostAndPort {
  std::string host = {};
  std::string port = {};
};

HostAndPort Split(absl::string_view server) {
  for (const char* scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&server, scheme)) break;
  }
  const size_t colon = server.rfind(':');
  if (colon == server.npos || absl::StrContains(server, '/')) return {};
  absl::string_view host = server.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return {.host = std::string(host),
          .port = std::string(server.substr(colon + 1))};
}

// A connection to the first address that answers within kConnectMs; -1 if none
// does.
int Connect(const HostAndPort& server) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found) !=
      0) {
    return -1;
  }
  const Owned<addrinfo> addresses(found);
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    const int connection = socket(
        at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection < 0) continue;
    pollfd ready = {.fd = connection, .events = POLLOUT, .revents = 0};
    int error = 0;
    socklen_t size = sizeof(error);
    if ((connect(connection, at->ai_addr, at->ai_addrlen) == 0 ||
         errno == EINPROGRESS) &&
        poll(&ready, 1, kConnectMs) == 1 &&
        getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &size) == 0 &&
        error == 0) {
      // Reads and writes of the handshake block, up to kPatience.
      const int flags = fcntl(connection, F_GETFL);
      fcntl(connection, F_SETFL, flags & ~O_NONBLOCK);
      setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &kPatience,
                 sizeof(kPatience));
      setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &kPatience,
                 sizeof(kPatience));
      return connection;
    }
    close(connection);
  }
  return -1;
}

void TrustAuthorities(const std::string& pem, SSL_CTX& context) {
  const Owned<BIO> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  while (const Owned<X509> authority{
      PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(SSL_CTX_get_cert_store(&context), authority.get());
  }
}

void ShowCertificate(const ClientOptions& options, SSL_CTX& context) {
  const Owned<BIO> text(
      BIO_new_mem_buf(options.certificate.data(),
                      static_cast<int>(options.certificate.size())));
  const Owned<X509> own(
      PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr));
  if (own != nullptr) SSL_CTX_use_certificate(&context, own.get());
  while (X509* issuer =
             PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)) {
    if (SSL_CTX_add_extra_chain_cert(&context, issuer) != 1) X509_free(issuer);
  }
  const Owned<BIO> key_text(BIO_new_mem_buf(
      options.key.data(), static_cast<int>(options.key.size())));
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(key_text.get(), nullptr, nullptr, nullptr));
  if (key != nullptr) SSL_CTX_use_PrivateKey(&context, key.get());
}

// Called by OpenSSL when the daemon asks for a certificate and none is set.
int NoteRequest(SSL* connection, X509**, EVP_PKEY**) {
  *static_cast<bool*>(SSL_get_app_data(connection)) = true;
  return 0;
}

// Result of a handshake.
struct Handshake {
  bool is_done = false;
  // Whether the other side speaks TLS.
  bool is_tls = false;
  bool asks_for_certificate = false;
  // Why the daemon's certificate is not accepted; empty if it is.
  std::string fault = {};
};

Handshake Shake(const ClientOptions& options, const std::string& host,
                int connection) {
  Handshake result;
  const Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  if (context == nullptr) return result;
  if (!options.ca.empty()) {
    TrustAuthorities(options.ca, *context);
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  }
  if (!options.certificate.empty()) ShowCertificate(options, *context);
  SSL_CTX_set_client_cert_cb(context.get(), NoteRequest);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  const Owned<SSL> tls(SSL_new(context.get()));
  if (tls == nullptr || SSL_set_fd(tls.get(), connection) != 1) return result;
  SSL_set_app_data(tls.get(), &result.asks_for_certificate);
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls.get()), host.c_str()) !=
      1) {
    SSL_set_tlsext_host_name(tls.get(), host.c_str());
    SSL_set1_host(tls.get(), host.c_str());
  }
  const bool is_connected = SSL_connect(tls.get()) == 1;
  // The other side speaks TLS if it showed a certificate or sent an alert.
  const Owned<X509> shown(SSL_get1_peer_certificate(tls.get()));
  const int reason = ERR_GET_REASON(ERR_peek_error());
  result.is_tls = is_connected || shown != nullptr ||
                  SSL_get_verify_result(tls.get()) != X509_V_OK ||
                  reason >= SSL_AD_REASON_OFFSET;
  if (const long verified = SSL_get_verify_result(tls.get());
      !options.ca.empty() && verified != X509_V_OK) {
    result.fault = X509_verify_cert_error_string(verified);
  }
  char first = 0;
  result.is_done = is_connected && SSL_read(tls.get(), &first, 1) == 1;
  ERR_clear_error();
  return result;
}

std::string Explain(const ClientOptions& options, const Handshake& handshake) {
  if (handshake.is_done) {
    return options.ca.empty()
               ? "the daemon encrypts its connections, and this one was not to "
                 "be encrypted; give --ca, the authority that vouches for the "
                 "daemon"
               : "";
  }
  if (!handshake.is_tls) {
    return options.ca.empty()
               ? ""
               : "what listens there does not encrypt its connections; leave "
                 "out --ca, if it is hearthd without --tls-cert";
  }
  if (!handshake.fault.empty()) {
    return absl::StrCat(
        "the daemon's certificate was not accepted (", handshake.fault,
        "); --ca is to be the authority that made it, for the name or number "
        "by which the daemon is reached");
  }
  if (options.ca.empty()) {
    return absl::StrCat(
        "the daemon encrypts its connections, and this one was not to be "
        "encrypted; give --ca, the authority that vouches for the daemon",
        handshake.asks_for_certificate
            ? ", and --cert and --key, a client's certificate, for which the "
              "daemon asks"
            : "");
  }
  if (options.certificate.empty()) {
    if (!handshake.asks_for_certificate) return "";
    return "the daemon asks for a client's certificate (hearthd "
           "--tls-client-ca), and none was shown; give --cert and --key. A "
           "token in place of a certificate is not enough there";
  }
  return "the daemon did not accept the client's certificate; --cert and --key "
         "are to be of a client, in time, and made by the authority of hearthd "
         "--tls-client-ca";
}

}  // namespace

std::string WhyTlsIsRefused(const ClientOptions& options) {
  const HostAndPort server = Split(options.server);
  if (server.host.empty()) return "";
  const int connection = Connect(server);
  if (connection < 0) return "";
  const Handshake handshake =
      Shake(options, options.tls_name.empty() ? server.host : options.tls_name,
            connection);
  close(connection);
  return Explain(options, handshake);
}

}  // namespace hearth::client
