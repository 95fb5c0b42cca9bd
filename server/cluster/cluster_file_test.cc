#include "server/cluster/cluster_file.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

constexpr char kText[] =
    "name: host-a\n"
    "listen: 192.0.2.1:7610\n"
    "certificate: host-a.pem\n"
    "key: /secret/host-a.key\n"
    "authority: ca.pem\n"
    "members:\n"
    "  host-b: host-b.example:7610\n"
    "  host-a: 192.0.2.1:7610\n";

TEST(ClusterFileTest, MembersKeepTheirOrder) {
  const auto file = ParseClusterFile(kText, "/etc/hearth/cluster.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->name, "host-a");
  EXPECT_EQ(file->listen, "192.0.2.1:7610");
  EXPECT_EQ(file->tls.certificate, "/etc/hearth/host-a.pem");
  EXPECT_EQ(file->tls.key, "/secret/host-a.key");
  EXPECT_EQ(file->tls.client_ca, "/etc/hearth/ca.pem");
  ASSERT_EQ(file->members.size(), 2u);
  EXPECT_EQ(file->members[0].name, "host-b");
  EXPECT_EQ(file->members[0].address, "host-b.example:7610");
  EXPECT_EQ(file->Find("host-a")->address, "192.0.2.1:7610");
  EXPECT_EQ(file->Find("host-c"), nullptr);
}

TEST(ClusterFileTest, AMemberMayTellItsAddressItself) {
  const auto file = ParseClusterFile(
      absl::StrReplaceAll(kText, {{"host-b.example:7610", "~"}}), "/cluster");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find("host-b")->address, "");
}

TEST(ClusterFileTest, ErrorsNameTheKey) {
  const struct {
    const char* from;
    const char* to;
    const char* words;
  } kCases[] = {
      {"name: host-a\n", "", "name: is missing"},
      {"name: host-a\n", "name: host-c\n", "host-c"},
      {"name: host-a\n", "name: ../a\n", "name: must be a name"},
      {"authority: ca.pem\n", "", "authority: is missing"},
      {"192.0.2.1:7610\ncert", "192.0.2.1\ncert", "listen: must be HOST:PORT"},
      {"host-b.example:7610", "host-b.example:0", "host-b: must be HOST:PORT"},
      {"host-b.example:7610", "[1, 2]", "host-b: must be HOST:PORT"},
      {"  host-b:", "  host-a:", "host-a is there twice"},
      {"listen:", "Listen:", "unknown key \"Listen\""},
      {"members:", "members: [", "/cluster.yaml: "},
  };
  for (const auto& one : kCases) {
    const std::string text = absl::StrReplaceAll(kText, {{one.from, one.to}});
    ASSERT_NE(text, kText) << one.from;
    const absl::Status status =
        ParseClusterFile(text, "/etc/cluster.yaml").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), one.words)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "/etc/cluster.yaml"))
        << status;
  }
}

}  // namespace
}  // namespace hearth::server
