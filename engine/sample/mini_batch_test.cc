#include "engine/sample/mini_batch.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::NodeId;

MiniBatch Example() {
  return {.key = {.epoch_key = 2, .batch = 7},
          .num_seeds = 2,
          .input_nodes = {4, 9, 1, 0},
          .in_degrees = {3, 0, 1, 2},
          .blocks = {{.num_sources = 4,
                      .num_destinations = 3,
                      .indptr = {0, 2, 2, 3},
                      .indices = {2, 3, 0}},
                     {.num_sources = 3,
                      .num_destinations = 2,
                      .indptr = {0, 1, 1},
                      .indices = {2}}}};
}

void ExpectEqual(const MiniBatch& expected, const MiniBatch& actual) {
  EXPECT_EQ(expected.key.epoch_key, actual.key.epoch_key);
  EXPECT_EQ(expected.key.batch, actual.key.batch);
  EXPECT_EQ(expected.num_seeds, actual.num_seeds);
  EXPECT_EQ(expected.input_nodes, actual.input_nodes);
  EXPECT_EQ(expected.in_degrees, actual.in_degrees);
  EXPECT_EQ(expected.node_types, actual.node_types);
  ASSERT_EQ(expected.blocks.size(), actual.blocks.size());
  for (size_t i = 0; i < expected.blocks.size(); ++i) {
    EXPECT_EQ(expected.blocks[i].num_sources, actual.blocks[i].num_sources);
    EXPECT_EQ(expected.blocks[i].num_destinations,
              actual.blocks[i].num_destinations);
    EXPECT_EQ(expected.blocks[i].indptr, actual.blocks[i].indptr);
    EXPECT_EQ(expected.blocks[i].indices, actual.blocks[i].indices);
    EXPECT_EQ(expected.blocks[i].weights, actual.blocks[i].weights);
    EXPECT_EQ(expected.blocks[i].edge_types, actual.blocks[i].edge_types);
  }
}

class SampleFileTest : public ::testing::Test {
 protected:
  void ExpectComesBack(const MiniBatch& batch) {
    const auto size = WriteSample(posix_, path_, batch);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(*size, posix_.Stat(path_)->size_bytes);
    const auto read = ReadSample(posix_, path_, batch.key);
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectEqual(batch, *read);
    std::vector<NodeId> nodes = {99};
    ASSERT_TRUE(ReadSampleNodes(posix_, path_, batch.key, nodes).ok());
    EXPECT_EQ(nodes, batch.input_nodes);
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("sample");
};

TEST_F(SampleFileTest, ComesBackAsItWas) { ExpectComesBack(Example()); }

TEST_F(SampleFileTest, WithWeightsOfEdges) {
  MiniBatch batch = Example();
  batch.blocks[0].weights = {0.25, 0.75, 1};
  ExpectComesBack(batch);
}

TEST_F(SampleFileTest, WithTypesOfNodesAndEdges) {
  MiniBatch batch = Example();
  batch.node_types = {1, 1, 0, 7};
  batch.blocks[0].edge_types = {0, 3, 1};
  batch.blocks[1].edge_types = {300};
  ExpectComesBack(batch);
}

TEST_F(SampleFileTest, OfNothing) {
  ExpectComesBack({});
  MiniBatch batch;
  batch.blocks.resize(2);
  for (Block& block : batch.blocks) block.indptr = {0};
  ExpectComesBack(batch);
}

TEST_F(SampleFileTest, NumbersBeyondFourBytes) {
  MiniBatch batch = Example();
  batch.input_nodes[1] = int64_t{1} << 47;
  ExpectComesBack(batch);
  batch = Example();
  batch.in_degrees[1] = int64_t{1} << 40;
  ExpectComesBack(batch);
  batch.in_degrees[1] = INT32_MAX;
  batch.input_nodes[0] = INT32_MAX;
  ExpectComesBack(batch);
}

TEST_F(SampleFileTest, ATopLayerComesBack) {
  MiniBatch batch = Example();
  TopLayer& top = batch.top.emplace();
  top.nodes = {int64_t{1} << 40, 7, 3};
  top.in_degrees = {1, 0, int64_t{1} << 33};
  top.computed = {0, 2};
  top.pulled = {1};
  top.pushed = {2};
  top.sum_of_ages = 5;
  batch.node_types = {2, 0, 0, 1};
  top.node_types = {0, 1, 2};
  ASSERT_TRUE(WriteSample(posix_, path_, batch).ok());
  const auto read = ReadSample(posix_, path_, batch.key);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_TRUE(read->top.has_value());
  EXPECT_EQ(read->top->nodes, top.nodes);
  EXPECT_EQ(read->top->in_degrees, top.in_degrees);
  EXPECT_EQ(read->top->computed, top.computed);
  EXPECT_EQ(read->top->pulled, top.pulled);
  EXPECT_EQ(read->top->pushed, top.pushed);
  EXPECT_EQ(read->top->sum_of_ages, 5);
  EXPECT_EQ(read->node_types, batch.node_types);
  EXPECT_EQ(read->top->node_types, top.node_types);
  ExpectComesBack(batch);
  // A cut at any byte is found.
  const std::string whole = *io::ReadWholeFile(posix_, path_, 1 << 20);
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(
        io::WriteFileAtomically(posix_, path_, whole.substr(0, size)).ok());
    EXPECT_TRUE(absl::IsDataLoss(ReadSample(posix_, path_, batch.key).status()))
        << size;
  }
}

TEST_F(SampleFileTest, TakesFourBytesANumberWhereTheyFit) {
  const auto small = WriteSample(posix_, path_, Example());
  MiniBatch batch = Example();
  batch.input_nodes[0] = int64_t{1} << 40;
  EXPECT_EQ(*WriteSample(posix_, path_, batch), *small + 4 * 4);
}

TEST_F(SampleFileTest, EveryFlippedBitShows) {
  ASSERT_TRUE(WriteSample(posix_, path_, Example()).ok());
  const std::string whole = *io::ReadWholeFile(posix_, path_, 1 << 20);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bent = whole;
    bent[at] = static_cast<char>(bent[at] ^ 16);
    ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, bent).ok());
    const absl::Status status =
        ReadSample(posix_, path_, Example().key).status();
    // The last four bytes of the header are unused.
    if (absl::IsDataLoss(status)) {
      EXPECT_NE(status.message().find(path_), absl::string_view::npos);
      EXPECT_NE(status.message().find("at byte"), absl::string_view::npos);
    } else {
      EXPECT_TRUE(status.ok() && at >= 76 && at < 80) << at << ": " << status;
    }
  }
}

TEST_F(SampleFileTest, EveryLengthButItsOwnIsRefused) {
  ASSERT_TRUE(WriteSample(posix_, path_, Example()).ok());
  const std::string whole = *io::ReadWholeFile(posix_, path_, 1 << 20);
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(
        io::WriteFileAtomically(posix_, path_, whole.substr(0, size)).ok());
    EXPECT_TRUE(
        absl::IsDataLoss(ReadSample(posix_, path_, Example().key).status()))
        << size;
  }
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, whole + "x").ok());
  EXPECT_TRUE(
      absl::IsDataLoss(ReadSample(posix_, path_, Example().key).status()));
}

TEST_F(SampleFileTest, NodesAreCheckedWithoutTheRest) {
  ASSERT_TRUE(WriteSample(posix_, path_, Example()).ok());
  std::string bent = *io::ReadWholeFile(posix_, path_, 1 << 20);
  bent.back() ^= 1;
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, bent).ok());
  std::vector<NodeId> nodes;
  EXPECT_TRUE(ReadSampleNodes(posix_, path_, Example().key, nodes).ok());
  bent[73] ^= 1;
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, bent).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(ReadSampleNodes(posix_, path_, Example().key, nodes)));
  ASSERT_TRUE(io::WriteFileAtomically(posix_, path_, bent.substr(0, 80)).ok());
  EXPECT_TRUE(
      absl::IsDataLoss(ReadSampleNodes(posix_, path_, Example().key, nodes)));
}

TEST_F(SampleFileTest, AnotherBatchIsNotTakenForThisOne) {
  ASSERT_TRUE(WriteSample(posix_, path_, Example()).ok());
  for (const BatchKey& key : {BatchKey{2, 8}, BatchKey{3, 7}}) {
    EXPECT_TRUE(absl::IsDataLoss(ReadSample(posix_, path_, key).status()));
  }
}

TEST_F(SampleFileTest, DamageOnTheWayIsReadOnceMore) {
  ASSERT_TRUE(WriteSample(posix_, path_, Example()).ok());
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  const auto read = ReadSample(faulty_, path_, Example().key);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectEqual(Example(), *read);
  EXPECT_EQ(faulty_.hits(), 1);
}

TEST_F(SampleFileTest, AFailedWriteLeavesNothing) {
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth});
    const auto written = WriteSample(faulty_, path_, Example());
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(written.status())) << nth;
    EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status())) << nth;
  }
}

TEST_F(SampleFileTest, AFullDiskLeavesNothing) {
  faulty_.LimitSpace(50);
  const absl::Status status = WriteSample(faulty_, path_, Example()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status()));
}

TEST_F(SampleFileTest, FailedReadsAreReturned) {
  ASSERT_TRUE(WriteSample(posix_, path_, Example()).ok());
  std::vector<NodeId> nodes;
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth, .for_good = true});
    const absl::Status status =
        ReadSample(faulty_, path_, Example().key).status();
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth;
    EXPECT_TRUE(absl::IsUnavailable(
        ReadSampleNodes(faulty_, path_, Example().key, nodes)));
  }
  EXPECT_TRUE(absl::IsNotFound(
      ReadSample(posix_, scratch_.Path("none"), Example().key).status()));
}

}  // namespace
}  // namespace hearth::sample
