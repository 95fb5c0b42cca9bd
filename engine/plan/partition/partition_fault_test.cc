#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/whole_file.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/testing/naive_partition.h"
#include "engine/plan/partition/write_partition.h"
#include "engine/store/testing/list_graph.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

class PartitionFaultTest : public PartitionTest {};

TEST_F(PartitionFaultTest, NamesDamageOfTheTopology) {
  RandomStream random(6, RandomPurpose::kGenerator);
  const auto dataset = Store(RandomGraph(150, random));
  for (const char* name : {"edge.indptr.npy", "edge.indices.npy"}) {
    SCOPED_TRACE(name);
    const std::string path = io::JoinPath(dataset->path(), name);
    const std::string whole = *io::ReadWholeFile(Posix(), path, 1 << 20);
    std::string damaged = whole;
    damaged[200] ^= 1;
    ASSERT_TRUE(io::WriteFileAtomically(Posix(), path, damaged).ok());
    const absl::Status status = Write(*dataset, {}, {.parts = 4}).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find(absl::StrCat(path, ": block 0")),
              std::string::npos)
        << status;
    EXPECT_TRUE(FilesThere().empty());
    ASSERT_TRUE(io::WriteFileAtomically(Posix(), path, whole).ok());
  }
}

TEST_F(PartitionFaultTest, StopsAtAnyStageAndLeavesNothing) {
  RandomStream random(7, RandomPurpose::kGenerator);
  const auto dataset = Store(RandomGraph(100, random));
  std::vector<std::string> stages;
  for (size_t stage = 0; stage <= stages.size(); ++stage) {
    std::stop_source stop;
    std::vector<std::string> seen;
    const absl::Status status =
        WritePartition(
            Posix(), *dataset, {}, {.parts = 9, .rounds = 2},
            {.folder = Folder(),
             .progress =
                 [&](const PartitionProgress& progress) {
                   EXPECT_LE(progress.done_bytes, progress.total_bytes);
                   if (seen.empty() || seen.back() != progress.stage) {
                     seen.push_back(std::string(progress.stage));
                     if (seen.size() == stage + 1) stop.request_stop();
                   }
                 },
             .stop = stop.get_token()})
            .status();
    if (status.ok()) break;
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_TRUE(FilesThere().empty());
    stages = seen;
  }
  EXPECT_EQ(stages, (std::vector<std::string>{"first level", "inner edges",
                                              "first level", "scattering",
                                              "second level", "cross counts"}));
}

TEST_F(PartitionFaultTest, FailsAtAnyCallAndLeavesNothing) {
  RandomStream random(8, RandomPurpose::kGenerator);
  const store::ListGraph graph = RandomGraph(60, random);
  const std::vector<NodeId> training_nodes = SomeNodes(60, 20, random);
  const auto dataset = Store(graph);
  const PartitionOptions options = {.parts = 5};
  io::FaultyFileSystem files(Posix());
  for (const io::Effect effect :
       {io::Effect::kFail, io::Effect::kTearWrite, io::Effect::kLoseReply}) {
    int64_t nth = 1;
    for (;; ++nth) {
      SCOPED_TRACE(absl::StrCat("call ", nth));
      files.Inject({.nth = nth, .effect = effect});
      const absl::Status status =
          WritePartition(files, *dataset, training_nodes, options,
                         {.folder = Folder(), .threads = 2})
              .status();
      const int64_t hits = files.hits();
      files.Clear();
      if (hits == 0) break;
      if (status.ok()) continue;  // Only leftovers could not be removed.
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
      EXPECT_TRUE(
          absl::IsNotFound(Partition::Open(Posix(), Folder()).status()));
    }
    EXPECT_GT(nth, 40);
    // Leftovers of the failure do not hinder the next run.
    ExpectNaive(graph, training_nodes, options);
  }
}

TEST_F(PartitionFaultTest, ReadsOnceMoreWhatWasDamagedOnTheWay) {
  RandomStream random(9, RandomPurpose::kGenerator);
  const store::ListGraph graph = RandomGraph(60, random);
  const auto dataset = Store(graph);
  const std::vector<uint16_t> expected =
      NaivePartition(graph, {}, {.parts = 5});
  io::FaultyFileSystem files(Posix());
  for (int64_t nth = 1;; ++nth) {
    files.Inject({.nth = nth,
                  .effect = io::Effect::kCorruptRead,
                  .only = io::Operation::kRead});
    const auto summary =
        WritePartition(files, *dataset, {}, {.parts = 5}, {.folder = Folder()});
    const int64_t hits = files.hits();
    files.Clear();
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(*Open()->LoadParts(), expected);
    if (hits == 0) break;
  }
}

TEST_F(PartitionFaultTest, TellsAFullDisk) {
  RandomStream random(10, RandomPurpose::kGenerator);
  const store::ListGraph graph = RandomGraph(100, random);
  const auto dataset = Store(graph);
  const PartitionOptions options = {.parts = 9};
  const PartitionShape shape = {.nodes = graph.num_nodes(),
                                .edges = graph.num_edges()};
  const uint64_t enough =
      PartitionBytes(shape, options) + PartitionScratchBytes(shape, options);
  for (uint64_t space = 0; space < enough; space += enough / 8) {
    io::FaultyFileSystem files(Posix());
    files.LimitSpace(space);
    const auto summary =
        WritePartition(files, *dataset, {}, options, {.folder = Folder()});
    if (summary.ok()) continue;
    EXPECT_TRUE(absl::IsResourceExhausted(summary.status()))
        << summary.status();
    EXPECT_TRUE(FilesThere().empty());
  }
  io::FaultyFileSystem files(Posix());
  files.LimitSpace(enough);
  const auto summary =
      WritePartition(files, *dataset, {}, options, {.folder = Folder()});
  ASSERT_TRUE(summary.ok()) << summary.status();
  uint64_t bytes = 0;
  for (const std::string& name : FilesThere()) {
    bytes += Posix().Stat(io::JoinPath(Folder(), name))->size_bytes;
  }
  EXPECT_LE(bytes, PartitionBytes(shape, options));
}

/// A small partition, to be damaged.
class DamagedPartitionTest : public PartitionTest {
 protected:
  void SetUp() override {
    RandomStream random(11, RandomPurpose::kGenerator);
    const auto dataset = Store(RandomGraph(200, random));
    ASSERT_TRUE(Write(*dataset, SomeNodes(200, 30, random), {.parts = 7}).ok());
  }

  std::string File(const char* name) const {
    return io::JoinPath(Folder(), name);
  }

  /// First error of opening the partition and reading everything.
  absl::Status ReadAll(io::FileSystem& files) {
    const auto partition = Partition::Open(files, Folder());
    if (!partition.ok()) return partition.status();
    absl::Status status = (*partition)->LoadParts().status();
    status.Update((*partition)->LoadCrossCounts().status());
    for (int part = 0; part < (*partition)->parts(); ++part) {
      status.Update((*partition)->ReadPart(part).status());
    }
    return status;
  }

  void ExpectDataLossOf(const char* name) {
    const absl::Status status = ReadAll(Posix());
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(status.message().substr(0, File(name).size()), File(name))
        << status;
  }
};

constexpr const char* kFiles[] = {kPartitionIndexFile, kPartListsFile,
                                  kTrainingNodesFile, kPartsFile,
                                  kCrossCountsFile};

TEST_F(DamagedPartitionTest, NamesTheFile) {
  ASSERT_TRUE(ReadAll(Posix()).ok());
  for (const char* name : kFiles) {
    SCOPED_TRACE(name);
    const std::string whole = *io::ReadWholeFile(Posix(), File(name), 1 << 20);
    // Offsets outside the gaps between parts of the file of lists, which nobody
    // reads.
    for (const size_t at : {size_t{0}, size_t{17}, size_t{100}}) {
      std::string damaged = whole;
      damaged[at] ^= 4;
      ASSERT_TRUE(io::WriteFileAtomically(Posix(), File(name), damaged).ok());
      ExpectDataLossOf(name);
    }
    for (const size_t size : {size_t{0}, size_t{1}, whole.size() - 1}) {
      ASSERT_TRUE(
          io::WriteFileAtomically(Posix(), File(name), whole.substr(0, size))
              .ok());
      ExpectDataLossOf(name);
    }
    ASSERT_TRUE(Posix().RemoveTree(File(name)).ok());
    if (name == kPartitionIndexFile) {
      EXPECT_TRUE(absl::IsNotFound(ReadAll(Posix())));
    } else {
      ExpectDataLossOf(name);
    }
    ASSERT_TRUE(io::WriteFileAtomically(Posix(), File(name), whole).ok());
  }
  EXPECT_TRUE(ReadAll(Posix()).ok());
}

TEST_F(DamagedPartitionTest, RefusesAnotherVersion) {
  std::string index =
      *io::ReadWholeFile(Posix(), File(kPartitionIndexFile), 1 << 20);
  ++index[8];
  ASSERT_TRUE(
      io::WriteFileAtomically(Posix(), File(kPartitionIndexFile), index).ok());
  const absl::Status status = ReadAll(Posix());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(DamagedPartitionTest, IsReadOnceMore) {
  io::FaultyFileSystem files(Posix());
  for (int64_t nth = 1;; ++nth) {
    files.Inject({.nth = nth,
                  .effect = io::Effect::kCorruptRead,
                  .only = io::Operation::kRead});
    EXPECT_TRUE(ReadAll(files).ok()) << "read " << nth;
    if (files.hits() == 0) break;
  }
}

TEST_F(DamagedPartitionTest, PassesOnErrorsOfTheDisk) {
  io::FaultyFileSystem files(Posix());
  for (int64_t nth = 1;; ++nth) {
    files.Inject({.nth = nth});
    const absl::Status status = ReadAll(files);
    if (files.hits() == 0) break;
    EXPECT_TRUE(absl::IsUnavailable(status)) << "call " << nth << status;
  }
}

}  // namespace
}  // namespace hearth::plan
