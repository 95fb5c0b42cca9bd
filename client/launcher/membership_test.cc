#include "client/launcher/membership.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/server_choice.h"
#include "gtest/gtest.h"

namespace hearth::launcher {
namespace {

class MembershipTest : public ::testing::Test {
 protected:
  MembershipTest() {
    std::string pattern = ::testing::TempDir() + "/membershipXXXXXX";
    folder_ = mkdtemp(pattern.data());
    options_ = {.launch = {.by = "torchrun",
                           .rank = 1,
                           .size = 3,
                           .leader = "127.0.0.1",
                           .run = "night",
                           .local_rank = 1,
                           .shares_machine = true,
                           .is_on_one_machine = true},
                .data_dir = folder_ + "/rank-1",
                .shared_folder = folder_};
  }

  std::string TextOf(const std::string& name) {
    return client::ReadSmallFile(
               absl::StrCat(options_.data_dir, "/cluster/", name))
        .value();
  }

  std::string folder_;
  MembershipOptions options_;
  const absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
};

TEST_F(MembershipTest, WritesTheFileOfTheCluster) {
  const auto membership = Join(options_, now_, {});
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->cluster_file,
            options_.data_dir + "/cluster/cluster.yaml");
  EXPECT_EQ(membership->address, "127.0.0.1:7611");
  EXPECT_EQ(membership->to_leader.server, "127.0.0.1:7610");
  EXPECT_EQ(membership->to_leader.tls_name, "node-0");
  EXPECT_EQ(TextOf("cluster.yaml"),
            "name: node-1\n"
            "listen: \"127.0.0.1:7611\"\n"
            "certificate: member.pem\n"
            "key: member.key\n"
            "authority: ca.pem\n"
            "members:\n"
            "  node-0: \"127.0.0.1:7610\"\n"
            "  node-1: ~\n"
            "  node-2: ~\n");
}

TEST_F(MembershipTest, ProcessesOfOneMachineShareASecretThatOneMakes) {
  ASSERT_TRUE(Join(options_, now_, {}).ok());
  const std::string secret =
      client::ReadSecret(folder_ + "/cluster-secret").value();
  EXPECT_EQ(secret.size(), 64u);
  ASSERT_TRUE(Join(options_, now_, {}).ok());
  EXPECT_EQ(client::ReadSecret(folder_ + "/cluster-secret").value(), secret);
}

TEST_F(MembershipTest, SeveralMachinesNeedASecret) {
  options_.launch.is_on_one_machine = false;
  const absl::Status status = Join(options_, now_, {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(
      absl::StrContains(status.message(), "HEARTH_CLUSTER_SECRET_FILE"));

  options_.secret_file = folder_ + "/short";
  ASSERT_TRUE(client::WriteSmallFile(options_.secret_file, "short").ok());
  const absl::Status is_short = Join(options_, now_, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(is_short)) << is_short;
  EXPECT_TRUE(absl::StrContains(is_short.message(), options_.secret_file));

  ASSERT_EQ(chmod(options_.secret_file.c_str(), 0644), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Join(options_, now_, {}).status()));
}

TEST_F(MembershipTest, SeveralMachinesListenToAll) {
  options_.launch.is_on_one_machine = false;
  options_.launch.local_rank = 0;
  options_.secret_file = folder_ + "/secret";
  options_.host = "gpu1.example";
  options_.port = 9000;
  ASSERT_TRUE(
      client::WriteSmallFile(options_.secret_file, std::string(32, 's')).ok());
  const auto membership = Join(options_, now_, {});
  ASSERT_TRUE(membership.ok()) << membership.status();
  EXPECT_EQ(membership->address, "gpu1.example:9000");
  EXPECT_TRUE(
      absl::StrContains(TextOf("cluster.yaml"), "listen: \"0.0.0.0:9000\"\n"));
}

TEST_F(MembershipTest, AnUnknownHostIsNamed) {
  options_.launch.is_on_one_machine = false;
  options_.launch.leader = "no-such-host.invalid";
  options_.patience = absl::ZeroDuration();
  options_.secret_file = folder_ + "/secret";
  ASSERT_TRUE(
      client::WriteSmallFile(options_.secret_file, std::string(32, 's')).ok());
  const absl::Status status = Join(options_, now_, {}).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "no-such-host.invalid"))
      << status;
}

}  // namespace
}  // namespace hearth::launcher
