#include "engine/strategy/packing/sample_spool.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/strategy/packing/batch_code.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using sample::MiniBatch;
using store::NodeId;

// Two layers; `offset` is added to the nodes.
MiniBatch MakeBatch(uint64_t number, NodeId offset) {
  MiniBatch batch;
  batch.key = {.epoch_key = 3, .batch = number};
  batch.num_seeds = 1;
  batch.input_nodes = {offset + 5, offset, offset + 900};
  batch.in_degrees = {2, 0, 300};
  batch.blocks.resize(2);
  batch.blocks[0] = {3, 2, {0, 2, 3}, {1, 2, 0}};
  batch.blocks[1] = {2, 1, {0, 1}, {1}};
  return batch;
}

void ExpectSame(const MiniBatch& a, const MiniBatch& b) {
  EXPECT_EQ(a.key.epoch_key, b.key.epoch_key);
  EXPECT_EQ(a.key.batch, b.key.batch);
  EXPECT_EQ(a.num_seeds, b.num_seeds);
  EXPECT_EQ(a.input_nodes, b.input_nodes);
  EXPECT_EQ(a.in_degrees, b.in_degrees);
  ASSERT_EQ(a.blocks.size(), b.blocks.size());
  for (size_t i = 0; i < a.blocks.size(); ++i) {
    EXPECT_EQ(a.blocks[i].num_sources, b.blocks[i].num_sources);
    EXPECT_EQ(a.blocks[i].num_destinations, b.blocks[i].num_destinations);
    EXPECT_EQ(a.blocks[i].indptr, b.blocks[i].indptr);
    EXPECT_EQ(a.blocks[i].indices, b.blocks[i].indices);
    EXPECT_EQ(a.blocks[i].edge_types, b.blocks[i].edge_types);
  }
  EXPECT_EQ(a.node_types, b.node_types);
  ASSERT_EQ(a.top.has_value(), b.top.has_value());
  if (!a.top.has_value()) return;
  EXPECT_EQ(a.top->nodes, b.top->nodes);
  EXPECT_EQ(a.top->in_degrees, b.top->in_degrees);
  EXPECT_EQ(a.top->node_types, b.top->node_types);
  EXPECT_EQ(a.top->computed, b.top->computed);
  EXPECT_EQ(a.top->pulled, b.top->pulled);
  EXPECT_EQ(a.top->pushed, b.top->pushed);
  EXPECT_EQ(a.top->sum_of_ages, b.top->sum_of_ages);
}

// A batch of a heterograph, with types up to `highest`.
MiniBatch MakeTypedBatch(uint64_t number, store::TypeId highest) {
  MiniBatch batch = MakeBatch(number, 1000);
  batch.node_types = {0, highest, 1};
  batch.blocks[0].edge_types = {0, 2, highest};
  batch.blocks[1].edge_types = {0};
  return batch;
}

// `batch` with a top layer of four nodes, some of them pulled.
MiniBatch WithTop(MiniBatch batch, std::vector<int32_t> computed,
                  std::vector<int32_t> pulled) {
  batch.top = {.nodes = {8, 7, int64_t{1} << 33, 6},
               .in_degrees = {0, 1, 70'000, 2},
               .computed = std::move(computed),
               .pulled = std::move(pulled),
               .pushed = {},
               .sum_of_ages = 5};
  if (!batch.top->computed.empty()) {
    batch.top->pushed = {batch.top->computed.back()};
  }
  if (!batch.node_types.empty()) batch.top->node_types = {0, 300, 2, 1};
  return batch;
}

TEST(BatchCodeTest, ComesBackWhateverTheWidths) {
  MiniBatch empty;
  empty.key = {.epoch_key = 0, .batch = 9};
  for (const MiniBatch& batch :
       {MakeBatch(0, 0), MakeBatch(1, 70'000), MakeBatch(2, int64_t{1} << 40),
        empty, MakeTypedBatch(3, 3), MakeTypedBatch(4, 40'000),
        WithTop(MakeBatch(5, 0), {1, 3}, {0, 2}),
        WithTop(MakeTypedBatch(6, 3), {0}, {1, 2, 3}),
        WithTop(MakeBatch(7, 0), {0, 1, 2, 3}, {}),
        WithTop(empty, {}, {0, 1, 2, 3})}) {
    const std::vector<std::byte> bytes = EncodeBatch(batch);
    const auto decoded = DecodeBatch(bytes, batch.key);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectSame(*decoded, batch);
    std::vector<NodeId> nodes;
    ASSERT_TRUE(DecodeBatchNodes(
                    absl::MakeConstSpan(bytes).first(EncodedNodesBytes(batch)),
                    batch.key, nodes)
                    .ok());
    EXPECT_EQ(nodes, batch.input_nodes);
  }
  // Nodes in 2 bytes each instead of 6.
  EXPECT_EQ(EncodeBatch(MakeBatch(0, 0)).size() + 3 * 4,
            EncodeBatch(MakeBatch(0, int64_t{1} << 40)).size());
}

void ExpectEveryBitIsCovered(const MiniBatch& batch) {
  const std::vector<std::byte> good = EncodeBatch(batch);
  for (size_t at = 0; at < good.size(); ++at) {
    // The last 4 bytes of the header are unused.
    if (at >= 68 && at < 72) continue;
    std::vector<std::byte> bent = good;
    bent[at] ^= std::byte{1};
    EXPECT_TRUE(absl::IsDataLoss(DecodeBatch(bent, batch.key).status())) << at;
    EXPECT_TRUE(absl::IsDataLoss(CheckBatch(bent, batch.key))) << at;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(
        DecodeBatch(absl::MakeConstSpan(good).first(size), batch.key).status()))
        << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeBatch(good, {.epoch_key = 3, .batch = 5}).status()));
  EXPECT_TRUE(CheckBatch(good, batch.key).ok());
  EXPECT_TRUE(absl::IsDataLoss(
      CheckBatch(absl::MakeConstSpan(good).first(good.size() - 1), batch.key)));
  EXPECT_TRUE(absl::IsDataLoss(CheckBatch(good, {.epoch_key = 3, .batch = 5})));
}

TEST(BatchCodeTest, EveryBitIsCovered) {
  ExpectEveryBitIsCovered(MakeBatch(4, 1000));
  ExpectEveryBitIsCovered(MakeTypedBatch(4, 7));
  ExpectEveryBitIsCovered(WithTop(MakeTypedBatch(4, 7), {1}, {0, 2, 3}));
}

class SampleSpoolTest : public ::testing::Test {
 protected:
  SampleSpoolTest() {
    for (uint64_t i = 0; i < 3; ++i) {
      batches_.push_back(MakeBatch(i, static_cast<NodeId>(i * 40'000)));
    }
  }

  absl::Status Write(io::FileSystem& files) {
    auto writer = SampleSpoolWriter::Create(files, path_);
    if (!writer.ok()) return writer.status();
    for (const MiniBatch& batch : batches_) {
      const absl::Status status = (*writer)->Append(batch);
      if (!status.ok()) return status;
    }
    return (*writer)->Finish();
  }

  void Flip(const std::string& path, size_t at) {
    std::string contents = *io::ReadWholeFile(posix_, path, 1 << 20);
    contents[at] ^= 2;
    ASSERT_TRUE(io::WriteFileAtomically(posix_, path, contents).ok());
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("samples");
  std::vector<MiniBatch> batches_;
};

TEST_F(SampleSpoolTest, EveryBatchComesBack) {
  ASSERT_TRUE(Write(posix_).ok());
  const auto spool = SampleSpool::Open(posix_, path_);
  ASSERT_TRUE(spool.ok()) << spool.status();
  ASSERT_EQ((*spool)->num_batches(), 3);
  ASSERT_EQ((*spool)->sizes().size(), 3u);
  for (const int64_t i : {2, 0, 1}) {
    const auto nodes = (*spool)->Load(i);
    ASSERT_TRUE(nodes.ok()) << nodes.status();
    EXPECT_EQ(std::vector<NodeId>(nodes->begin(), nodes->end()),
              batches_[i].input_nodes);
    std::vector<std::byte> bytes((*spool)->sizes()[i]);
    ASSERT_TRUE((*spool)->Read(i, absl::MakeSpan(bytes)).ok());
    EXPECT_EQ(bytes, EncodeBatch(batches_[i]));
  }
}

TEST_F(SampleSpoolTest, IsNotThereBeforeItIsFinished) {
  {
    auto writer = *SampleSpoolWriter::Create(posix_, path_);
    ASSERT_TRUE(writer->Append(batches_[0]).ok());
    EXPECT_TRUE(absl::IsNotFound(SampleSpool::Open(posix_, path_).status()));
  }
  EXPECT_TRUE(posix_.List(scratch_.path())->empty());
  ASSERT_TRUE(Write(posix_).ok());
  ASSERT_TRUE(SampleSpool::Remove(posix_, path_).ok());
  EXPECT_TRUE(posix_.List(scratch_.path())->empty());
}

TEST_F(SampleSpoolTest, AnyFailureLeavesNoSpool) {
  for (int64_t nth = 1;; ++nth) {
    faulty_.Inject({.nth = nth});
    const absl::Status status = Write(faulty_);
    if (faulty_.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << nth << ": " << status;
    EXPECT_TRUE(posix_.List(scratch_.path())->empty()) << nth;
  }
  faulty_.Clear();
  faulty_.LimitSpace(200);
  EXPECT_TRUE(absl::IsResourceExhausted(Write(faulty_)));
}

TEST_F(SampleSpoolTest, DamageIsNamedByFileBatchAndOffset) {
  ASSERT_TRUE(Write(posix_).ok());
  const auto spool = *SampleSpool::Open(posix_, path_);
  const uint64_t begin = spool->sizes()[0];
  Flip(path_, begin + 75);
  // The open file stays readable after the rename.
  const auto bent = *SampleSpool::Open(posix_, path_);
  EXPECT_TRUE(bent->Load(0).ok());
  const absl::Status status = bent->Load(1).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  for (const std::string& named :
       {path_, std::string("batch 1"), absl::StrCat("byte ", begin)}) {
    EXPECT_NE(status.message().find(named), absl::string_view::npos) << named;
  }
  std::vector<std::byte> bytes(bent->sizes()[1]);
  EXPECT_TRUE(absl::IsDataLoss(bent->Read(1, absl::MakeSpan(bytes))));
  Flip(path_ + ".index", 40);
  EXPECT_TRUE(absl::IsDataLoss(SampleSpool::Open(posix_, path_).status()));
}

TEST_F(SampleSpoolTest, DamageOnTheWayIsReadOnceMore) {
  ASSERT_TRUE(Write(posix_).ok());
  const auto spool = *SampleSpool::Open(faulty_, path_);
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  EXPECT_TRUE(spool->Load(1).ok());
  EXPECT_EQ(faulty_.hits(), 1);
}

TEST_F(SampleSpoolTest, AFileOfAnotherSizeIsRefused) {
  ASSERT_TRUE(Write(posix_).ok());
  const std::string whole = *io::ReadWholeFile(posix_, path_, 1 << 20);
  ASSERT_TRUE(
      io::WriteFileAtomically(posix_, path_, whole.substr(0, whole.size() - 1))
          .ok());
  EXPECT_TRUE(absl::IsDataLoss(SampleSpool::Open(posix_, path_).status()));
}

}  // namespace
}  // namespace hearth::strategy
