#include "server/access/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cerrno>
#include <ctime>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

constexpr unsigned kRefreshSeconds = 5;

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
        files.client_ca, ": its certificate is not that of an authority"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> NewTlsCredentials(
    const TlsFiles& files) {
  using grpc::experimental::FileWatcherCertificateProvider;
  const auto provider = std::make_shared<FileWatcherCertificateProvider>(
      files.key, files.certificate, files.client_ca, kRefreshSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace hearth::server
