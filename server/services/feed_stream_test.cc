#include "server/services/feed_stream.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "hearth/v1/feeds.grpc.pb.h"
#include "server/testing/test_daemon.h"

namespace hearth::server {
namespace {

// A stream that says nothing.
class SilentStream {
 public:
  explicit SilentStream(v1::Feeds::Stub& stub)
      : stream_(stub.Stream(&context_)) {
    stream_->WaitForInitialMetadata();
  }
  ~SilentStream() { context_.TryCancel(); }

  // Hangs up; returns what the daemon says to that.
  grpc::StatusCode End() {
    stream_->WritesDone();
    v1::FeedDown message;
    while (stream_->Read(&message)) {
    }
    return stream_->Finish().error_code();
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::FeedUp, v1::FeedDown>>
      stream_;
};

using FeedStreamsTest = DaemonTest;

TEST_F(FeedStreamsTest, ACallerHasNoMoreStreamsThanItMay) {
  const auto stub = v1::Feeds::NewStub(grpc::CreateChannel(
      daemon_->grpc_address(), grpc::InsecureChannelCredentials()));
  std::vector<std::unique_ptr<SilentStream>> streams;
  for (int i = 0; i < FeedStreams::kMostOfCaller; ++i) {
    streams.push_back(std::make_unique<SilentStream>(*stub));
  }
  EXPECT_EQ(SilentStream(*stub).End(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // A place is free once its stream has ended.
  EXPECT_EQ(streams.front()->End(), grpc::StatusCode::OK);
  EXPECT_EQ(SilentStream(*stub).End(), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace hearth::server
