#include "server/access/method_access.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "hearth/v1/access.pb.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/sweeps.pb.h"

namespace hearth::server {
namespace {

using google::protobuf::MethodDescriptor;

// Every method of the contract by its path.
std::map<std::string, const MethodDescriptor*> AllMethods() {
  std::map<std::string, const MethodDescriptor*> methods;
  for (const auto* message :
       {v1::Status::descriptor(), v1::Dataset::descriptor(),
        v1::Job::descriptor(), v1::Plan::descriptor(),
        v1::Sweep::descriptor()}) {
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

// Methods that change nothing are for viewers, and those that change something
// are not.
TEST(MethodAccessTest, ViewersOnlySee) {
  for (const auto& [path, method] : AllMethods()) {
    const std::string& name = method->name();
    bool only_sees = false;
    for (const char* verb : {"Get", "List", "Watch", "Tail"}) {
      only_sees |= name.rfind(verb, 0) == 0;
    }
    // Names of tokens are names of people.
    if (name == "ListTokens") only_sees = false;
    EXPECT_EQ(AccessOf(path)->least_role() == v1::VIEWER, only_sees) << path;
  }
}

// A request that changes one job or sweep says so, and has an id.
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

}  // namespace
}  // namespace hearth::server
