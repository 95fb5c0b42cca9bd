#include "client/tls.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace hearth::client {
namespace {

struct Freer {
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(BIO* p) const { BIO_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Freer>;

Owned<X509> Parse(const std::string& text) {
  const Owned<BIO> memory(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  return Owned<X509>(
      PEM_read_bio_X509(memory.get(), nullptr, nullptr, nullptr));
}

// Whether OpenSSL takes `leaf` for `purpose` (X509_PURPOSE_...) at `time`.
bool IsTrusted(const std::string& leaf, const std::string& authority,
               int purpose, absl::Time time) {
  const Owned<X509_STORE> store(X509_STORE_new());
  X509_STORE_add_cert(store.get(), Parse(authority).get());
  const Owned<X509> certificate = Parse(leaf);
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), certificate.get(), nullptr);
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_purpose(parameters, purpose);
  X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(time));
  return X509_verify_cert(context.get()) == 1;
}

class CertificatesTest : public ::testing::Test {
 protected:
  const absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  const absl::Duration day_ = absl::Hours(24);
  const KeyPair authority_ = *NewAuthority(now_);
};

TEST_F(CertificatesTest, AServersIsForItsHosts) {
  const auto server = NewServerCertificate(
      authority_, {"gpu-box.lab", "192.0.2.1", "::1"}, now_, day_);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(IsTrusted(server->certificate, authority_.certificate,
                        X509_PURPOSE_SSL_SERVER, now_));
  EXPECT_FALSE(IsTrusted(server->certificate, authority_.certificate,
                         X509_PURPOSE_SSL_CLIENT, now_));
  const Owned<X509> parsed = Parse(server->certificate);
  EXPECT_EQ(X509_check_host(parsed.get(), "gpu-box.lab", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_host(parsed.get(), "other.lab", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(parsed.get(), "192.0.2.1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(parsed.get(), "::1", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(parsed.get(), "192.0.2.2", 0), 0);
}

TEST_F(CertificatesTest, WhoKnowsASecretIsTrustedByAllWhoDo) {
  const std::string secret(32, 's');
  const auto ours = AuthorityOfSecret(secret, "night", now_);
  const auto theirs = AuthorityOfSecret(secret, "night", now_);
  ASSERT_TRUE(ours.ok()) << ours.status();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_EQ(ours->key, theirs->key);
  EXPECT_NE(ours->certificate, theirs->certificate);
  const auto member = NewMemberCertificate(*theirs, "node-1", now_, day_);
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_TRUE(IsTrusted(member->certificate, ours->certificate,
                        X509_PURPOSE_SSL_SERVER, now_));
  EXPECT_TRUE(IsTrusted(member->certificate, ours->certificate,
                        X509_PURPOSE_SSL_CLIENT, now_));
  for (const auto& other :
       {AuthorityOfSecret(secret, "day", now_),
        AuthorityOfSecret(std::string(32, 't'), "night", now_)}) {
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_FALSE(IsTrusted(member->certificate, other->certificate,
                           X509_PURPOSE_SSL_CLIENT, now_));
  }
}

// Members of all versions get along: the key of a secret never changes. This
// one was computed by Python's hmac, too: 0x60ff2021...001b.
TEST_F(CertificatesTest, TheKeyOfASecretIsFixed) {
  const auto authority = AuthorityOfSecret(std::string(32, 's'), "", now_);
  ASSERT_TRUE(authority.ok()) << authority.status();
  EXPECT_NE(authority->key.find("YP8gITtzZ12r53p6\n"
                                "lscuZ2Xg+saqTMxbKAHvNmN/ABuh"),
            std::string::npos);
}

TEST_F(CertificatesTest, AShortSecretIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      AuthorityOfSecret(std::string(31, 's'), "night", now_).status()));
}

TEST_F(CertificatesTest, AClientsIsForClientsAlone) {
  const auto client =
      NewClientCertificate(authority_, "ann", "user", now_, day_);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(IsTrusted(client->certificate, authority_.certificate,
                        X509_PURPOSE_SSL_CLIENT, now_));
  EXPECT_FALSE(IsTrusted(client->certificate, authority_.certificate,
                         X509_PURPOSE_SSL_SERVER, now_));
  EXPECT_EQ(X509_check_ca(Parse(client->certificate).get()), 0);
  EXPECT_EQ(X509_check_ca(Parse(authority_.certificate).get()), 1);
}

TEST_F(CertificatesTest, TheyExpire) {
  const auto client =
      NewClientCertificate(authority_, "ann", "user", now_, day_);
  const auto at = [&](absl::Time time) {
    return IsTrusted(client->certificate, authority_.certificate,
                     X509_PURPOSE_SSL_CLIENT, time);
  };
  EXPECT_TRUE(at(now_ + day_ - absl::Seconds(1)));
  EXPECT_FALSE(at(now_ + day_ + absl::Seconds(1)));
  EXPECT_FALSE(at(now_ - absl::Hours(1)));
}

TEST_F(CertificatesTest, AnotherAuthorityIsNotTrusted) {
  const KeyPair other = *NewAuthority(now_);
  const auto client =
      NewClientCertificate(other, "ann", "operator", now_, day_);
  EXPECT_FALSE(IsTrusted(client->certificate, authority_.certificate,
                         X509_PURPOSE_SSL_CLIENT, now_));
  // Signed in the authority's name, but by another key.
  const KeyPair mixed = {.certificate = authority_.certificate,
                         .key = other.key};
  EXPECT_FALSE(NewClientCertificate(mixed, "ann", "user", now_, day_).ok());
  // Signed by a client.
  const auto forged =
      NewClientCertificate(*client, "eve", "operator", now_, day_);
  ASSERT_TRUE(forged.ok());
  EXPECT_FALSE(IsTrusted(forged->certificate, authority_.certificate,
                         X509_PURPOSE_SSL_CLIENT, now_));
}

TEST_F(CertificatesTest, NamesCannotBringOtherNames) {
  for (const std::string& host :
       {std::string(), std::string("a b"), std::string("a,DNS:b"),
        std::string("a\nb"), std::string("*"), std::string("a/b")}) {
    EXPECT_FALSE(NewServerCertificate(authority_, {host}, now_, day_).ok());
  }
  EXPECT_FALSE(NewServerCertificate(authority_, {}, now_, day_).ok());
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a,b"),
        std::string("a/CN=b"), std::string(65, 'a')}) {
    EXPECT_FALSE(
        NewClientCertificate(authority_, name, "user", now_, day_).ok());
  }
  for (const char* role : {"", "root", "user,URI:x", "USER"}) {
    EXPECT_FALSE(
        NewClientCertificate(authority_, "ann", role, now_, day_).ok());
  }
}

TEST_F(CertificatesTest, AnAuthorityThatIsNoneIsRefused) {
  for (const KeyPair& authority :
       {KeyPair{}, KeyPair{.certificate = "x", .key = "y"},
        KeyPair{.certificate = authority_.certificate, .key = "y"}}) {
    EXPECT_FALSE(
        NewClientCertificate(authority, "ann", "user", now_, day_).ok());
  }
}

}  // namespace
}  // namespace hearth::client
