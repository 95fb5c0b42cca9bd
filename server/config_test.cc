#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/version.h"

namespace hearth::server {

namespace {

using ::testing::HasSubstr;

TEST(ListenAddressTest, NumbersOfInterfacesAreAccepted) {
  EXPECT_EQ(*ParseListenAddress("127.0.0.1:7600"), "127.0.0.1:7600");
  EXPECT_EQ(*ParseListenAddress("[::1]:65535"), "[::1]:65535");
  EXPECT_EQ(*ParseListenAddress("localhost:1"), "127.0.0.1:1");
  EXPECT_EQ(*ParseListenAddress("0.0.0.0:0"), "0.0.0.0:0");
  EXPECT_EQ(*ParseListenAddress("[2001:db8::1]:1"), "[2001:db8::1]:1");
}

TEST(ListenAddressTest, OnlyLoopbackIsLoopback) {
  EXPECT_TRUE(IsLoopback("127.0.0.1:7600"));
  EXPECT_TRUE(IsLoopback("[::1]:0"));
  for (const char* address : {"0.0.0.0:7600", "[::]:7600", "192.168.1.2:7600",
                              "128.0.0.1:1", "127.0.0.11:1", "[::11]:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
    const std::string message(CheckLoopback(address).message());
    EXPECT_THAT(message, HasSubstr("loopback"));
    EXPECT_THAT(message, HasSubstr(address));
  }
}

TEST(ListenAddressTest, MalformedAddressesAreRefused) {
  for (const char* address :
       {"", ":", "7600", ":7600", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
        "example.org:7600", "127.0.0.1.example.org:1", "::1:7600", "[::1:1",
        "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:+1",
        "127.0.0.1:111111111111"}) {
    const auto parsed = ParseListenAddress(address);
    ASSERT_FALSE(parsed.ok()) << address;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("HOST:PORT"));
  }
}

TEST(ListenAddressTest, WithPortReplacesThePort) {
  EXPECT_EQ(WithPort("127.0.0.1:0", 4711), "127.0.0.1:4711");
  EXPECT_EQ(WithPort("[::1]:0", 4711), "[::1]:4711");
}

using ::testing::AllOf;
using ::testing::ElementsAre;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "hearthd");
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

std::string ErrorOf(const absl::StatusOr<CommandLine>& line) {
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(line.status().message());
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::ofstream(path) << text;
  return path;
}

std::string TextError(const std::string& text) {
  Config config;
  const absl::Status status = ApplyConfigText(text, "h.yaml", config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(ConfigTest, DefaultsComeFromTheEnvironment) {
  setenv("HEARTH_HOME", "/srv/hearth", 1);
  absl::StatusOr<CommandLine> line = Parse({});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.data_dir, "/srv/hearth");
  EXPECT_EQ(line->config.listen, "");
  EXPECT_EQ(line->config.metrics_listen, "127.0.0.1:9600");
  EXPECT_EQ(line->config.max_running_jobs, 1);
  EXPECT_FALSE(line->config.stops_with_input);
  EXPECT_FALSE(line->text.has_value());
  unsetenv("HEARTH_HOME");
  setenv("HOME", "/home/ada", 1);
  line = Parse({});
  EXPECT_EQ(line->config.data_dir, "/home/ada/.hearth");
}

TEST(ConfigTest, TheManualPageTellsOfAllThatTheHelpTells) {
  const std::string page = ManPage();
  const std::string help = *Parse({"--help"})->text;
  int flags = 0;
  for (const absl::string_view word :
       absl::StrSplit(help, absl::ByAnyChar(" \n,"), absl::SkipEmpty())) {
    if (!absl::StartsWith(word, "--") || word == "--help") continue;
    ++flags;
    EXPECT_THAT(page, HasSubstr(absl::StrReplaceAll(word, {{"-", "\\-"}})));
  }
  EXPECT_GT(flags, 20);
  EXPECT_THAT(page, HasSubstr(".TH \"HEARTHD\" 8"));
}

TEST(ConfigTest, FlagsSetEveryOption) {
  const absl::StatusOr<CommandLine> line = Parse({"--data-dir",
                                                  "/d",
                                                  "--listen",
                                                  "localhost:0",
                                                  "--metrics-listen",
                                                  "",
                                                  "--max-running-jobs=3",
                                                  "--convoy-members=4",
                                                  "--retries=7",
                                                  "--prepare-ahead=off",
                                                  "--import-root",
                                                  "/a",
                                                  "--import-root",
                                                  "/b",
                                                  "--data-disk",
                                                  "/p",
                                                  "--data-disk=/q",
                                                  "--log-level",
                                                  "debug",
                                                  "--address-file",
                                                  "/tmp/x",
                                                  "--stop-with-input=on"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.data_dir, "/d");
  EXPECT_EQ(line->config.listen, "127.0.0.1:0");
  EXPECT_EQ(line->config.metrics_listen, "");
  EXPECT_EQ(line->config.max_running_jobs, 3);
  EXPECT_EQ(line->config.convoy_members, 4);
  EXPECT_EQ(line->config.retries, 7);
  EXPECT_FALSE(line->config.prepares_ahead);
  EXPECT_TRUE(line->config.stops_with_input);
  EXPECT_THAT(line->config.import_roots, ElementsAre("/a", "/b"));
  EXPECT_THAT(line->config.data_disks, ElementsAre("/p", "/q"));
  EXPECT_EQ(line->config.log_level, "debug");
  EXPECT_EQ(line->config.address_file, "/tmp/x");
}

TEST(ConfigTest, FlagsWinOverTheFile) {
  const std::string path =
      WriteFile("flags_win.yaml", "listen: 127.0.0.1:1\ndata-dir: /file\n");
  const absl::StatusOr<CommandLine> line =
      Parse({"--config", path.c_str(), "--listen", "127.0.0.1:2"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.listen, "127.0.0.1:2");
  EXPECT_EQ(line->config.data_dir, "/file");
}

TEST(ConfigTest, FileSetsListsAndEmptyValues) {
  Config config;
  const absl::Status status = ApplyConfigText(
      "# comment\nimport-root: [/a, /b]\nmetrics-listen:\n"
      "max-running-jobs: 2\n",
      "h.yaml", config);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(config.import_roots, ElementsAre("/a", "/b"));
  EXPECT_EQ(config.metrics_listen, "");
  EXPECT_EQ(config.max_running_jobs, 2);
  EXPECT_TRUE(ApplyConfigText("", "h.yaml", config).ok());
}

TEST(ConfigTest, UnknownFlagsNameWhatMayBeMeant) {
  EXPECT_EQ(ErrorOf(Parse({"--lissten", "127.0.0.1:1"})),
            "unknown option --lissten; did you mean --listen?");
  EXPECT_EQ(ErrorOf(Parse({"stray"})), "unexpected argument \"stray\"");
}

TEST(ConfigTest, FileErrorsNameLineAndKey) {
  EXPECT_THAT(TextError("listen: 127.0.0.1:1\nlissten: x\n"),
              AllOf(HasSubstr("h.yaml:2"),
                    HasSubstr("\"lissten\"; did you mean listen?")));
  EXPECT_THAT(TextError("zzz: 1\n"), HasSubstr("the keys are"));
  EXPECT_THAT(TextError("max-running-jobs: many\n"),
              AllOf(HasSubstr("h.yaml:1"), HasSubstr("max-running-jobs")));
  EXPECT_THAT(TextError("listen: [a, b]\n"), HasSubstr("single value"));
  EXPECT_THAT(TextError("import-root: [[a]]\n"), HasSubstr("plain values"));
  EXPECT_THAT(TextError("import-root: {a: b}\n"), HasSubstr("a list"));
  EXPECT_THAT(TextError("[a]: b\n"), HasSubstr("unknown key"));
  EXPECT_THAT(TextError("- listen\n"), HasSubstr("must be a map"));
  EXPECT_THAT(TextError("log-level: info\nlog-level: warn\n"),
              AllOf(HasSubstr("h.yaml:2"), HasSubstr("line 1")));
  EXPECT_THAT(TextError("a: 1\nb: [\n"), HasSubstr("h.yaml:3"));
}

TEST(ConfigTest, TooLongFilesAreNotParsed) {
  const std::string text(kMaxConfigFileBytes + 1, '[');
  EXPECT_THAT(TextError(text), HasSubstr("65536"));
  const std::string path = WriteFile("long.yaml", text);
  EXPECT_FALSE(Parse({"--config", path.c_str()}).ok());
}

TEST(ConfigTest, AMissingFileIsNamed) {
  const absl::StatusOr<CommandLine> line =
      Parse({"--config", "/no/such/file.yaml"});
  EXPECT_EQ(line.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(line.status().message()),
              HasSubstr("/no/such/file.yaml"));
}

TEST(ConfigTest, FlagErrorsNameTheFlag) {
  EXPECT_THAT(ErrorOf(Parse({"--metrics-listen", "0.0.0.0:7600"})),
              AllOf(HasSubstr("--metrics-listen"), HasSubstr("loopback")));
  EXPECT_THAT(ErrorOf(Parse({"--max-running-jobs", "0"})),
              HasSubstr("--max-running-jobs"));
  EXPECT_THAT(ErrorOf(Parse({"--max-running-jobs", "65"})),
              HasSubstr("1 to 64"));
  EXPECT_THAT(ErrorOf(Parse({"--retries", "0"})), HasSubstr("--retries"));
  EXPECT_THAT(ErrorOf(Parse({"--prepare-ahead", "maybe"})),
              HasSubstr("on or off"));
  EXPECT_THAT(ErrorOf(Parse({"--stop-with-input", "maybe"})),
              AllOf(HasSubstr("--stop-with-input"), HasSubstr("on or off")));
  EXPECT_THAT(ErrorOf(Parse({"--import-root", "relative"})),
              HasSubstr("--import-root"));
  EXPECT_THAT(ErrorOf(Parse({"--data-disk", "/d", "--data-disk", "relative"})),
              AllOf(HasSubstr("--data-disk"), HasSubstr("relative")));
  EXPECT_THAT(ErrorOf(Parse({"--log-level", "loud"})), HasSubstr("trace"));
  EXPECT_THAT(ErrorOf(Parse({"--log-format", "xml"})),
              HasSubstr("text or json"));
  EXPECT_THAT(ErrorOf(Parse({"--data-dir", ""})), HasSubstr("--data-dir"));
  EXPECT_THAT(ErrorOf(Parse({"--no-such-flag"})), HasSubstr("no-such-flag"));
  EXPECT_THAT(ErrorOf(Parse({"stray"})), HasSubstr("stray"));
  EXPECT_FALSE(Parse({"--listen", "127.0.0.1:1", "--listen", "x"}).ok());
}

// Addresses that other machines reach must be protected; the refusal says how.
TEST(ConfigTest, AddressesOfOtherMachinesNeedTlsAndRoots) {
  Config config;
  config.listen = "0.0.0.0:7600";
  const auto refused = [&config] {
    const absl::Status status = CheckListening(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  EXPECT_THAT(refused(), AllOf(HasSubstr("hearth admin certs"),
                               HasSubstr("--tls-cert"), HasSubstr("loopback")));
  config.tls_certificate = "/server.pem";
  EXPECT_THAT(refused(), HasSubstr("--tls-key"));
  config.tls_key = "/server.key";
  EXPECT_THAT(refused(), HasSubstr("--import-root"));
  config.import_roots = {"/in"};
  EXPECT_THAT(refused(), HasSubstr("--export-root"));
  config.export_roots = {"/out"};
  EXPECT_TRUE(CheckListening(config).ok());
  config.tls_certificate.clear();
  config.tls_key.clear();
  config.tls_client_ca = "/ca.pem";
  EXPECT_THAT(refused(), HasSubstr("--tls-client-ca"));
}

TEST(ConfigTest, LoopbackNeedsNothing) {
  Config config;
  for (const char* address : {"", "127.0.0.1:0", "[::1]:7600"}) {
    config.listen = address;
    EXPECT_TRUE(CheckListening(config).ok()) << address;
  }
  config.listen = "";
  config.tls_certificate = "/server.pem";
  config.tls_key = "/server.key";
  EXPECT_EQ(CheckListening(config).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ConfigTest, HelpAndVersionAreTexts) {
  const absl::StatusOr<CommandLine> help = Parse({"--help"});
  ASSERT_TRUE(help.ok() && help->text.has_value());
  EXPECT_THAT(*help->text, HasSubstr("--max-running-jobs"));
  const absl::StatusOr<CommandLine> version = Parse({"--version"});
  ASSERT_TRUE(version.ok() && version->text.has_value());
  EXPECT_THAT(*version->text, HasSubstr(kVersion));
}

TEST(ConnectionLimitsTest, TheyFollowTheLimitOfDescriptors) {
  Config config;
  const auto few = ConnectionLimitsOf(config, 256);
  ASSERT_TRUE(few.ok());
  EXPECT_EQ(few->connections, 21u);
  EXPECT_EQ(few->per_address, 10u);
  const auto many = ConnectionLimitsOf(config, 1 << 20);
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->connections, 1024u);
  EXPECT_EQ(many->per_address, 512u);
  config.max_connections = 22;
  config.max_connections_per_address = 30;
  EXPECT_EQ(ConnectionLimitsOf(config, 256).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const auto own = ConnectionLimitsOf(config, 1024);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->connections, 22u);
  EXPECT_EQ(own->per_address, 22u);
}

TEST(MaxQueuedJobsTest, OneOwnerHasHalfUnlessTold) {
  Config config;
  EXPECT_EQ(MaxQueuedJobsPerUser(config), 50'000);
  config.max_queued_jobs = 1;
  EXPECT_EQ(MaxQueuedJobsPerUser(config), 1);
  config.max_queued_jobs_per_user = 7;
  EXPECT_EQ(MaxQueuedJobsPerUser(config), 7);
}

}  // namespace

}  // namespace hearth::server
