#include "server/access/access_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "hearth/v1/access.pb.h"
#include "server/access/access_fixture.h"
#include "server/access/audit_log.h"
#include "server/access/caller.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kView[] = "/hearth.v1.Jobs/GetJob";
constexpr char kUse[] = "/hearth.v1.Jobs/SubmitJob";
constexpr char kOperate[] = "/hearth.v1.Admin/SetDraining";

class AccessControlTest : public AccessTest {
 protected:
  AccessControlTest() : AccessTest("access_control_test") {}

  std::string NewToken(const std::string& name, v1::Role role) {
    v1::CreateTokenRequest request;
    request.set_name(name);
    request.set_role(role);
    return tokens_->Create(request)->secret();
  }

  static Credentials Bearer(const std::string& secret,
                            Entrance entrance = Entrance::kTls) {
    return {.entrance = entrance, .authorization = "Bearer " + secret};
  }

  static Credentials Certificate(std::vector<std::string> uris) {
    return {.entrance = Entrance::kTls,
            .certificate_name = "ann",
            .certificate_uris = std::move(uris)};
  }

  absl::StatusCode CodeOf(const Credentials& credentials,
                          absl::string_view path = kView) {
    return access_->CheckMethod(credentials, path).code();
  }

  std::string Audit() const {
    std::ifstream file(folder_ + "/audit.log");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(AccessControlTest, EachRoleMayWhatThoseBelowItMay) {
  const std::string viewer = NewToken("v", v1::VIEWER);
  const std::string user = NewToken("u", v1::USER);
  const std::string op = NewToken("o", v1::OPERATOR);
  const auto kOk = absl::StatusCode::kOk;
  const auto kNo = absl::StatusCode::kPermissionDenied;
  EXPECT_EQ(CodeOf(Bearer(viewer), kView), kOk);
  EXPECT_EQ(CodeOf(Bearer(viewer), kUse), kNo);
  EXPECT_EQ(CodeOf(Bearer(viewer), kOperate), kNo);
  EXPECT_EQ(CodeOf(Bearer(user), kView), kOk);
  EXPECT_EQ(CodeOf(Bearer(user), kUse), kOk);
  EXPECT_EQ(CodeOf(Bearer(user), kOperate), kNo);
  EXPECT_EQ(CodeOf(Bearer(op), kView), kOk);
  EXPECT_EQ(CodeOf(Bearer(op), kUse), kOk);
  EXPECT_EQ(CodeOf(Bearer(op), kOperate), kOk);
}

TEST_F(AccessControlTest, AMethodWithoutARoleIsForNobody) {
  const Credentials op = Bearer(NewToken("o", v1::OPERATOR));
  EXPECT_EQ(CodeOf(op, "/hearth.v1.Jobs/Nothing"),
            absl::StatusCode::kUnimplemented);
  EXPECT_EQ(CodeOf(op, "/other.Service/Method"),
            absl::StatusCode::kUnimplemented);
  // Who is nobody does not learn which methods there are.
  EXPECT_EQ(CodeOf({.entrance = Entrance::kTls}, "/other.Service/Method"),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, LoopbackIsAnOperatorsUntilATokenIsMade) {
  const Credentials loopback = {.entrance = Entrance::kLoopback};
  EXPECT_EQ(access_->Identify(loopback)->name, "local");
  EXPECT_EQ(CodeOf(loopback, kOperate), absl::StatusCode::kOk);
  const std::string secret = NewToken("ann", v1::USER);
  EXPECT_EQ(CodeOf(loopback), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(access_->Identify(Bearer(secret, Entrance::kLoopback))->name,
            "token:ann");
  ASSERT_TRUE(tokens_->Revoke("ann").ok());
  EXPECT_EQ(CodeOf(loopback), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, OverTheSocketTheUserCounts) {
  NewToken("ann", v1::USER);
  const auto own =
      access_->Identify({.entrance = Entrance::kSocket, .uid = geteuid()});
  EXPECT_EQ(own->name, absl::StrCat("uid:", geteuid()));
  EXPECT_EQ(own->role, v1::OPERATOR);
  EXPECT_EQ(access_->Identify({.entrance = Entrance::kSocket, .uid = 0})->role,
            v1::OPERATOR);
  const auto other =
      access_->Identify({.entrance = Entrance::kSocket, .uid = geteuid() + 1});
  EXPECT_EQ(other->role, v1::USER);
  EXPECT_EQ(CodeOf({.entrance = Entrance::kSocket}),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, ATokenCountsMoreThanTheSocket) {
  const std::string secret = NewToken("ann", v1::VIEWER);
  Credentials credentials = Bearer(secret, Entrance::kSocket);
  credentials.uid = geteuid();
  EXPECT_EQ(access_->Identify(credentials)->role, v1::VIEWER);
  credentials.authorization = "Bearer wrong";
  EXPECT_EQ(CodeOf(credentials), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, StrangersAreRefused) {
  NewToken("ann", v1::USER);
  // Over TLS a user id proves nothing.
  EXPECT_EQ(CodeOf({.entrance = Entrance::kTls, .uid = 0}),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({.entrance = Entrance::kTls}),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({.entrance = Entrance::kLoopback,
                    .certificate_name = "ann",
                    .certificate_uris = {"urn:hearth:role:operator"}}),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, ACertificateNamesItsRole) {
  const auto caller =
      access_->Identify(Certificate({"https://x", "urn:hearth:role:user"}));
  EXPECT_EQ(caller->name, "certificate:ann");
  EXPECT_EQ(caller->role, v1::USER);
  EXPECT_EQ(access_->Identify(Certificate({"urn:hearth:role:operator"}))->role,
            v1::OPERATOR);
}

TEST_F(AccessControlTest, ACertificateWithoutOneClearRoleIsNobodys) {
  for (const std::vector<std::string>& uris :
       std::vector<std::vector<std::string>>{
           {},
           {"urn:hearth:role:"},
           {"urn:hearth:role:root"},
           {"urn:hearth:role:role_unspecified"},
           {"urn:hearth:role:operator "},
           {"urn:hearth:role:operator/x"},
           {"URN:hearth:role:operator"},
           {"x-urn:hearth:role:operator"},
           {"urn:hearth:role:3"},
           {"urn:hearth:role:user", "urn:hearth:role:operator"},
           {"urn:hearth:role:user", "urn:hearth:role:user"}}) {
    EXPECT_EQ(CodeOf(Certificate(uris)), absl::StatusCode::kUnauthenticated);
  }
  Credentials nameless = Certificate({"urn:hearth:role:user"});
  nameless.certificate_name = "";
  EXPECT_EQ(CodeOf(nameless), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, MalformedAuthorizationsAreRefused) {
  const std::string secret = NewToken("ann", v1::OPERATOR);
  for (const std::string& text :
       {std::string(), secret, "bearer " + secret, "Bearer" + secret,
        "Bearer  " + secret, "Basic " + secret, "Bearer " + secret + " ",
        "Bearer " + secret + ",x", std::string("Bearer "), "Token " + secret}) {
    Credentials credentials;
    credentials.authorization = text;
    const absl::Status status = access_->CheckMethod(credentials, kView);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(secret)));
  }
  EXPECT_THAT(Audit(), Not(HasSubstr(secret)));
  EXPECT_THAT(Audit(), HasSubstr("UNAUTHENTICATED"));
}

TEST_F(AccessControlTest, RefusalsAreInTheAuditLog) {
  const std::string viewer = NewToken("v", v1::VIEWER);
  access_->CheckMethod(Bearer(viewer), kView).IgnoreError();
  EXPECT_EQ(Audit(), "");
  access_->CheckMethod(Bearer(viewer), kUse).IgnoreError();
  EXPECT_THAT(Audit(), HasSubstr("token:v"));
  EXPECT_THAT(Audit(), HasSubstr("Jobs/SubmitJob"));
  EXPECT_THAT(Audit(), HasSubstr("PERMISSION_DENIED"));
}

TEST_F(AccessControlTest, UsersChangeTheirOwnAlone) {
  v1::JobSpec spec;
  spec.mutable_train();
  const std::string id =
      jobs_->Submit("", spec, 0, {.owner = "token:ann"})->id();
  const std::string nobodys = jobs_->Submit("", spec)->id();
  const Caller ann = {.name = "token:ann", .role = v1::USER};
  const Caller bob = {.name = "token:bob", .role = v1::USER};
  const Caller nameless = {.name = "", .role = v1::USER};
  const Caller op = {.name = "uid:0", .role = v1::OPERATOR};
  const auto code = [&](const Caller& caller, const std::string& job) {
    return access_->CheckOwner(caller, v1::Access::JOB, job).code();
  };
  EXPECT_EQ(code(ann, id), absl::StatusCode::kOk);
  EXPECT_EQ(code(op, id), absl::StatusCode::kOk);
  EXPECT_EQ(code(bob, id), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(ann, nobodys), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(nameless, nobodys), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(op, nobodys), absl::StatusCode::kOk);
  EXPECT_EQ(code(ann, "train-99"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(op, "train-99"), absl::StatusCode::kNotFound);
  SweepStep step;
  step.sweep.set_owner("token:ann");
  ASSERT_TRUE(sweeps_->Add("", step).ok());
  const auto sweep_code = [&](const Caller& caller) {
    return access_->CheckOwner(caller, v1::Access::SWEEP, step.sweep.id())
        .code();
  };
  EXPECT_EQ(sweep_code(ann), absl::StatusCode::kOk);
  EXPECT_EQ(sweep_code(op), absl::StatusCode::kOk);
  EXPECT_EQ(sweep_code(bob), absl::StatusCode::kPermissionDenied);
}

// A job reads and writes with the rights of the daemon's user.
TEST_F(AccessControlTest, WithoutRootsOnlyOperatorsNameFolders) {
  const Caller user = {.name = "uid:1000", .role = v1::USER};
  const Caller op = {.name = "uid:0", .role = v1::OPERATOR};
  v1::JobSpec import, generate, export_dataset, export_model, named, train;
  import.mutable_import()->set_path("/home/somebody");
  generate.mutable_generate()->set_destination("/home/somebody/x");
  export_dataset.mutable_export_dataset()->set_destination("/x");
  export_model.mutable_export_()->set_destination("/x");
  named.mutable_generate()->set_name("planted");
  train.mutable_train();
  const auto why_not = [&](const v1::JobSpec& spec, bool import_roots,
                           bool export_roots) {
    AccessControl access(AccessParts{.tokens = *tokens_,
                                     .jobs = *jobs_,
                                     .sweeps = *sweeps_,
                                     .uploads = *uploads_,
                                     .audit = *audit_,
                                     .has_import_roots = import_roots,
                                     .has_export_roots = export_roots});
    EXPECT_TRUE(access.CheckFolders(op, spec).ok());
    const absl::Status status = access.CheckFolders(user, spec);
    EXPECT_TRUE(status.ok() || absl::IsPermissionDenied(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(why_not(import, false, true), HasSubstr("--import-root"));
  EXPECT_EQ(why_not(import, true, false), "");
  for (const v1::JobSpec& spec : {generate, export_dataset, export_model}) {
    EXPECT_THAT(why_not(spec, true, false), HasSubstr("--export-root"));
    EXPECT_EQ(why_not(spec, false, true), "");
  }
  EXPECT_EQ(why_not(named, false, false), "");
  EXPECT_EQ(why_not(train, false, false), "");
}

}  // namespace
}  // namespace hearth::server
