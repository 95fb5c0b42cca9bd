#include "server/cluster/row_exchange.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/metrics/registry.h"
#include "engine/store/dataset.h"
#include "hearth/v1/peers.grpc.pb.h"
#include "server/cluster/traffic_metrics.h"
#include "tests/fixtures/graphs.h"
#include "tests/fixtures/shards.h"

namespace hearth::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ranges with their members, as text.
std::vector<std::string> Words(
    const absl::StatusOr<std::vector<RowSource>>& sources) {
  std::vector<std::string> words;
  for (const RowSource& one : sources.value_or(std::vector<RowSource>())) {
    words.push_back(std::to_string(one.rows.first) + "-" +
                    std::to_string(one.rows.end) + " of " +
                    std::to_string(one.member));
  }
  return words;
}

TEST(FindRowsTest, GivesEachRowThatIsNotHereToOneMember) {
  EXPECT_THAT(Words(FindRows(90, {30, 60}, {{{0, 30}, 0}, {{60, 90}, 2}})),
              ElementsAre("0-30 of 0", "60-90 of 2"));
  // Somebody has all rows.
  EXPECT_THAT(Words(FindRows(90, {30, 60}, {{{0, 90}, 1}})),
              ElementsAre("0-30 of 1", "60-90 of 1"));
  EXPECT_THAT(Words(FindRows(90, {0, 0}, {{{0, 50}, 1}, {{40, 90}, 2}})),
              ElementsAre("0-50 of 1", "50-90 of 2"));
  EXPECT_THAT(Words(FindRows(90, {0, 90}, {})), ElementsAre());
  EXPECT_THAT(Words(FindRows(0, {0, 0}, {})), ElementsAre());
}

TEST(FindRowsTest, NamesTheFirstRowsThatNobodyHas) {
  const absl::Status status =
      FindRows(90, {30, 60}, {{{0, 20}, 0}, {{70, 80}, 2}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rows 20 .. 29 of 90"));
  EXPECT_THAT(
      std::string(FindRows(90, {0, 60}, {{{70, 90}, 2}}).status().message()),
      HasSubstr("rows 60 .. 69 of 90"));
  EXPECT_THAT(std::string(FindRows(90, {0, 60}, {}).status().message()),
              HasSubstr("rows 60 .. 89 of 90"));
}

// Rows of 128 bytes.
constexpr testing::PlantedGraph kGraph = {.num_nodes = 20'000,
                                          .feature_dim = 32};

std::string ShardOf(const std::string& folder, const std::string& shard,
                    int64_t index) {
  const absl::Status made = testing::MakeShard(folder, shard, index, 2);
  EXPECT_TRUE(made.ok()) << made;
  return shard;
}

class RowExchangeTest : public ::testing::Test {
 protected:
  std::string Row(int64_t row) const {
    const auto& features = whole_->manifest().node_types[0].features;
    std::string bytes(128, '\0');
    EXPECT_TRUE(file_
                    ->Read(features.data_offset + row * 128,
                           {reinterpret_cast<std::byte*>(bytes.data()), 128})
                    .ok());
    return bytes;
  }

  v1::ReadRowsRequest Request(const std::vector<uint64_t>& runs) const {
    v1::ReadRowsRequest request;
    request.set_name("test");
    request.set_fingerprint(whole_->manifest().fingerprint);
    request.mutable_runs()->Add(runs.begin(), runs.end());
    return request;
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  const std::string folder_ =
      *testing::ImportPlantedGraph(kGraph, scratch_.path());
  const std::unique_ptr<store::Dataset> whole_ =
      *store::Dataset::Open(files_, folder_);
  const std::unique_ptr<io::ReadableFile> file_ = *whole_->ScanFeatures({}, 0);
  // Rows 10,000 to 19,999.
  const std::string shard_ = ShardOf(folder_, scratch_.Path("shard"), 1);
};

using OfferedRowsTest = RowExchangeTest;

TEST_F(OfferedRowsTest, GivesRunsInPiecesOfAboutOneMebibyte) {
  // Rows that lie close to each other, alone, and more than a piece of them.
  const std::vector<uint64_t> runs = {10'000, 1, 2, 3, 3'000, 1, 0, 6'000};
  for (const std::string& folder : {folder_, shard_}) {
    auto rows = OfferedRows::Open(files_, folder, Request({}));
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::string all;
    int pieces = 0;
    const absl::Status sent =
        rows->Send(Request(runs), [&](const v1::RowsPiece& piece) {
          EXPECT_LE(piece.data().size(), 2 * OfferedRows::kPieceBytes);
          EXPECT_EQ(piece.data().size() % 128, 0u);
          const auto* data =
              reinterpret_cast<const std::byte*>(piece.data().data());
          EXPECT_EQ(Crc32c({data, piece.data().size()}), piece.crc32c());
          all += piece.data();
          ++pieces;
          return true;
        });
    ASSERT_TRUE(sent.ok()) << sent;
    std::string expected = Row(10'000);
    for (const int64_t row : {10'003, 10'004, 10'005}) expected += Row(row);
    for (int64_t row = 13'006; row < 19'007; ++row) expected += Row(row);
    EXPECT_TRUE(all == expected);
    EXPECT_EQ(pieces, 1);
  }
}

TEST_F(OfferedRowsTest, RefusesWhatItDoesNotHave) {
  v1::ReadRowsRequest other = Request({});
  other.set_fingerprint("0123456789abcdef");
  EXPECT_TRUE(
      absl::IsAborted(OfferedRows::Open(files_, shard_, other).status()));
  other = Request({});
  other.set_node_type(1);
  EXPECT_TRUE(absl::IsInvalidArgument(
      OfferedRows::Open(files_, shard_, other).status()));
  auto rows = *OfferedRows::Open(files_, shard_, Request({}));
  const auto send = [&](const std::vector<uint64_t>& runs) {
    return rows.Send(Request(runs), [](const v1::RowsPiece&) { return true; });
  };
  EXPECT_TRUE(send({10'000, 10'000}).ok());
  EXPECT_TRUE(absl::IsOutOfRange(send({9'999, 1})));
  EXPECT_TRUE(absl::IsOutOfRange(send({19'999, 2})));
  EXPECT_TRUE(absl::IsOutOfRange(send({10'000, UINT64_MAX})));
  EXPECT_TRUE(absl::IsOutOfRange(send({UINT64_MAX, 2})));
  EXPECT_TRUE(absl::IsInvalidArgument(send({10'000})));
}

TEST_F(OfferedRowsTest, FindsDamageOnItsDisk) {
  std::fstream(shard_ + "/node.features.npy",
               std::ios::in | std::ios::out | std::ios::binary)
          .seekp(9'000)
      << "damage";
  auto rows = *OfferedRows::Open(files_, shard_, Request({}));
  const absl::Status status = rows.Send(
      Request({10'000, 100}), [](const v1::RowsPiece&) { return true; });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

// A member with all rows.
class RowsService final : public v1::Peers::Service {
 public:
  explicit RowsService(std::string folder) : folder_(std::move(folder)) {}

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeRequest*,
                        v1::MemberState* state) override {
    *state = state_;
    return grpc::Status::OK;
  }

  grpc::Status ReadRows(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::RowsPiece, v1::ReadRowsRequest>* stream)
      override {
    ++calls;
    v1::ReadRowsRequest request;
    std::optional<OfferedRows> rows;
    while (stream->Read(&request)) {
      if (!rows.has_value()) {
        rows.emplace(
            *OfferedRows::Open(io::FileSystem::Posix(), folder_, request));
      }
      const absl::Status status = rows->Send(request, [&](v1::RowsPiece piece) {
        const grpc::Status early =
            on_piece ? on_piece(piece) : grpc::Status::OK;
        return early.ok() && stream->Write(piece);
      });
      if (absl::IsDataLoss(status)) {
        return {grpc::StatusCode::DATA_LOSS, "block 7 is damaged"};
      }
      if (!status.ok()) return {grpc::StatusCode::UNAVAILABLE, "broken"};
    }
    return grpc::Status::OK;
  }

  v1::MemberState state_;
  std::function<grpc::Status(v1::RowsPiece& piece)> on_piece;
  int calls = 0;

 private:
  const std::string folder_;
};

class PeerRowsTest : public RowExchangeTest {
 protected:
  void SetUp() override {
    v1::MemberDataset& dataset = *service_.state_.add_datasets();
    dataset.set_name(whole_->manifest().name);
    dataset.set_fingerprint(whole_->manifest().fingerprint);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                   grpc::InsecureChannelCredentials());
    rows_ = NewPeerRows(
        {.members = {"host-a", "host-b"},
         .own = 1,
         .channel =
             [this](const std::string&) {
               return absl::StatusOr<std::shared_ptr<grpc::Channel>>(channel_);
             },
         .metrics = metrics_});
  }

  absl::StatusOr<std::string> Read(const std::vector<store::RowRun>& runs,
                                   std::stop_token stop = {}) {
    const auto shard = *store::Dataset::Open(files_, shard_);
    auto reader = rows_->Open(shard->manifest(), 0, stop);
    if (!reader.ok()) return reader.status();
    int64_t count = 0;
    for (const store::RowRun& run : runs) count += run.count;
    std::string bytes(static_cast<size_t>(count) * 128, '\0');
    const absl::Status status = (*reader)->Read(
        runs, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
    if (!status.ok()) return status;
    return bytes;
  }

  RowsService service_{folder_};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  TrafficMetrics metrics_{*registry_};
  std::shared_ptr<store::RemoteRows> rows_;
};

TEST_F(PeerRowsTest, ReadsTheRowsOfRuns) {
  const auto rows =
      Read({{.first = 3, .count = 1}, {.first = 900, .count = 2}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(*rows == Row(3) + Row(900) + Row(901));
  // Many runs in one request.
  std::vector<store::RowRun> runs;
  std::string expected;
  for (int64_t row = 0; row < 10'000; row += 2) {
    runs.push_back({.first = row, .count = 1});
    expected += Row(row);
  }
  const auto many = Read(runs);
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_TRUE(*many == expected);
}

TEST_F(PeerRowsTest, RowsThatCameDamagedAreAskedForAgain) {
  int pieces = 0;
  service_.on_piece = [&](v1::RowsPiece& piece) {
    if (++pieces < 3) (*piece.mutable_data())[100] ^= 1;
    return grpc::Status::OK;
  };
  const auto rows = Read({{.first = 3, .count = 1}});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE(*rows == Row(3));
  pieces = -10;
  const absl::Status status = Read({{.first = 3, .count = 1}}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("host-a"));
}

TEST_F(PeerRowsTest, DamageOnTheOtherDiskIsAnErrorThatNamesTheMember) {
  std::fstream(folder_ + "/node.features.npy",
               std::ios::in | std::ios::out | std::ios::binary)
          .seekp(9'000)
      << "damage";
  const absl::Status status = Read({{.first = 0, .count = 100}}).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("host-a: block 7"));
}

TEST_F(PeerRowsTest, ACallThatHasEndedIsReplacedOnce) {
  const auto shard = *store::Dataset::Open(files_, shard_);
  auto reader = *rows_->Open(shard->manifest(), 0, {});
  std::vector<std::byte> row(128);
  ASSERT_TRUE(
      reader->Read({{{.first = 1, .count = 1}}}, absl::MakeSpan(row)).ok());
  EXPECT_EQ(service_.calls, 1);
  int pieces = 0;
  service_.on_piece = [&](v1::RowsPiece&) {
    return ++pieces == 1 ? grpc::Status::CANCELLED : grpc::Status::OK;
  };
  ASSERT_TRUE(
      reader->Read({{{.first = 2, .count = 1}}}, absl::MakeSpan(row)).ok());
  EXPECT_EQ(service_.calls, 2);
  // A new one that ends, too, is the loss of the member.
  service_.on_piece = [&](v1::RowsPiece&) { return grpc::Status::CANCELLED; };
  const absl::Status status =
      reader->Read({{{.first = 2, .count = 1}}}, absl::MakeSpan(row));
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kPeer) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("host-a"));
}

TEST_F(PeerRowsTest, RowsThatNobodyHasAreNamed) {
  service_.state_.mutable_datasets(0)->add_feature_rows()->set_end(4'000);
  const absl::Status status = Read({{.first = 3, .count = 1}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rows 4000 .. 9999 of 20000"));
  // Another dataset of the name has none.
  service_.state_.mutable_datasets(0)->set_fingerprint("other");
  EXPECT_THAT(std::string(Read({{.first = 3, .count = 1}}).status().message()),
              HasSubstr("rows 0 .. 9999 of 20000"));
}

TEST_F(PeerRowsTest, AMemberThatIsGoneIsWaitedFor) {
  server_->Shutdown();
  const absl::Status status = Read({{.first = 3, .count = 1}}).status();
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kPeer) << status;
}

TEST_F(PeerRowsTest, AStopEndsIt) {
  std::stop_source stop;
  service_.on_piece = [&](v1::RowsPiece&) {
    stop.request_stop();
    return grpc::Status::CANCELLED;
  };
  const absl::Status status =
      Read({{.first = 3, .count = 1}}, stop.get_token()).status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

}  // namespace
}  // namespace hearth::server
