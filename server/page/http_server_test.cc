#include "server/page/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A connection to a port of this machine.
int Connect(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address),
                    sizeof(address)),
            0);
  return connection;
}

// Asks for a path; `headers` end with a line break.
int Ask(int port, const std::string& path, const std::string& headers = "") {
  const int connection = Connect(port);
  const std::string request = absl::StrCat(
      "GET ", path, " HTTP/1.0\r\n", headers, "Connection: close\r\n\r\n");
  EXPECT_EQ(send(connection, request.data(), request.size(), 0),
            static_cast<ssize_t>(request.size()));
  return connection;
}

// Reads until `end`, or until the server closes the connection.
std::string Read(int connection, const std::string& end = "") {
  std::string response;
  char buffer[4096];
  for (ssize_t got; (got = recv(connection, buffer, sizeof(buffer), 0)) > 0;) {
    response.append(buffer, static_cast<size_t>(got));
    if (!end.empty() && response.find(end) != std::string::npos) {
      return response;
    }
  }
  close(connection);
  return response;
}

std::string Get(int port, const std::string& path) {
  return Read(Ask(port, path));
}

class HttpServerTest : public testing::Test {
 protected:
  std::unique_ptr<HttpServer> Listen(const std::string& address) {
    auto server = HttpServer::Listen(
        address,
        {{.path = "/",
          .content_type = "text/html",
          .body = [] { return "<h1>Hearth</h1>"; }},
         {.path = "/count",
          .content_type = "text/plain",
          .body = [this] { return absl::StrCat(++count_); }}},
        {.path = "/events",
         .data =
             [this] { return absl::StrCat("{\"count\":", count_.load(), "}"); },
         .interval = absl::Milliseconds(1)});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }

  std::atomic<int> count_ = 0;
  const std::unique_ptr<HttpServer> server_ = Listen("127.0.0.1:0");
  const int port_ = server_->port();
};

TEST_F(HttpServerTest, GivesWhatIsThereAnew) {
  const std::string page = Get(port_, "/");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("\r\n\r\n<h1>Hearth</h1>"));
  EXPECT_THAT(Get(port_, "/count"), HasSubstr("\r\n\r\n1"));
  EXPECT_THAT(Get(port_, "/count?a=b"), HasSubstr("\r\n\r\n2"));
}

TEST_F(HttpServerTest, NothingElseIsThere) {
  for (const char* path :
       {"/other", "/count/", "/events/1", "/../etc/passwd"}) {
    EXPECT_THAT(Get(port_, path), HasSubstr(" 404 ")) << path;
  }
}

// A website can point a name of its own at this machine; its scripts could then
// read the answers under that name.
TEST_F(HttpServerTest, ItAnswersUnderNamesOfThisMachineAlone) {
  for (const char* host : {"localhost", "LocalHost:1", "127.0.0.1",
                           "127.0.0.1:65000", "[::1]", "[::1]:9600"}) {
    EXPECT_THAT(Read(Ask(port_, "/", absl::StrCat("Host: ", host, "\r\n"))),
                HasSubstr(" 200 "))
        << host;
  }
  for (const char* host :
       {"example.org", "example.org:9600", "localhost.example.org",
        "127.0.0.1.example.org", "127.0.0.1:1.example.org", "localhost@x",
        "[::1].example.org", "192.0.2.1"}) {
    for (const char* path : {"/", "/count", "/events", "/other"}) {
      const int asked = Ask(port_, path, absl::StrCat("Host: ", host, "\r\n"));
      EXPECT_THAT(Read(asked, "\r\n\r\n"), StartsWith("HTTP/1.1 421 "))
          << host << path;
      close(asked);
    }
  }
  EXPECT_EQ(count_, 0);
}

TEST_F(HttpServerTest, AStreamTellsOfEachChange) {
  const int stream = Ask(port_, "/events");
  EXPECT_THAT(Read(stream, "data: {\"count\":0}\n\n"),
              HasSubstr("Content-Type: text/event-stream"));
  ++count_;
  EXPECT_THAT(Read(stream, "\n\n"), HasSubstr("data: {\"count\":1}"));
  close(stream);
}

TEST_F(HttpServerTest, StreamsAndIdleConnectionsDoNotKeepOthersOut) {
  std::vector<int> open;
  for (int i = 0; i < HttpServer::kMostStreams; ++i) {
    open.push_back(Ask(port_, "/events"));
    Read(open.back(), "data: ");
  }
  for (int i = 0; i < 4; ++i) open.push_back(Connect(port_));
  EXPECT_THAT(Get(port_, "/events"), HasSubstr(" 503 "));
  EXPECT_THAT(Get(port_, "/"), HasSubstr("Hearth"));
  // A place is free once its client is gone.
  close(open[0]);
  std::string answer;
  do {
    ++count_;
    const int stream = Ask(port_, "/events");
    answer = Read(stream, "\r\n\r\n");
    close(stream);
  } while (answer.find(" 503 ") != std::string::npos);
  EXPECT_THAT(answer, HasSubstr(" 200 "));
  for (size_t i = 1; i < open.size(); ++i) close(open[i]);
}

TEST_F(HttpServerTest, StreamsEndWithTheServer) {
  auto server = Listen("127.0.0.1:0");
  const int stream = Ask(server->port(), "/events");
  Read(stream, "data: ");
  server.reset();
  Read(stream);
}

TEST_F(HttpServerTest, AnAddressInUseIsNamed) {
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  const auto second = HttpServer::Listen(
      address, {}, {.path = "/events", .data = [] { return ""; }});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

}  // namespace
}  // namespace hearth::server
