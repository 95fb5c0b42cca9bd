#include "server/access/access_control.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/manual_clock.h"
#include "hearth/v1/access.pb.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/peers.pb.h"
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/access/access_fixture.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"

namespace hearth::server {

namespace {

using google::protobuf::MethodDescriptor;

// Every method of the contract by its path.
std::map<std::string, const MethodDescriptor*> AllMethods() {
  std::map<std::string, const MethodDescriptor*> methods;
  for (const auto* message :
       {v1::Status::descriptor(), v1::Dataset::descriptor(),
        v1::Job::descriptor(), v1::Plan::descriptor(), v1::Sweep::descriptor(),
        v1::RankStart::descriptor()}) {
    const auto* file = message->file();
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        const auto* method = file->service(i)->method(j);
        methods["/" + method->service()->full_name() + "/" + method->name()] =
            method;
      }
    }
  }
  return methods;
}

TEST(MethodAccessTest, EveryMethodNamesItsLeastRole) {
  const auto methods = AllMethods();
  EXPECT_GE(methods.size(), 30u);
  for (const auto& [path, method] : methods) {
    const auto access = AccessOf(path);
    ASSERT_TRUE(access.has_value()) << path;
    EXPECT_NE(access->least_role(), v1::ROLE_UNSPECIFIED) << path;
  }
}

// Methods that change nothing are for viewers, all others are not.
TEST(MethodAccessTest, ViewersOnlySee) {
  for (const auto& [path, method] : AllMethods()) {
    const std::string& name = method->name();
    bool only_sees = false;
    for (const char* verb : {"Get", "List", "Watch", "Tail"}) {
      only_sees |= name.rfind(verb, 0) == 0;
    }
    // Names of tokens are names of people.
    if (name == "ListTokens") only_sees = false;
    // Members of a cluster have no roles.
    if (AccessOf(path)->peers()) continue;
    EXPECT_EQ(AccessOf(path)->least_role() == v1::VIEWER, only_sees) << path;
  }
}

// A request that changes one job or sweep is marked as such, and has an id.
TEST(MethodAccessTest, WhatHasAnOwnerHasAnId) {
  int owned = 0;
  for (const auto& [path, method] : AllMethods()) {
    const auto* id = method->input_type()->FindFieldByName("id");
    const auto access = AccessOf(path);
    const bool changes = access->changes() != v1::Access::OWNED_UNSPECIFIED;
    EXPECT_EQ(changes, access->least_role() == v1::USER && id != nullptr)
        << path;
    owned += changes ? 1 : 0;
  }
  EXPECT_GE(owned, 9);
}

TEST(MethodAccessTest, RequestsBelongToOneMethodEach) {
  std::set<const google::protobuf::Descriptor*> requests;
  for (const auto& [path, method] : AllMethods()) {
    EXPECT_TRUE(requests.insert(method->input_type()).second) << path;
    EXPECT_EQ(MethodOf(*method->input_type()), method) << path;
  }
  EXPECT_EQ(MethodOf(*v1::Job::descriptor()), nullptr);
}

TEST(MethodAccessTest, WhatIsNotInTheContractIsForNobody) {
  for (const char* path :
       {"", "/", "hearth.v1.Jobs/GetJob", "/hearth.v1.Jobs/GetJobs",
        "/hearth.v1.Jobs/GetJob/", "/hearth.v1.Jobs//GetJob",
        "/hearth.v2.Jobs/GetJob", "/hearth.v1.Job/state", "/hearth.v1.",
        "/grpc.channelz.v1.Channelz/x", "/grpc.health.v1.Health",
        "/hearth.v1.jobs/GetJob"}) {
    EXPECT_FALSE(AccessOf(path).has_value()) << path;
  }
}

TEST(MethodAccessTest, HealthAndReflectionAreForAllWhoAreSomebody) {
  EXPECT_EQ(AccessOf("/grpc.health.v1.Health/Check")->least_role(), v1::VIEWER);
  EXPECT_EQ(AccessOf("/grpc.reflection.v1alpha.ServerReflection/"
                     "ServerReflectionInfo")
                ->least_role(),
            v1::VIEWER);
}

TEST(MethodAccessTest, NamesAreShort) {
  EXPECT_EQ(MethodName("/hearth.v1.Jobs/GetJob"), "Jobs/GetJob");
  EXPECT_EQ(MethodName("/other/x"), "/other/x");
}

namespace fs = std::filesystem;

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  static std::vector<nlohmann::json> Lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) {
      lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }

  const std::string folder_ = ::testing::TempDir() + "/audit_log_test";
  const std::string path_ = folder_ + "/audit.log";
  const Caller caller_ = {.name = "token:ann", .role = v1::USER};
};

TEST_F(AuditLogTest, ALineTellsWhoDidWhatToWhichJobWithWhichResult) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  log->Write(caller_, "Jobs/CancelJob", "train-7", absl::StatusCode::kOk);
  log->Write({}, "Jobs/GetJob", "", absl::StatusCode::kUnauthenticated);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["caller"], "token:ann");
  EXPECT_EQ(lines[0]["role"], "USER");
  EXPECT_EQ(lines[0]["method"], "Jobs/CancelJob");
  EXPECT_EQ(lines[0]["target"], "train-7");
  EXPECT_EQ(lines[0]["result"], "OK");
  EXPECT_EQ(lines[0]["time"].get<std::string>().size(), 24u);
  EXPECT_EQ(lines[1]["caller"], "");
  EXPECT_EQ(lines[1]["role"], "");
  EXPECT_EQ(lines[1]["result"], "UNAUTHENTICATED");
}

TEST_F(AuditLogTest, NoTextForgesALine) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  log->Write({.name = "certificate:x\"}\n{", .role = v1::VIEWER}, "a\nb",
             "\xff\x1b[2J\n", absl::StatusCode::kOk);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["caller"], "certificate:x\"}\n{");
}

TEST_F(AuditLogTest, ACallOfATraceNamesIt) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  Caller caller = caller_;
  log->Write(caller, "a", "", absl::StatusCode::kOk);
  caller.trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  log->Write(caller, "b", "", absl::StatusCode::kOk);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_FALSE(lines[0].contains("trace_id"));
  EXPECT_EQ(lines[1]["trace_id"], caller.trace_id);
}

TEST_F(AuditLogTest, OnlyItsOwnerReadsIt) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AuditLogTest, AnotherRunGoesOnAtTheEnd) {
  (*AuditLog::Open(path_, Clock::Real()))
      ->Write(caller_, "a", "", absl::StatusCode::kOk);
  (*AuditLog::Open(path_, Clock::Real()))
      ->Write(caller_, "b", "", absl::StatusCode::kOk);
  EXPECT_EQ(Lines(path_).size(), 2u);
}

TEST_F(AuditLogTest, AFileThatIsRotatedIsBegunAnew) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  log->Write(caller_, "a", "", absl::StatusCode::kOk);
  fs::rename(path_, path_ + ".1");
  log->Write(caller_, "b", "", absl::StatusCode::kOk);
  fs::remove(path_);
  log->Write(caller_, "c", "", absl::StatusCode::kOk);
  EXPECT_EQ(Lines(path_ + ".1").size(), 1u);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["method"], "c");
}

TEST_F(AuditLogTest, StrangersDoNotFillTheDisk) {
  ManualClock clock;
  const auto log = *AuditLog::Open(path_, clock);
  const auto refuse = [&] {
    log->Write({}, "Jobs/GetJob", "", absl::StatusCode::kUnauthenticated);
  };
  for (int i = 0; i < AuditLog::kFailuresPerMinute + 7; ++i) refuse();
  EXPECT_EQ(Lines(path_).size(), 600u);
  // Later calls are written nevertheless.
  log->Write(caller_, "Jobs/CancelJob", "train-7", absl::StatusCode::kOk);
  auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 601u);
  EXPECT_EQ(lines.back()["failures_left_out"], 7);
  clock.seconds += 60;
  refuse();
  lines = Lines(path_);
  ASSERT_EQ(lines.size(), 602u);
  EXPECT_FALSE(lines.back().contains("failures_left_out"));
}

TEST_F(AuditLogTest, ACallerWhoseCallsFailFillsNeitherTheDiskNorTheLog) {
  ManualClock clock;
  const auto log = *AuditLog::Open(path_, clock);
  const Caller other = {.name = "token:bob", .role = v1::USER};
  for (int i = 0; i < AuditLog::kFailuresPerMinute + 7; ++i) {
    log->Write(caller_, "Jobs/CancelJob", "no-job",
               absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(Lines(path_).size(), 600u);
  log->Write(other, "Jobs/CancelJob", "train-7",
             absl::StatusCode::kPermissionDenied);
  log->Write({}, "Jobs/GetJob", "", absl::StatusCode::kUnauthenticated);
  log->Write(caller_, "Jobs/CancelJob", "train-7", absl::StatusCode::kOk);
  const auto lines = Lines(path_);
  ASSERT_EQ(lines.size(), 603u);
  EXPECT_EQ(lines[600]["caller"], "token:bob");
  EXPECT_EQ(lines[600]["failures_left_out"], 7);
}

TEST_F(AuditLogTest, AFolderThatIsMissingIsTold) {
  const auto log = AuditLog::Open(folder_ + "/no/audit.log", Clock::Real());
  EXPECT_EQ(log.status().code(), absl::StatusCode::kNotFound);
}

// The call whose line is lost goes on; the next line is whole.
TEST_F(AuditLogTest, ALineThatCannotBeWrittenHarmsNoOther) {
  const auto log = *AuditLog::Open(path_, Clock::Real());
  fs::rename(folder_, folder_ + ".away");
  log->Write(caller_, "lost", "", absl::StatusCode::kOk);
  fs::rename(folder_ + ".away", folder_);
  log->Write(caller_, "b", "", absl::StatusCode::kOk);
  ASSERT_EQ(Lines(path_).size(), 1u);
  EXPECT_EQ(Lines(path_)[0]["method"], "b");
}

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
                            CallerSource source = CallerSource::kTls) {
    return {.source = source, .authorization = "Bearer " + secret};
  }

  static Credentials Certificate(std::vector<std::string> uris) {
    return {.source = CallerSource::kTls,
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
  // Unidentified callers do not learn which methods there are.
  EXPECT_EQ(CodeOf({.source = CallerSource::kTls}, "/other.Service/Method"),
            absl::StatusCode::kUnauthenticated);
}

Credentials OfMember(const std::string& name, const std::string& uri) {
  return {.source = CallerSource::kPeer,
          .certificate_name = name,
          .certificate_uris = {uri}};
}

constexpr char kPeers[] = "/hearth.v1.Peers/Run";

TEST_F(AccessControlTest, MembersMayWhatIsForMembersAndNothingElse) {
  const Credentials member = OfMember("host-b", "urn:hearth:member:host-b");
  EXPECT_EQ(access_->Identify(member)->name, "member:host-b");
  EXPECT_EQ(CodeOf(member, kPeers), absl::StatusCode::kOk);
  for (const char* path : {kView, kUse, kOperate}) {
    EXPECT_EQ(CodeOf(member, path), absl::StatusCode::kPermissionDenied);
  }
  // A token makes no difference.
  Credentials with_token = member;
  with_token.authorization = Bearer(NewToken("o", v1::OPERATOR)).authorization;
  EXPECT_EQ(CodeOf(with_token, kOperate), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(access_->Identify(with_token)->name, "member:host-b");
}

TEST_F(AccessControlTest, NobodyElseMayWhatIsForMembers) {
  const Credentials op = Bearer(NewToken("o", v1::OPERATOR));
  EXPECT_EQ(CodeOf(op, kPeers), absl::StatusCode::kPermissionDenied);
  // Not even with a member's certificate, at another address.
  Credentials elsewhere = OfMember("host-b", "urn:hearth:member:host-b");
  elsewhere.source = CallerSource::kTls;
  EXPECT_EQ(CodeOf(elsewhere, kPeers), absl::StatusCode::kUnauthenticated);
  // Nor at the members' address with another certificate.
  for (const Credentials& other :
       {OfMember("host-b", "urn:hearth:member:host-c"),
        OfMember("host-b", "urn:hearth:role:operator"),
        OfMember("", "urn:hearth:member:"),
        Credentials{.source = CallerSource::kPeer}}) {
    EXPECT_EQ(CodeOf(other, kPeers), absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(AccessControlTest, LoopbackIsAnOperatorsUntilATokenIsMade) {
  const Credentials loopback = {.source = CallerSource::kLoopback};
  EXPECT_EQ(access_->Identify(loopback)->name, "local");
  EXPECT_EQ(CodeOf(loopback, kOperate), absl::StatusCode::kOk);
  const std::string secret = NewToken("ann", v1::USER);
  EXPECT_EQ(CodeOf(loopback), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(access_->Identify(Bearer(secret, CallerSource::kLoopback))->name,
            "token:ann");
  ASSERT_TRUE(tokens_->Revoke("ann").ok());
  EXPECT_EQ(CodeOf(loopback), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, OverTheSocketTheUserCounts) {
  NewToken("ann", v1::USER);
  const auto own =
      access_->Identify({.source = CallerSource::kSocket, .uid = geteuid()});
  EXPECT_EQ(own->name, absl::StrCat("uid:", geteuid()));
  EXPECT_EQ(own->role, v1::OPERATOR);
  EXPECT_EQ(
      access_->Identify({.source = CallerSource::kSocket, .uid = 0})->role,
      v1::OPERATOR);
  const auto other = access_->Identify(
      {.source = CallerSource::kSocket, .uid = geteuid() + 1});
  EXPECT_EQ(other->role, v1::USER);
  EXPECT_EQ(CodeOf({.source = CallerSource::kSocket}),
            absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, ATokenCountsMoreThanTheSocket) {
  const std::string secret = NewToken("ann", v1::VIEWER);
  Credentials credentials = Bearer(secret, CallerSource::kSocket);
  credentials.uid = geteuid();
  EXPECT_EQ(access_->Identify(credentials)->role, v1::VIEWER);
  credentials.authorization = "Bearer wrong";
  EXPECT_EQ(CodeOf(credentials), absl::StatusCode::kUnauthenticated);
}

TEST_F(AccessControlTest, StrangersAreRefused) {
  NewToken("ann", v1::USER);
  // Over TLS a user id proves nothing.
  EXPECT_EQ(CodeOf({.source = CallerSource::kTls, .uid = 0}),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({.source = CallerSource::kTls}),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf({.source = CallerSource::kLoopback,
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
  v1::JobSpec import, copy, generate, export_dataset, export_model, named,
      train;
  import.mutable_import()->set_path("/home/somebody");
  copy.mutable_import()->set_from_member("host-b");
  generate.mutable_generate()->set_destination("/home/somebody/x");
  export_dataset.mutable_export_dataset()->set_destination("/x");
  export_model.mutable_export_()->set_destination("/x");
  named.mutable_generate()->set_name("planted");
  train.mutable_train();
  const auto why_not = [&](const v1::JobSpec& spec, bool import_roots,
                           bool export_roots) {
    AccessControl access(AccessDependencies{.tokens = *tokens_,
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
  EXPECT_EQ(why_not(copy, false, false), "");
  EXPECT_EQ(why_not(named, false, false), "");
  EXPECT_EQ(why_not(train, false, false), "");
}

}  // namespace

}  // namespace hearth::server
