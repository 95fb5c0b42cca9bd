// Imports that are killed or fail, and go on with the whole parts of earlier
// runs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/import/resumption.h"
#include "engine/ingest/inspect/verify.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/store/testing/numpy_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::ingest {
namespace {

using hearth::testing::HeteroGraph;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Contents of all files of a dataset; of the manifest, the part that is the
/// same in each import.
using Contents = std::map<std::string, std::string>;

class ResumedImportTest : public ::testing::Test {
 protected:
  ResumedImportTest() {
    options_.source = scratch_.Path("source");
    options_.name = "graph";
    options_.destination = scratch_.Path("dataset");
    options_.unfinished = scratch_.Path("import-1.tmp");
    options_.fill_features = true;
    ImportResumption& resumption = options_.resumption.emplace();
    resumption.key = "the job";
    resumption.min_bytes = 0;
    resumption.on_durable = [this] {
      if (++durable_ == die_after_) files_.Inject({.for_good = true});
    };
    resumption.on_log = [this](const std::string& text) {
      logs_.push_back(text);
    };
    // Ten parts: three of nodes, four of edges, two of features, one filled in.
    EXPECT_TRUE(hearth::testing::WriteGraphBoltFolder({.author_dim = 0},
                                                      options_.source)
                    .ok());
  }

  static constexpr int kNumParts = 10;

  /// Runs the import once, as a process that dies after `die_after` records are
  /// durable: from then on its changes to files have no effect.
  absl::Status Live(int die_after = -1) {
    durable_ = 0;
    die_after_ = die_after;
    logs_.clear();
    num_calls_before_ = files_.calls().size();
    const absl::Status status =
        ImportDataset(files_, {format_}, options_, nullptr, stop_.get_token())
            .status();
    files_.Clear();
    return status;
  }

  /// Contents of the dataset, which is removed.
  Contents TakeDataset() {
    Contents contents;
    const auto dataset = store::Dataset::Open(posix_, options_.destination);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    if (!dataset.ok()) return contents;
    EXPECT_TRUE(VerifyDataset(posix_, **dataset, nullptr, {}).ok());
    const std::vector<std::string> names = *posix_.List(options_.destination);
    for (const std::string& name : names) {
      contents[name] = *io::ReadWholeFile(
          posix_, io::JoinPath(options_.destination, name), 1 << 30);
    }
    const store::Manifest& manifest = (*dataset)->manifest();
    contents[store::Manifest::kFileName] =
        absl::StrCat(manifest.fingerprint, manifest.SizeBytes());
    for (const std::string& transform : manifest.transforms) {
      absl::StrAppend(&contents[store::Manifest::kFileName], "\n", transform);
    }
    EXPECT_TRUE(posix_.RemoveTree(options_.destination).ok());
    EXPECT_TRUE(absl::IsNotFound(posix_.Stat(options_.unfinished).status()));
    return contents;
  }

  Contents ImportUndisturbed() {
    EXPECT_TRUE(Live().ok());
    return TakeDataset();
  }

  /// Whether the last run created a file of that name.
  bool WasWritten(const std::string& name) {
    const auto calls = files_.calls();
    for (size_t i = num_calls_before_; i < calls.size(); ++i) {
      if (calls[i].operation == io::Operation::kCreate &&
          absl::EndsWith(calls[i].path, absl::StrCat("/", name))) {
        return true;
      }
    }
    return false;
  }

  std::string RecordPath() const {
    return io::JoinPath(options_.unfinished, KeptParts::kRecordName);
  }

  std::string ReadSource(const std::string& name) {
    return *io::ReadWholeFile(posix_, io::JoinPath(options_.source, name),
                              1 << 30);
  }

  enum class Damage { kCut, kRemoved, kChanged };

  /// Damages the last byte of the file.
  void Inflict(Damage damage, const std::string& path) {
    if (damage == Damage::kRemoved) {
      ASSERT_TRUE(posix_.RemoveTree(path).ok());
      return;
    }
    std::string bytes = *io::ReadWholeFile(posix_, path, 1 << 30);
    bytes.back() ^= 1;
    if (damage == Damage::kCut) bytes.pop_back();
    WriteFile(path, bytes);
  }

  void WriteFile(const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(io::WriteFileAtomically(posix_, path, bytes).ok());
  }

  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{posix_};
  ImportOptions options_;
  std::string format_ = "graphbolt";
  std::stop_source stop_;
  int durable_ = 0;
  int die_after_ = -1;
  size_t num_calls_before_ = 0;
  std::vector<std::string> logs_;
};

TEST_F(ResumedImportTest, NoPartThatWasRecordedIsMadeAgain) {
  for (const bool in_place : {false, true}) {
    options_.in_place = in_place;
    const Contents expected = ImportUndisturbed();
    EXPECT_EQ(durable_, kNumParts);
    EXPECT_THAT(logs_, IsEmpty());
    // In place, only features are made differently.
    for (int parts = in_place ? 8 : 1; parts <= kNumParts; ++parts) {
      SCOPED_TRACE(parts);
      EXPECT_FALSE(Live(parts).ok());
      ASSERT_TRUE(Live().ok());
      EXPECT_THAT(logs_, SizeIs(parts));
      EXPECT_THAT(logs_, Each(HasSubstr("kept from an earlier run: ")));
      EXPECT_EQ(durable_, kNumParts - parts);
      EXPECT_EQ(WasWritten("paper.labels.npy"), parts < 2);
      EXPECT_EQ(WasWritten("paper_cites_paper.indices.npy"), parts < 5);
      EXPECT_EQ(WasWritten("paper.features.npy.rows.crc"), parts < 8);
      EXPECT_EQ(WasWritten("author.features.npy"), parts < 10);
      EXPECT_EQ(TakeDataset(), expected);
    }
  }
}

TEST_F(ResumedImportTest, LivesOfOnePartEachComeToAnEnd) {
  const Contents expected = ImportUndisturbed();
  for (int life = 0; life < kNumParts; ++life) {
    EXPECT_FALSE(Live(1).ok());
    EXPECT_THAT(logs_, SizeIs(life));
  }
  ASSERT_TRUE(Live().ok());
  EXPECT_EQ(durable_, 0);
  EXPECT_THAT(logs_, SizeIs(kNumParts));
  EXPECT_EQ(logs_.front(),
            "kept from an earlier run: labels, split and ids of author");
  EXPECT_EQ(TakeDataset(), expected);
}

TEST_F(ResumedImportTest, AStopKeepsPartsAndNothingElse) {
  const Contents expected = ImportUndisturbed();
  options_.resumption->on_durable = [this] {
    if (++durable_ == 8) stop_.request_stop();
  };
  EXPECT_TRUE(absl::IsCancelled(Live()));
  const std::vector<std::string> left = *posix_.List(options_.unfinished);
  EXPECT_THAT(left, Contains(KeptParts::kRecordName));
  EXPECT_THAT(left, Contains("paper.features.npy"));
  EXPECT_THAT(left, Not(Contains(HasSubstr("venue.features"))));
  EXPECT_THAT(left, Not(Contains("scratch")));
  stop_ = std::stop_source();
  ASSERT_TRUE(Live().ok());
  EXPECT_THAT(logs_, SizeIs(8));
  EXPECT_EQ(TakeDataset(), expected);
}

TEST_F(ResumedImportTest, WithoutResumptionNothingStays) {
  EXPECT_FALSE(Live(5).ok());
  options_.resumption.reset();
  ASSERT_TRUE(Live().ok());
  EXPECT_TRUE(WasWritten("paper.labels.npy"));
  EXPECT_FALSE(WasWritten(absl::StrCat(KeptParts::kRecordName, ".tmp")));
  TakeDataset();
}

TEST_F(ResumedImportTest, SmallPartsAreNotRecorded) {
  options_.resumption->min_bytes = ImportResumption().min_bytes;
  ASSERT_TRUE(Live().ok());
  EXPECT_EQ(durable_, 0);
  EXPECT_FALSE(WasWritten(absl::StrCat(KeptParts::kRecordName, ".tmp")));
  TakeDataset();
  // Parts are recorded together, once they have 40,000 bytes.
  options_.resumption->min_bytes = 40'000;
  ASSERT_TRUE(Live().ok());
  EXPECT_GT(durable_, 0);
  EXPECT_LT(durable_, kNumParts);
}

TEST_F(ResumedImportTest, ADamagedRecordIsNone) {
  const Contents expected = ImportUndisturbed();
  ASSERT_FALSE(Live(6).ok());
  const std::string record = *io::ReadWholeFile(posix_, RecordPath(), 1 << 30);
  ASSERT_TRUE(Live().ok());
  TakeDataset();
  for (size_t at = 0; at < record.size(); at += record.size() / 7) {
    SCOPED_TRACE(at);
    ASSERT_FALSE(Live(6).ok());
    std::string damaged = record;
    damaged[at] ^= 1;
    WriteFile(RecordPath(), at % 2 == 0 ? damaged : record.substr(0, at));
    ASSERT_TRUE(Live().ok());
    EXPECT_THAT(logs_, ElementsAre(HasSubstr("started over")));
    EXPECT_EQ(TakeDataset(), expected);
  }
}

TEST_F(ResumedImportTest, APartThatIsDamagedIsMadeAgain) {
  const Contents expected = ImportUndisturbed();
  const std::map<std::string, std::string> parts = {
      {"paper.labels.npy", "labels, split and ids of paper"},
      {"paper.train.npy.crc", "labels, split and ids of paper"},
      {"paper_cites_paper.indices.npy", "edges of paper:cites:paper"},
      {"paper.features.npy", "features of paper"}};
  for (const auto& [name, part] : parts) {
    const std::string path = io::JoinPath(options_.unfinished, name);
    for (const Damage damage :
         {Damage::kCut, Damage::kRemoved, Damage::kChanged}) {
      SCOPED_TRACE(absl::StrCat(name, " ", static_cast<int>(damage)));
      ASSERT_FALSE(Live(9).ok());
      Inflict(damage, path);
      ASSERT_TRUE(Live().ok());
      EXPECT_THAT(logs_, SizeIs(9));
      EXPECT_THAT(logs_.front(),
                  StartsWith(absl::StrCat("made again: ", part, ": ")));
      EXPECT_THAT(
          logs_,
          Not(Contains(absl::StrCat("kept from an earlier run: ", part))));
      EXPECT_EQ(TakeDataset(), expected);
    }
  }
}

TEST_F(ResumedImportTest, WhereEveryPartIsDamagedNoneIsKept) {
  const store::NumpyFolder folder;
  format_ = "numpy";
  options_.source = io::JoinPath(folder.scratch().path(), "source");
  options_.fill_features = false;
  const Contents expected = ImportUndisturbed();
  ASSERT_FALSE(Live(1).ok());
  Inflict(Damage::kChanged,
          io::JoinPath(options_.unfinished, "node.labels.npy"));
  ASSERT_TRUE(Live().ok());
  EXPECT_THAT(logs_, ElementsAre(HasSubstr("made again: labels, split and")));
  EXPECT_EQ(TakeDataset(), expected);
}

TEST_F(ResumedImportTest, ADeathAfterDamageWasFoundLosesNoOtherPart) {
  const Contents expected = ImportUndisturbed();
  ASSERT_FALSE(Live(9).ok());
  Inflict(Damage::kChanged,
          io::JoinPath(options_.unfinished, "paper.labels.npy"));
  EXPECT_FALSE(Live(1).ok());
  ASSERT_TRUE(Live().ok());
  EXPECT_THAT(logs_, SizeIs(9));
  EXPECT_THAT(logs_, Each(HasSubstr("kept from an earlier run: ")));
  EXPECT_EQ(TakeDataset(), expected);
}

TEST_F(ResumedImportTest, ASourceThatChangedIsImportedAnew) {
  for (const char* name : {"metadata.yaml", "paper.npy"}) {
    SCOPED_TRACE(name);
    ASSERT_FALSE(Live(8).ok());
    // As many bytes at the same time; other bytes only in features.
    const std::string path = io::JoinPath(options_.source, name);
    const absl::Time modified = posix_.Stat(path)->modified;
    std::string bytes = ReadSource(name);
    if (absl::EndsWith(name, ".npy")) {
      std::swap(bytes.back(), bytes[bytes.size() - 5]);
    }
    WriteFile(path, bytes);
    const timespec times[2] = {absl::ToTimespec(modified),
                               absl::ToTimespec(modified)};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    ASSERT_TRUE(Live().ok());
    EXPECT_THAT(logs_, ElementsAre(HasSubstr("started over")));
    EXPECT_EQ(durable_, kNumParts);
    const Contents resumed = TakeDataset();
    EXPECT_EQ(resumed, ImportUndisturbed());
  }
}

TEST_F(ResumedImportTest, AnotherKeyIsAnotherImport) {
  ASSERT_FALSE(Live(8).ok());
  options_.resumption->key = "the job with another option";
  options_.edges.remove_duplicates = true;
  ASSERT_TRUE(Live().ok());
  EXPECT_THAT(logs_, ElementsAre(HasSubstr("started over")));
  const Contents resumed = TakeDataset();
  EXPECT_EQ(resumed, ImportUndisturbed());
}

TEST_F(ResumedImportTest, TheMemoryLimitMayBeAnother) {
  const Contents expected = ImportUndisturbed();
  ASSERT_FALSE(Live(5).ok());
  options_.memory_limit_bytes = 1 << 20;
  ASSERT_TRUE(Live().ok());
  EXPECT_THAT(logs_, SizeIs(5));
  EXPECT_EQ(TakeDataset(), expected);
}

TEST_F(ResumedImportTest, SpaceIsAskedForWhatIsNotThere) {
  const auto bytes_needed = [this] {
    files_.LimitSpace(0);
    const std::string message(Live().message());
    uint64_t bytes = 0;
    const size_t at = message.find("the import needs ");
    EXPECT_NE(at, std::string::npos) << message;
    std::sscanf(message.c_str() + at, "the import needs %ju", &bytes);
    files_.LimitSpace(UINT64_MAX);
    return bytes;
  };
  const uint64_t all = bytes_needed();
  ASSERT_FALSE(Live(8).ok());
  uint64_t there = 0;
  const std::vector<std::string> names = *posix_.List(options_.unfinished);
  for (const std::string& name : names) {
    if (name == KeptParts::kRecordName) continue;
    there += posix_.Stat(io::JoinPath(options_.unfinished, name))->size_bytes;
  }
  EXPECT_EQ(bytes_needed(), all - there);
}

// ---- Every fault

struct FaultCase {
  io::Effect effect;
  bool for_good;
  /// Parts of an earlier run, and whether the first of them is damaged.
  int num_parts;
  bool is_damaged = false;
};

class ResumedImportFaultTest : public ResumedImportTest,
                               public ::testing::WithParamInterface<FaultCase> {
 protected:
  ResumedImportFaultTest() {
    format_ = "numpy";
    options_.source = io::JoinPath(folder_.scratch().path(), "source");
    options_.fill_features = false;
  }

  store::NumpyFolder folder_;
};

TEST_P(ResumedImportFaultTest, TheNextRunGoesOnAfterAnyFault) {
  const Contents expected = ImportUndisturbed();
  int64_t nth = 1;
  for (bool hit = true; hit; ++nth) {
    SCOPED_TRACE(nth);
    if (GetParam().num_parts > 0) {
      ASSERT_FALSE(Live(GetParam().num_parts).ok());
    }
    if (GetParam().is_damaged) {
      Inflict(Damage::kChanged,
              io::JoinPath(options_.unfinished, "node.labels.npy"));
    }
    files_.Inject({.nth = nth,
                   .for_good = GetParam().for_good,
                   .effect = GetParam().effect});
    durable_ = 0;
    die_after_ = -1;
    const absl::Status status =
        ImportDataset(files_, {format_}, options_, nullptr, {}).status();
    hit = files_.hits() > 0;
    files_.Clear();
    // The dataset may have appeared despite the failure.
    if (!posix_.Stat(options_.destination).ok()) {
      ASSERT_FALSE(status.ok());
      ASSERT_TRUE(Live().ok());
    }
    ASSERT_EQ(TakeDataset(), expected) << status;
  }
  EXPECT_GT(nth, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Effects, ResumedImportFaultTest,
    ::testing::Values(FaultCase{io::Effect::kFail, false, 0},
                      FaultCase{io::Effect::kFail, true, 0},
                      FaultCase{io::Effect::kFail, true, 1},
                      FaultCase{io::Effect::kFail, false, 2, true},
                      FaultCase{io::Effect::kFail, true, 2, true},
                      FaultCase{io::Effect::kLoseReply, true, 0},
                      FaultCase{io::Effect::kLoseReply, false, 1}));

// ---- Sources that are unpacked first

TEST_F(ResumedImportTest, TextThatIsRelabeledGoesOnToo) {
  format_ = "edge-list";
  options_.fill_features = false;
  options_.source = scratch_.Path("edges.txt");
  WriteFile(options_.source, "ann bob\nbob eve\neve ann\nann eve\n");
  const auto live = [this](int die_after) {
    die_after_ = die_after;
    durable_ = 0;
    logs_.clear();
    FormatChoice choice{format_};
    choice.options.edge_list.relabel = true;
    const absl::Status status =
        ImportDataset(files_, choice, options_, nullptr, {}).status();
    files_.Clear();
    return status;
  };
  ASSERT_TRUE(live(-1).ok());
  const Contents expected = TakeDataset();
  EXPECT_FALSE(live(1).ok());
  EXPECT_FALSE(live(1).ok());
  ASSERT_TRUE(live(-1).ok());
  EXPECT_THAT(
      logs_,
      ElementsAre("kept from an earlier run: labels, split and ids of node",
                  "kept from an earlier run: edges of edge"));
  EXPECT_EQ(TakeDataset(), expected);
}

}  // namespace
}  // namespace hearth::ingest
