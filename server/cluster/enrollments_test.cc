#include "server/cluster/enrollments.h"

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/manual_clock.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

class EnrollmentsTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::Enrolled> Call(const std::string& member,
                                    const std::string& address,
                                    const std::string& instance = "one") {
    v1::EnrollRequest request;
    request.set_address(address);
    request.set_size(2);
    request.set_instance(member + instance);
    return enrollments_.Take(member, request);
  }

  absl::StatusOr<v1::Enrolled> End(const std::string& member, int exit_code) {
    v1::EnrollRequest request;
    request.set_size(2);
    request.set_instance(member + "one");
    request.set_exit_code(exit_code);
    return enrollments_.Take(member, request);
  }

  ManualClock clock_;
  Enrollments enrollments_{{"node-0", "node-1"}, clock_};
};

TEST_F(EnrollmentsTest, TellsWhoIsMissingAndWhoIsNotReady) {
  auto enrolled = Call("node-0", "");
  ASSERT_TRUE(enrolled.ok()) << enrolled.status();
  ASSERT_EQ(enrolled->missing_size(), 1);
  EXPECT_EQ(enrolled->missing(0), "node-1");
  ASSERT_EQ(enrolled->unready_size(), 1);
  EXPECT_EQ(enrolled->unready(0), "node-0");
  ASSERT_TRUE(Call("node-1", "192.0.2.2:7610").ok());
  enrolled = Call("node-0", "192.0.2.1:7610");
  EXPECT_EQ(enrolled->missing_size() + enrolled->unready_size(), 0);
  EXPECT_EQ(enrollments_.AddressOf("node-1"), "192.0.2.2:7610");
  EXPECT_EQ(enrollments_.AddressOf("node-2"), "");

  clock_.Advance(absl::ToDoubleSeconds(Enrollments::kSilence) + 1);
  enrolled = Call("node-0", "192.0.2.1:7610");
  ASSERT_EQ(enrolled->missing_size(), 1);
  EXPECT_EQ(enrolled->missing(0), "node-1");
}

TEST_F(EnrollmentsTest, TheFirstMembersEndIsThatOfAll) {
  ASSERT_TRUE(Call("node-1", "192.0.2.2:7610").ok());
  auto enrolled = End("node-0", 3);
  ASSERT_TRUE(enrolled.ok()) << enrolled.status();
  ASSERT_EQ(enrolled->untold_size(), 1);
  EXPECT_EQ(enrolled->untold(0), "node-1");
  enrolled = Call("node-1", "192.0.2.2:7610");
  EXPECT_EQ(enrolled->exit_code(), 3);
  // It may end, too, once it is told.
  EXPECT_TRUE(End("node-1", 3).ok());
  EXPECT_EQ(End("node-0", 3)->untold_size(), 0);
}

TEST_F(EnrollmentsTest, AMemberThatEndsBeforeTheFirstEndsTheRun) {
  EXPECT_EQ(End("node-1", 1).status(),
            absl::AbortedError("node-1 has ended with 1"));
  EXPECT_EQ(Call("node-0", "").status(),
            absl::AbortedError("node-1 has ended with 1"));
}

TEST_F(EnrollmentsTest, MembersMustCountAlike) {
  v1::EnrollRequest request;
  request.set_size(3);
  const absl::Status status = enrollments_.Take("node-1", request).status();
  EXPECT_EQ(status, absl::InvalidArgumentError(
                        "node-1 counts 3 members, node-0 counts 2"));
  EXPECT_EQ(Call("node-0", "").status(), status);
}

TEST_F(EnrollmentsTest, AMemberMayStartAgainButNotBeThereTwice) {
  ASSERT_TRUE(Call("node-1", "192.0.2.2:7610", "first").ok());
  ASSERT_TRUE(Call("node-1", "192.0.2.3:7610", "second").ok());
  EXPECT_EQ(enrollments_.AddressOf("node-1"), "192.0.2.3:7610");
  const absl::Status status =
      Call("node-1", "192.0.2.2:7610", "first").status();
  EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
  EXPECT_EQ(Call("node-0", "").status(), status);
}

}  // namespace
}  // namespace hearth::server
