#include "engine/strategy/superbatch/runtime_files.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

class RuntimeFilesTest : public ::testing::Test {
 protected:
  static sample::MiniBatch Batch(uint64_t number,
                                 const std::vector<NodeId>& nodes) {
    sample::MiniBatch batch;
    batch.key = {.epoch_key = 6, .batch = number};
    batch.input_nodes = nodes;
    batch.in_degrees.resize(nodes.size());
    return batch;
  }

  std::unique_ptr<RuntimeFiles> Create() {
    auto files = RuntimeFiles::Create(faulty_, folder_, pass_);
    EXPECT_TRUE(files.ok()) << files.status();
    return *std::move(files);
  }

  const Pass pass_ = {.sampler = {}, .epoch_key = 6};
  const io::ScratchDirectory scratch_;
  const std::string folder_ = scratch_.Path("pass");
  io::FaultyFileSystem faulty_{io::FileSystem::Posix()};
};

TEST_F(RuntimeFilesTest, ASampleIsTakenOnce) {
  const auto files = Create();
  const auto bytes = files->WriteSample(8, Batch(8, {5, 1}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 0u);
  const auto taken = files->TakeSample(8);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->input_nodes, (std::vector<NodeId>{5, 1}));
  EXPECT_TRUE(faulty_.List(folder_)->empty());
  EXPECT_TRUE(absl::IsNotFound(files->TakeSample(8).status()));
}

TEST_F(RuntimeFilesTest, ATraceWalksASuperbatchAsOftenAsOneLikes) {
  const auto files = Create();
  for (const uint64_t number : {4, 5, 6}) {
    ASSERT_TRUE(
        files
            ->WriteSample(static_cast<int64_t>(number),
                          Batch(number, {static_cast<NodeId>(number), 1}))
            .ok());
  }
  const auto trace = files->NewTrace({.first = 5, .count = 2});
  EXPECT_EQ(trace->num_batches(), 2);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(*trace->Load(0), absl::MakeConstSpan({NodeId{5}, NodeId{1}}));
    EXPECT_EQ(*trace->Load(1), absl::MakeConstSpan({NodeId{6}, NodeId{1}}));
  }
  ASSERT_TRUE(files->TakeSample(6).ok());
  EXPECT_TRUE(absl::IsNotFound(trace->Load(1).status()));
}

TEST_F(RuntimeFilesTest, PlansOfSuperbatchesDiffer) {
  const auto files = Create();
  const Superbatch first = {.first = 0, .count = 5};
  const Superbatch second = {.first = 5, .count = 5};
  ASSERT_NE(files->PlanPath(first), files->PlanPath(second));
  ASSERT_TRUE(
      io::WriteFileAtomically(faulty_, files->PlanPath(first), "plan").ok());
  EXPECT_TRUE(files->RemovePlan(second).ok()) << "nothing to remove";
  EXPECT_TRUE(files->RemovePlan(first).ok());
  EXPECT_TRUE(faulty_.List(folder_)->empty());
}

TEST_F(RuntimeFilesTest, WhatAnEarlierProcessLeftIsRemoved) {
  ASSERT_TRUE(faulty_.CreateDirectory(folder_).ok());
  ASSERT_TRUE(
      io::WriteFileAtomically(faulty_, folder_ + "/sample.3", "old").ok());
  {
    const auto files = Create();
    EXPECT_TRUE(faulty_.List(folder_)->empty());
    EXPECT_GT(*files->FreeBytes(), 0u);
  }
  EXPECT_TRUE(absl::IsNotFound(faulty_.Stat(folder_).status()))
      << "the folder goes, too";
}

TEST_F(RuntimeFilesTest, ErrorsAreReturned) {
  for (const int64_t nth : {1, 2}) {
    faulty_.Inject({.nth = nth});
    EXPECT_TRUE(absl::IsUnavailable(
        RuntimeFiles::Create(faulty_, folder_, pass_).status()));
  }
  faulty_.Clear();
  const auto files = Create();
  ASSERT_TRUE(files->WriteSample(0, Batch(0, {1})).ok());
  faulty_.Inject({.only = io::Operation::kRemoveTree});
  EXPECT_TRUE(absl::IsUnavailable(files->TakeSample(0).status()));
  faulty_.LimitSpace(10);
  EXPECT_TRUE(
      absl::IsResourceExhausted(files->WriteSample(1, Batch(1, {1})).status()));
}

}  // namespace
}  // namespace hearth::strategy
