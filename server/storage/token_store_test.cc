#include "server/storage/token_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "hearth/v1/admin.pb.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"
#include "server/storage/testing/faulty_vfs.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ManualClock final : public Clock {
 public:
  absl::Time Now() const override { return now; }
  double SteadySeconds() const override { return 0; }
  absl::Time now = absl::FromUnixSeconds(1'700'000'000);
};

class TokenStoreTest : public ::testing::Test {
 protected:
  TokenStoreTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Open();
  }

  void Open() {
    tokens_.reset();
    jobs_.reset();
    jobs_ = *JobStore::Open(files_, database_, clock_, [](const auto&) {},
                            {.vfs = vfs_.name()});
    auto tokens = TokenStore::Open(*jobs_, files_, marker_, clock_);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    tokens_ = *std::move(tokens);
  }

  absl::StatusOr<v1::NewToken> TryCreate(const std::string& name,
                                         uint64_t lifetime = 0,
                                         v1::Role role = v1::USER) {
    v1::CreateTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    request.set_lifetime_seconds(lifetime);
    return tokens_->Create(request);
  }

  std::string Create(const std::string& name, uint64_t lifetime = 0) {
    const auto made = TryCreate(name, lifetime);
    EXPECT_TRUE(made.ok()) << made.status();
    return made->secret();
  }

  std::string WhyNot(const std::string& secret) {
    const auto token = tokens_->Check(secret);
    EXPECT_EQ(token.status().code(), absl::StatusCode::kUnauthenticated)
        << token.status();
    EXPECT_THAT(std::string(token.status().message()),
                Not(HasSubstr(secret.empty() ? "hearth_" : secret)));
    return std::string(token.status().message());
  }

  const std::string folder_ = ::testing::TempDir() + "/token_store_test";
  const std::string database_ = folder_ + "/hearth.db";
  const std::string marker_ = folder_ + "/tokens_required";
  ManualClock clock_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  FaultyVfs vfs_{"token_store_test"};
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<TokenStore> tokens_;
};

TEST_F(TokenStoreTest, ASecretIsItsTokens) {
  EXPECT_FALSE(tokens_->required());
  const std::string secret = Create("ann");
  EXPECT_EQ(secret.size(), 7u + 64u);
  EXPECT_TRUE(absl::StartsWith(secret, "hearth_"));
  EXPECT_TRUE(tokens_->required());
  EXPECT_EQ(tokens_->Check(secret)->name(), "ann");
  EXPECT_EQ(tokens_->Check(secret)->role(), v1::USER);
  Open();
  EXPECT_TRUE(tokens_->required());
  EXPECT_EQ(tokens_->Check(secret)->name(), "ann");
}

TEST_F(TokenStoreTest, SecretsDiffer) {
  std::set<std::string> secrets;
  for (int i = 0; i < 100; ++i) {
    secrets.insert(Create("t" + std::to_string(i)));
  }
  EXPECT_EQ(secrets.size(), 100u);
}

TEST_F(TokenStoreTest, NoFileHoldsASecret) {
  const std::string secret = Create("ann");
  ASSERT_TRUE(tokens_->Check(secret).ok());
  ASSERT_TRUE(tokens_->SaveUses(true).ok());
  tokens_.reset();
  jobs_.reset();
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(absl::StrContains(bytes, secret)) << entry.path();
    EXPECT_FALSE(absl::StrContains(bytes, secret.substr(7))) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 2);
}

TEST_F(TokenStoreTest, WhatIsNotASecretIsRefused) {
  const std::string secret = Create("ann");
  for (const std::string& other :
       {std::string(), std::string("hearth_"), secret.substr(7),
        secret.substr(0, secret.size() - 1), secret + "0", " " + secret,
        std::string(71, '0'), std::string(1 << 20, 'x'),
        std::string("hearth_\0", 8)}) {
    EXPECT_THAT(WhyNot(other), HasSubstr("not one"));
  }
  std::string changed = secret;
  changed.back() = changed.back() == '0' ? '1' : '0';
  EXPECT_THAT(WhyNot(changed), HasSubstr("not one"));
}

TEST_F(TokenStoreTest, ATokenExpiresByTheClock) {
  const std::string secret = Create("ann", 60);
  clock_.now += absl::Seconds(59);
  EXPECT_TRUE(tokens_->Check(secret).ok());
  clock_.now += absl::Seconds(1);
  EXPECT_THAT(WhyNot(secret), HasSubstr("expired"));
  Open();
  EXPECT_THAT(WhyNot(secret), HasSubstr("expired"));
  EXPECT_EQ(TryCreate("ann").status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(TokenStoreTest, ARevokedTokenIsWorthlessAtOnceAndForGood) {
  const std::string secret = Create("ann");
  const auto revoked = tokens_->Revoke("ann");
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_TRUE(revoked->has_revoke_time());
  EXPECT_THAT(WhyNot(secret), HasSubstr("revoked"));
  Open();
  EXPECT_THAT(WhyNot(secret), HasSubstr("revoked"));
  EXPECT_TRUE(tokens_->Revoke("ann").ok());
  // Tokens are still required.
  EXPECT_TRUE(tokens_->required());
  EXPECT_EQ(tokens_->List().size(), 1u);
}

TEST_F(TokenStoreTest, ARevocationThatWasNotStoredIsStoredByTheNext) {
  const std::string secret = Create("ann");
  vfs_.Inject({.for_good = true, .effect = VfsEffect::kFull});
  EXPECT_FALSE(tokens_->Revoke("ann").ok());
  EXPECT_THAT(WhyNot(secret), HasSubstr("revoked"));
  EXPECT_FALSE(tokens_->Revoke("ann").ok());
  vfs_.Clear();
  const auto revoked = tokens_->Revoke("ann");
  ASSERT_TRUE(revoked.ok()) << revoked.status();
  EXPECT_TRUE(revoked->has_revoke_time());
  Open();
  EXPECT_THAT(WhyNot(secret), HasSubstr("revoked"));
}

TEST_F(TokenStoreTest, ARevokedNameIsFreeForAnotherSecret) {
  const std::string first = Create("ann");
  EXPECT_EQ(TryCreate("ann").status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(tokens_->Revoke("ann").ok());
  const std::string second = Create("ann");
  EXPECT_NE(first, second);
  EXPECT_THAT(WhyNot(first), HasSubstr("not one"));
  EXPECT_TRUE(tokens_->Check(second).ok());
}

TEST_F(TokenStoreTest, AnUnknownNameCannotBeRevoked) {
  EXPECT_EQ(tokens_->Revoke("bob").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(TokenStoreTest, BadRequestsNameTheField) {
  for (const std::string& name :
       {std::string(), std::string("a b"), std::string("a/b"),
        std::string("a\n"), std::string("\xc3\xa4"), std::string("a:b"),
        std::string(65, 'a')}) {
    const auto made = TryCreate(name);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("name"));
  }
  EXPECT_THAT(
      std::string(TryCreate("a", 0, v1::ROLE_UNSPECIFIED).status().message()),
      HasSubstr("role"));
  EXPECT_THAT(std::string(TryCreate("a", UINT64_MAX).status().message()),
              HasSubstr("lifetime_seconds"));
  EXPECT_FALSE(tokens_->required());
}

TEST_F(TokenStoreTest, LastUsesAreStoredOnceAMinuteAtMost) {
  const std::string secret = Create("ann");
  EXPECT_FALSE(tokens_->List()[0].has_last_use_time());
  ASSERT_TRUE(tokens_->Check(secret).ok());
  EXPECT_TRUE(tokens_->List()[0].has_last_use_time());
  ASSERT_TRUE(tokens_->SaveUses().ok());
  const auto first = tokens_->List()[0].last_use_time().seconds();
  clock_.now += absl::Seconds(30);
  ASSERT_TRUE(tokens_->Check(secret).ok());
  ASSERT_TRUE(tokens_->SaveUses().ok());
  EXPECT_EQ(tokens_->List()[0].last_use_time().seconds(), first + 30);
  Open();
  EXPECT_EQ(tokens_->List()[0].last_use_time().seconds(), first);
  ASSERT_TRUE(tokens_->Check(secret).ok());
  ASSERT_TRUE(tokens_->SaveUses(/*now=*/true).ok());
  Open();
  EXPECT_EQ(tokens_->List()[0].last_use_time().seconds(), first + 30);
}

// A lost database takes the tokens with it, but tokens are still required.
TEST_F(TokenStoreTest, WithoutItsDatabaseTokensAreStillRequired) {
  const std::string secret = Create("ann");
  tokens_.reset();
  jobs_.reset();
  for (const char* suffix : {"", "-wal", "-shm"})
    fs::remove(database_ + suffix);
  vfs_.Forget();
  Open();
  EXPECT_TRUE(tokens_->required());
  WhyNot(secret);
}

// The marker may be missing in a folder restored from an older backup.
TEST_F(TokenStoreTest, AMarkerThatIsMissingIsMadeAtTheStart) {
  Create("ann");
  fs::remove(marker_);
  Open();
  EXPECT_TRUE(tokens_->required());
  EXPECT_TRUE(fs::exists(marker_));
}

TEST_F(TokenStoreTest, WithoutTheMarkerNoTokenIsMade) {
  files_.Inject({.only = io::Operation::kRename});
  EXPECT_FALSE(TryCreate("ann").ok());
  EXPECT_EQ(files_.hits(), 1);
  files_.Clear();
  EXPECT_TRUE(tokens_->List().empty());
  EXPECT_FALSE(tokens_->required());
}

}  // namespace
}  // namespace hearth::server
