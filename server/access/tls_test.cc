#include "server/access/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "server/front/sockets.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HandClock final : public Clock {
 public:
  absl::Time Now() const override { return now; }
  double SteadySeconds() const override { return seconds; }
  absl::Time now = absl::Now();
  double seconds = 1;
};

// A key, and a certificate of it in its file.
struct Identity {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  Identity() = default;
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;
  ~Identity() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }
};

void AddExtension(X509* certificate, int nid, const std::string& value) {
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Certificate of `name`, signed by `issuer` (null = itself), valid for a day.
std::unique_ptr<Identity> NewIdentity(const std::string& name,
                                      const Identity* issuer,
                                      const std::string& names = "") {
  auto made = std::make_unique<Identity>();
  X509* const certificate = made->certificate;
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 24 * 60 * 60);
  X509_set_pubkey(certificate, made->key);
  X509_NAME_add_entry_by_txt(
      X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
      reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  const Identity& signer = issuer == nullptr ? *made : *issuer;
  X509_set_issuer_name(certificate, X509_get_subject_name(signer.certificate));
  if (issuer == nullptr) {
    AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  }
  if (!names.empty()) AddExtension(certificate, NID_subject_alt_name, names);
  X509_sign(certificate, signer.key, EVP_sha256());
  return made;
}

// Both ends of a connection in this thread; the client's uses OpenSSL.
class Connection {
 public:
  Connection(TlsServer& server, const Identity* client,
             const std::string& groups) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    wire_ = *server.NewWire(ends_[0]);
    context_ = SSL_CTX_new(TLS_client_method());
    EXPECT_EQ(SSL_CTX_set1_groups_list(context_, groups.c_str()), 1);
    if (client != nullptr) {
      SSL_CTX_use_certificate(context_, client->certificate);
      SSL_CTX_use_PrivateKey(context_, client->key);
    }
    session_ = SSL_new(context_);
    const unsigned char alpn[] = {2, 'h', '2'};
    SSL_set_alpn_protos(session_, alpn, sizeof(alpn));
    SSL_set_fd(session_, ends_[1]);
    SSL_set_connect_state(session_);
  }
  ~Connection() {
    SSL_free(session_);
    SSL_CTX_free(context_);
    wire_.reset();
    close(ends_[0]);
    close(ends_[1]);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Lets the client send a byte, and returns the server's result of reading it.
  Wire::Outcome Open() {
    Wire::Result read = {.outcome = Wire::Outcome::kBlocked};
    // A handshake takes few steps.
    for (int i = 0; i < 10 && read.outcome == Wire::Outcome::kBlocked; ++i) {
      SSL_write(session_, "!", 1);
      read = wire_->Read(absl::MakeSpan(piece_));
    }
    return read.outcome;
  }

  SSL* client() { return session_; }
  TlsWire& wire() { return *wire_; }
  Wire::Result Read() { return wire_->Read(absl::MakeSpan(piece_)); }
  // Name of the certificate that the server has shown.
  std::string ServerName() {
    char name[64] = {};
    X509* const shown = SSL_get1_peer_certificate(session_);
    X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName,
                              name, sizeof(name));
    X509_free(shown);
    return name;
  }

 private:
  int ends_[2] = {};
  std::unique_ptr<TlsWire> wire_;
  SSL_CTX* context_ = nullptr;
  SSL* session_ = nullptr;
  std::array<char, 1000> piece_ = {};
};

class TlsTest : public ::testing::Test {
 protected:
  TlsTest() {
    std::filesystem::create_directories(folder_);
    authority_ = NewIdentity("authority", nullptr);
    Write(*NewIdentity("the server", authority_.get()));
    FILE* const file = std::fopen(PathOf("ca").c_str(), "w");
    PEM_write_X509(file, authority_->certificate);
    std::fclose(file);
  }
  ~TlsTest() override { std::filesystem::remove_all(folder_); }

  std::string PathOf(const std::string& name) const {
    return folder_ + "/" + name;
  }

  // Replaces the server's files with `identity`.
  void Write(const Identity& identity) {
    FILE* file = std::fopen(PathOf("new").c_str(), "w");
    PEM_write_X509(file, identity.certificate);
    std::fclose(file);
    std::filesystem::rename(PathOf("new"), files_.certificate);
    file = std::fopen(PathOf("new").c_str(), "w");
    chmod(PathOf("new").c_str(), 0600);
    PEM_write_PrivateKey(file, identity.key, nullptr, nullptr, 0, nullptr,
                         nullptr);
    std::fclose(file);
    std::filesystem::rename(PathOf("new"), files_.key);
  }

  std::unique_ptr<Connection> Connect(
      const Identity* client = nullptr,
      const std::string& groups = "X25519:P-256") {
    if (server_ == nullptr) server_ = *TlsServer::Make(files_, clock_);
    return std::make_unique<Connection>(*server_, client, groups);
  }

  const std::string folder_ =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  TlsFiles files_ = {.certificate = folder_ + "/certificate",
                     .key = folder_ + "/key"};
  HandClock clock_;
  std::unique_ptr<Identity> authority_;
  std::unique_ptr<TlsServer> server_;
};

TEST_F(TlsTest, WithoutAnAuthorityNobodyIsAskedForACertificate) {
  const auto connection = Connect();
  EXPECT_EQ(connection->Open(), Wire::Outcome::kMoved);
  EXPECT_EQ(connection->wire().PeerCredentials().certificate_name, "");
  EXPECT_THAT(connection->wire().PeerCredentials().certificate_uris, IsEmpty());
}

// A handshake in other groups takes many times as long.
TEST_F(TlsTest, KeysAreExchangedInGroupsThatCostLittle) {
  for (const char* group : {"X25519", "P-256", "P-384"}) {
    EXPECT_EQ(Connect(nullptr, group)->Open(), Wire::Outcome::kMoved) << group;
  }
  for (const char* group : {"ffdhe8192", "ffdhe2048", "P-521", "X448"}) {
    EXPECT_EQ(Connect(nullptr, group)->Open(), Wire::Outcome::kBroken) << group;
  }
}

// A client can send new keys without end: other connections must get their
// turns.
TEST_F(TlsTest, AReadTakesOneRecordThatBringsNoBytes) {
  const auto connection = Connect();
  ASSERT_EQ(connection->Open(), Wire::Outcome::kMoved);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(
        SSL_key_update(connection->client(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(connection->client()), 1);
  }
  ASSERT_EQ(SSL_write(connection->client(), "!", 1), 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(connection->Read().outcome, Wire::Outcome::kBlocked);
  }
  EXPECT_EQ(connection->Read().outcome, Wire::Outcome::kMoved);
}

// Both sides of a connection by this library: a member that dials and one that
// is dialed, which both show certificates.
class MemberTlsTest : public TlsTest {
 protected:
  MemberTlsTest() { files_.client_ca = PathOf("ca"); }

  // The identity of a member, in the server's files.
  void BeMember(const std::string& name, const Identity& issuer) {
    Write(*NewIdentity(name, &issuer,
                       "DNS:" + name + ",URI:urn:hearth:member:" + name));
  }

  // Connects a client with the files as they are to a server with them as they
  // were at `server_`; the member that the server has seen, or the outcome.
  std::string Meet(const std::string& expected_name) {
    const auto client = TlsClient::Make(files_, clock_.now);
    EXPECT_TRUE(client.ok()) << client.status();
    SocketPair ends = *NewSocketPair();
    const auto dialing = *(*client)->NewWire(ends.one.get(), expected_name);
    const auto dialed = *server_->NewWire(ends.other.get());
    std::array<char, 100> piece = {};
    Wire::Result said = {.outcome = Wire::Outcome::kBlocked};
    Wire::Result heard = {.outcome = Wire::Outcome::kBlocked};
    for (int i = 0; i < 10 && heard.outcome == Wire::Outcome::kBlocked; ++i) {
      if (said.outcome == Wire::Outcome::kBlocked) said = dialing->Write("!");
      if (said.outcome == Wire::Outcome::kBroken)
        return "refused by the client";
      heard = dialed->Read(absl::MakeSpan(piece));
    }
    if (heard.outcome != Wire::Outcome::kMoved) return "refused by the server";
    const auto server = MemberOf(dialing->PeerCredentials());
    EXPECT_EQ(server.value_or("?"), expected_name);
    return MemberOf(dialed->PeerCredentials()).value_or("no member");
  }
};

TEST_F(MemberTlsTest, MembersMeet) {
  BeMember("host-b", *authority_);
  server_ = *TlsServer::Make(files_, clock_);
  BeMember("host-a", *authority_);
  EXPECT_EQ(Meet("host-b"), "host-a");
}

TEST_F(MemberTlsTest, AServerOfAnotherNameIsRefused) {
  BeMember("host-c", *authority_);
  server_ = *TlsServer::Make(files_, clock_);
  BeMember("host-a", *authority_);
  EXPECT_EQ(Meet("host-b"), "refused by the client");
}

TEST_F(MemberTlsTest, CertificatesOfAnotherAuthorityAreRefused) {
  const auto stranger = NewIdentity("authority", nullptr);
  BeMember("host-b", *authority_);
  server_ = *TlsServer::Make(files_, clock_);
  BeMember("host-a", *stranger);
  EXPECT_EQ(Meet("host-b"), "refused by the server");
  BeMember("host-b", *stranger);
  server_ = *TlsServer::Make(files_, clock_);
  BeMember("host-a", *authority_);
  EXPECT_EQ(Meet("host-b"), "refused by the client");
}

}  // namespace
}  // namespace hearth::server
