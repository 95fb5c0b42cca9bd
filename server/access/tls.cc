#include "server/access/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "server/log.h"

namespace hearth::server {
namespace {

// Seconds between two checks whether files have changed.
constexpr double kRefreshSeconds = 1;

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* pointer) const { Free(pointer); }
};
using Certificate = std::unique_ptr<X509, Freer<X509, X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY, EVP_PKEY_free>>;

struct BioFreer {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using File = std::unique_ptr<BIO, BioFreer>;

// No passphrase is asked for on a terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Status NotPem(const std::string& path, absl::string_view what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": holds no ", what, " in PEM form"));
}

absl::StatusOr<File> Open(const std::string& path) {
  File file(BIO_new_file(path.c_str(), "r"));
  if (file != nullptr) return file;
  const int error = errno;
  ERR_clear_error();
  return ErrnoStatus(error, path, "open");
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const File file, Open(path));
  Certificate certificate(
      PEM_read_bio_X509(file.get(), nullptr, NoPassphrase, nullptr));
  if (certificate == nullptr) return NotPem(path, "certificate");
  return certificate;
}

absl::StatusOr<Key> ReadKey(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path, "stat");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path,
        ": a private key that others than its owner may use: chmod 600 it"));
  }
  HEARTH_ASSIGN_OR_RETURN(const File file, Open(path));
  Key key(PEM_read_bio_PrivateKey(file.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) return NotPem(path, "private key without a passphrase");
  return key;
}

absl::Status CheckDates(const X509& certificate, const std::string& path,
                        absl::Time now) {
  std::time_t seconds = absl::ToTimeT(now);
  if (X509_cmp_time(X509_get0_notAfter(&certificate), &seconds) < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the certificate has expired"));
  }
  if (X509_cmp_time(X509_get0_notBefore(&certificate), &seconds) > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": the certificate is not valid yet"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files, absl::Time now) {
  HEARTH_ASSIGN_OR_RETURN(const Certificate certificate,
                          ReadCertificate(files.certificate));
  HEARTH_RETURN_IF_ERROR(CheckDates(*certificate, files.certificate, now));
  HEARTH_ASSIGN_OR_RETURN(const Key key, ReadKey(files.key));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::FailedPreconditionError(
        absl::StrCat(files.key, ": is not the key of the certificate in ",
                     files.certificate));
  }
  if (files.client_ca.empty()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const Certificate authority,
                          ReadCertificate(files.client_ca));
  HEARTH_RETURN_IF_ERROR(CheckDates(*authority, files.client_ca, now));
  if (X509_check_ca(authority.get()) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        files.client_ca, ": its certificate does not belong to an authority"));
  }
  return absl::OkStatus();
}

namespace {

using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX, SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freer<SSL, SSL_free>>;
using Names =
    std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES, GENERAL_NAMES_free>>;

// "h2" as an ALPN protocol list.
constexpr unsigned char kHttp2[] = {2, 'h', '2'};

int ChooseHttp2(SSL*, const unsigned char** chosen, unsigned char* chosen_bytes,
                const unsigned char* offered, unsigned int offered_bytes,
                void*) {
  unsigned char* name = nullptr;
  if (SSL_select_next_proto(&name, chosen_bytes, kHttp2, sizeof(kHttp2),
                            offered, offered_bytes) != OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = name;
  return SSL_TLSEXT_ERR_OK;
}

std::string TextOf(const ASN1_STRING& text) {
  return std::string(
      reinterpret_cast<const char*>(ASN1_STRING_get0_data(&text)),
      static_cast<size_t>(ASN1_STRING_length(&text)));
}

std::string CommonNameOf(const X509& certificate) {
  X509_NAME* subject = X509_get_subject_name(&certificate);
  const int index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (index < 0) return "";
  // UTF-8 whatever the encoding, so that no two names have the same bytes.
  unsigned char* utf8 = nullptr;
  const int bytes = ASN1_STRING_to_UTF8(
      &utf8, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)));
  if (bytes < 0) return "";
  std::string name(reinterpret_cast<const char*>(utf8),
                   static_cast<size_t>(bytes));
  OPENSSL_free(utf8);
  return name;
}

std::vector<std::string> UrisOf(const X509& certificate) {
  std::vector<std::string> uris;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    uris.push_back(TextOf(*name->d.uniformResourceIdentifier));
  }
  return uris;
}

class OpenSslWire final : public TlsWire {
 public:
  explicit OpenSslWire(Session session) : session_(std::move(session)) {}

  Result Read(absl::Span<char> out) override {
    size_t bytes = 0;
    ERR_clear_error();
    const int done =
        SSL_read_ex(session_.get(), out.data(), out.size(), &bytes);
    return ResultOf(done, bytes);
  }

  Result Write(absl::string_view data) override {
    size_t bytes = 0;
    ERR_clear_error();
    const int done =
        SSL_write_ex(session_.get(), data.data(), data.size(), &bytes);
    return ResultOf(done, bytes);
  }

  bool WaitsToWrite() const override { return waits_to_write_; }

  Credentials PeerCredentials() const override {
    Credentials peer = {.source = CallerSource::kTls};
    const Certificate certificate(SSL_get1_peer_certificate(session_.get()));
    if (certificate == nullptr) return peer;
    peer.certificate_name = CommonNameOf(*certificate);
    peer.certificate_uris = UrisOf(*certificate);
    return peer;
  }

 private:
  Result ResultOf(int done, size_t bytes) {
    waits_to_write_ = false;
    if (done == 1) return {.outcome = Outcome::kMoved, .bytes = bytes};
    switch (SSL_get_error(session_.get(), done)) {
      case SSL_ERROR_WANT_WRITE:
        waits_to_write_ = true;
        return {.outcome = Outcome::kBlocked};
      case SSL_ERROR_WANT_READ:
        return {.outcome = Outcome::kBlocked};
      case SSL_ERROR_ZERO_RETURN:
        return {.outcome = Outcome::kEnded};
      default:
        return {.outcome = Outcome::kBroken};
    }
  }

  const Session session_;
  bool waits_to_write_ = false;
};

absl::Status NotUsable(const std::string& path) {
  ERR_clear_error();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": TLS cannot be served with it"));
}

absl::Status AskForCertificates(SSL_CTX* context, const std::string& path) {
  if (SSL_CTX_load_verify_locations(context, path.c_str(), nullptr) != 1) {
    return NotUsable(path);
  }
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(path.c_str()));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  return absl::OkStatus();
}

// A context of either side with the own certificate.
absl::StatusOr<Context> NewContext(const TlsFiles& files,
                                   const SSL_METHOD* method) {
  Context context(SSL_CTX_new(method));
  if (context == nullptr) return NotUsable(files.certificate);
  SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20");
  // One operation in other groups takes up to 5 ms (ffdhe8192).
  SSL_CTX_set1_groups_list(context.get(), "X25519:P-256:P-384");
  // Each connection proves its identity itself: no resumption, no
  // renegotiation.
  SSL_CTX_set_options(context.get(),
                      SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  // A read takes one record, even one without data such as new keys.
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_default_passwd_cb(context.get(), NoPassphrase);
  if (SSL_CTX_use_certificate_chain_file(context.get(),
                                         files.certificate.c_str()) != 1) {
    return NotUsable(files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(),
                                  SSL_FILETYPE_PEM) != 1) {
    return NotUsable(files.key);
  }
  return context;
}

absl::StatusOr<Context> NewServerContext(const TlsFiles& files) {
  HEARTH_ASSIGN_OR_RETURN(Context context,
                          NewContext(files, TLS_server_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseHttp2, nullptr);
  if (!files.client_ca.empty()) {
    HEARTH_RETURN_IF_ERROR(AskForCertificates(context.get(), files.client_ca));
  }
  return context;
}

absl::StatusOr<Context> NewClientContext(const TlsFiles& files) {
  HEARTH_ASSIGN_OR_RETURN(Context context,
                          NewContext(files, TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  if (SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(),
                                    nullptr) != 1) {
    return NotUsable(files.client_ca);
  }
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

// A session of `context` on a socket; null without memory.
Session NewSession(SSL_CTX* context, int socket) {
  Session session(SSL_new(context));
  if (session == nullptr || SSL_set_fd(session.get(), socket) != 1) {
    ERR_clear_error();
    return nullptr;
  }
  return session;
}

// Values that change when a file does: inode, size, time of the last change.
std::vector<int64_t> StampsOf(const TlsFiles& files) {
  std::vector<int64_t> stamps;
  for (const std::string* path :
       {&files.certificate, &files.key, &files.client_ca}) {
    struct stat info {};
    if (stat(path->c_str(), &info) != 0) continue;
    stamps.insert(stamps.end(),
                  {static_cast<int64_t>(info.st_ino), info.st_size,
                   info.st_ctim.tv_sec, info.st_ctim.tv_nsec});
  }
  return stamps;
}

absl::Status NoMemory() {
  return absl::ResourceExhaustedError("no memory for TLS");
}

class OpenSslServer final : public TlsServer {
 public:
  OpenSslServer(const TlsFiles& files, const Clock& clock)
      : files_(files), clock_(clock) {}

  absl::Status ReadFiles() {
    std::vector<int64_t> stamps = StampsOf(files_);
    if (stamps == stamps_) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(CheckTlsFiles(files_, clock_.Now()));
    HEARTH_ASSIGN_OR_RETURN(context_, NewServerContext(files_));
    stamps_ = std::move(stamps);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<TlsWire>> NewWire(int socket) override {
    const double now = clock_.SteadySeconds();
    if (now - looked_at_ > kRefreshSeconds) {
      looked_at_ = now;
      if (const absl::Status status = ReadFiles(); !status.ok()) {
        LogWarning("TLS goes on with the files of before: ", status.message());
      }
    }
    Session session = NewSession(context_.get(), socket);
    if (session == nullptr) return NoMemory();
    SSL_set_accept_state(session.get());
    return std::make_unique<OpenSslWire>(std::move(session));
  }

 private:
  const TlsFiles files_;
  const Clock& clock_;
  Context context_;
  // Stamps of the files that `context_` was made of.
  std::vector<int64_t> stamps_;
  double looked_at_ = 0;
};

class OpenSslClient final : public TlsClient {
 public:
  explicit OpenSslClient(Context context) : context_(std::move(context)) {}

  absl::StatusOr<std::unique_ptr<TlsWire>> NewWire(
      int socket, const std::string& name) override {
    Session session = NewSession(context_.get(), socket);
    if (session == nullptr ||
        SSL_set_tlsext_host_name(session.get(), name.c_str()) != 1 ||
        SSL_set1_host(session.get(), name.c_str()) != 1) {
      ERR_clear_error();
      return NoMemory();
    }
    SSL_set_connect_state(session.get());
    return std::make_unique<OpenSslWire>(std::move(session));
  }

 private:
  const Context context_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TlsClient>> TlsClient::Make(
    const TlsFiles& files, absl::Time now) {
  HEARTH_RETURN_IF_ERROR(CheckTlsFiles(files, now));
  HEARTH_ASSIGN_OR_RETURN(Context context, NewClientContext(files));
  return std::make_unique<OpenSslClient>(std::move(context));
}

absl::StatusOr<std::unique_ptr<TlsServer>> TlsServer::Make(
    const TlsFiles& files, const Clock& clock) {
  auto server = std::make_unique<OpenSslServer>(files, clock);
  HEARTH_RETURN_IF_ERROR(server->ReadFiles());
  return server;
}

}  // namespace hearth::server
