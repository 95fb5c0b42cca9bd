#include "engine/ingest/formats/edge_pieces.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Contents of files by name; of a manifest, without its time.
using Contents = std::map<std::string, std::string>;

class EdgePiecesTest : public testing::Test {
 protected:
  EdgePiecesTest() { std::filesystem::create_directory(Folder()); }

  std::string Folder() const { return scratch_.Path("pieces"); }
  std::string Path(int64_t index) const {
    return io::JoinPath(Folder(), EdgePieceName(index));
  }

  std::string Write(const std::string& name, const std::string& text) {
    std::string path = scratch_.Path(name);
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::string Read(const std::string& path) {
    return *io::ReadWholeFile(files_, path, 1 << 24);
  }

  absl::StatusOr<EdgePiecePlan> Plan(const std::vector<std::string>& texts,
                                     uint64_t piece_bytes) {
    return PlanEdgePieces(context_, texts, options_, piece_bytes, Folder());
  }

  absl::Status Make(const EdgePiecePlan& plan, int64_t index) {
    return MakeEdgePiece(context_, plan, index, Folder());
  }

  /// Empties the folder, and makes a plan and all of its pieces, the last one
  /// first.
  EdgePiecePlan MakeAll(const std::vector<std::string>& texts,
                        uint64_t piece_bytes) {
    std::filesystem::remove_all(Folder());
    std::filesystem::create_directory(Folder());
    const auto plan = Plan(texts, piece_bytes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    if (!plan.ok()) return {};
    for (int64_t i = plan->num_pieces(); i-- > 0;) {
      const absl::Status status = Make(*plan, i);
      EXPECT_TRUE(status.ok()) << status;
    }
    return *plan;
  }

  /// The dataset of `source`.
  absl::StatusOr<Contents> Import(const std::string& source,
                                  const EdgeListOptions& edge_list,
                                  const EdgeTransforms& edges = {}) {
    ImportOptions options;
    options.source = source;
    options.name = "graph";
    options.destination = scratch_.Path("dataset");
    options.memory_limit_bytes = 16 << 20;
    options.edges = edges;
    std::filesystem::remove_all(options.destination);
    FormatOptions format_options;
    format_options.edge_list = edge_list;
    const absl::Status status =
        ImportDataset(files_, {"", format_options}, options, nullptr, {})
            .status();
    if (!status.ok()) return status;
    Contents contents;
    for (const auto& entry :
         std::filesystem::directory_iterator(options.destination)) {
      const std::string name = entry.path().filename();
      contents[name] = Read(entry.path());
      if (name != store::Manifest::kFileName) continue;
      store::Manifest manifest = *store::ParseManifest(contents[name], name);
      manifest.created_unix_seconds = 0;
      contents[name] = store::SerializeManifest(manifest);
    }
    return contents;
  }

  /// Expects the dataset of the pieces to be that of `text`.
  void ExpectSame(const std::string& text, const EdgeTransforms& edges = {}) {
    const auto whole = Import(text, options_, edges);
    const auto joined = Import(Folder(), {}, edges);
    ASSERT_TRUE(whole.ok()) << whole.status();
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_EQ(*whole, *joined);
  }

  /// Numbers of the pieces that are to be made.
  std::vector<int64_t> Missing(const EdgePiecePlan& plan,
                               bool read_all = true) {
    const auto missing = FindMissingPieces(context_, plan, Folder(), read_all);
    EXPECT_TRUE(missing.ok()) << missing.status();
    std::vector<int64_t> numbers;
    faults_.clear();
    for (const MissingPiece& piece : *missing) {
      numbers.push_back(piece.index);
      faults_.push_back(piece.fault);
    }
    return numbers;
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  io::ScratchDirectory scratch_;
  EdgeListOptions options_;
  ImportContext context_{
      files_, 1 << 20, scratch_.Path("scratch"), nullptr, {}};
  /// Faults of the last call of Missing.
  std::vector<absl::Status> faults_;
};

/// A time of modification that no file of a test has otherwise.
std::filesystem::file_time_type Later() {
  return std::filesystem::file_time_type::clock::now() +
         std::chrono::seconds(5);
}

/// Lines of edges with what else may stand between them.
std::string ManyLines(int num_edges) {
  std::string text = "# a graph\n% of many lines\nsource target weight\n";
  uint64_t state = 1;
  const auto draw = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % 97;
  };
  for (int i = 0; i < num_edges; ++i) {
    absl::StrAppend(&text, draw(), " ", draw(), " ", i,
                    i % 7 == 0 ? "\r\n" : "\n");
    if (i % 11 == 0) absl::StrAppend(&text, "\n# between\n");
  }
  // The last line has no end.
  return absl::StrCat(text, "0 96 1");
}

TEST_F(EdgePiecesTest, TheDatasetIsThatOfTheTextForAnySizeOfPieces) {
  const std::string text = Write("edges.txt", ManyLines(150));
  std::set<int64_t> numbers;
  for (const uint64_t piece_bytes : {1, 30, 100, 400, 1000, 1 << 20}) {
    SCOPED_TRACE(piece_bytes);
    const EdgePiecePlan plan = MakeAll({text}, piece_bytes);
    numbers.insert(plan.num_pieces());
    EXPECT_THAT(Missing(plan), IsEmpty());
    ExpectSame(text);
  }
  EXPECT_EQ(numbers.size(), 6);
  EXPECT_EQ(*numbers.begin(), 1);
}

TEST_F(EdgePiecesTest, EdgesChangeAsThoseOfTheText) {
  const std::string text = Write("edges.txt", ManyLines(300));
  MakeAll({text}, 100);
  ExpectSame(text, {.add_reverse = true});
  ExpectSame(text, {.add_reverse = true,
                    .remove_duplicates = true,
                    .self_loops = SelfLoops::kAdd});
}

TEST_F(EdgePiecesTest, OptionsBelongToThePlan) {
  options_.has_header = false;
  options_.source_column = "3";
  options_.destination_column = "1";
  const std::string text = Write("edges.csv", "1,a,2\n3,b,0\n2,c,1\n");
  MakeAll({text}, 4);
  ExpectSame(text);
  EdgeListOptions relabel, header;
  relabel.relabel = true;
  header.has_header = true;
  for (const EdgeListOptions& options : {relabel, header, options_}) {
    const absl::Status status = Import(Folder(), options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("do not apply"));
  }
}

TEST_F(EdgePiecesTest, AMarkAndAHeaderAreOfTheTextAndNotOfAPiece) {
  for (const char* const begin : {"\xef\xbb\xbf", ""}) {
    // The header is longer than a piece.
    const std::string text =
        Write("edges.csv",
              absl::StrCat(begin, "# first\nsrc,dst\n0,1\n1,2\n2,0\n3,1\n"));
    MakeAll({text}, 3);
    ExpectSame(text);
  }
  // A mark within a text is none, wherever a piece begins.
  const std::string text = Write("marked.csv",
                                 "0,1\n\xef\xbb\xbf"
                                 "1,2\n");
  const auto plan = Plan({text}, 1);
  EXPECT_TRUE(absl::IsAlreadyExists(plan.status())) << plan.status();
  std::filesystem::remove(io::JoinPath(Folder(), EdgePiecePlan::kFileName));
  const absl::Status status = Make(*Plan({text}, 1), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST_F(EdgePiecesTest, SeveralTextsAreOneBehindTheOther) {
  const std::string first = "0 1\n5 2\n3 3\n2 5\n";
  const std::string second = "4 1\n0 2\n1 1\n";
  const std::string third = "6 0\n";
  const std::string all = Write("all.txt", first + second + third);
  const std::vector<std::string> texts = {Write("first.txt", first),
                                          Write("second.txt.gz", Gzip(second)),
                                          Write("third.txt", third)};
  const EdgePiecePlan plan = MakeAll(texts, 4);
  // A compressed text is one piece.
  EXPECT_EQ(plan.num_pieces(), 4 + 1 + 1);
  ExpectSame(all);
}

TEST_F(EdgePiecesTest, MatricesAreCheckedAsAWhole) {
  const std::string symmetric =
      "%%MatrixMarket matrix coordinate pattern symmetric\n"
      "% comment\n4 4 5\n2 1\n3 1\n3 3\n4 2\n4 3\n";
  const std::string text = Write("graph.mtx", symmetric);
  const EdgePiecePlan plan = MakeAll({text}, 4);
  // The first one has the header alone.
  EXPECT_EQ(plan.num_pieces(), 6);
  ExpectSame(text);
  struct Wrong {
    const char* from;
    const char* to;
    const char* problem;
  };
  for (const Wrong& wrong :
       {Wrong{"4 4 5", "4 4 6", "has 5 entries; line 3 says 6"},
        Wrong{"4 3\n", "3 4\n", "on both sides of the diagonal"}}) {
    const std::string other = Write(
        "other.mtx", absl::StrReplaceAll(symmetric, {{wrong.from, wrong.to}}));
    MakeAll({other}, 4);
    const absl::Status status = Import(Folder(), {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.problem));
    EXPECT_THAT(std::string(status.message()), HasSubstr(other));
  }
  std::filesystem::remove(io::JoinPath(Folder(), EdgePiecePlan::kFileName));
  const auto two = Plan({text, Write("edges.txt", "0 1\n")}, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(two.status())) << two.status();
}

TEST_F(EdgePiecesTest, IdsThatNeedMoreBytesAreReadBack) {
  const std::string text =
      Write("wide.mtx",
            "%%MatrixMarket matrix coordinate pattern general\n"
            "5000000000 5000000000 4\n2 1\n1 4000000000\n2147483648 3\n1 2\n");
  const EdgePiecePlan plan = MakeAll({text}, 1000);
  EXPECT_EQ(plan.num_pieces(), 1);
  EXPECT_THAT(Missing(plan), IsEmpty());
  const auto graph = OpenEdgePieces(context_, Folder(), {});
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->nodes[0].num_nodes, 5'000'000'000);
  EdgeBlock block;
  // Several passes read the same.
  for (int pass = 0; pass < 2; ++pass) {
    ASSERT_TRUE(graph->edges[0].edges->Read(0, 3, block).ok());
    EXPECT_THAT(block.sources, ElementsAre(1, 0, 2147483647));
    EXPECT_THAT(block.destinations, ElementsAre(0, 3999999999, 2));
    ASSERT_TRUE(graph->edges[0].edges->Read(3, 1, block).ok());
    EXPECT_THAT(block.sources, ElementsAre(0));
  }
  // Bytes between edges of 8 and of 16 bytes count, too.
  std::string bytes = Read(Path(0));
  bytes[8] = 1;
  Write("pieces/" + EdgePieceName(0), bytes);
  EXPECT_THAT(Missing(plan), ElementsAre(0));
}

TEST_F(EdgePiecesTest, IdsThatAreAnyNumbersAreNumberedAtTheEnd) {
  options_.relabel = true;
  std::string lines = "from;to\n";
  for (int64_t i = 0; i < 200; ++i) {
    // Below 0, beyond int32, and int64's ends.
    absl::StrAppend(&lines, (i * i * i - 500'000) * 7919, ";", i % 13 - 5,
                    "\n");
  }
  absl::StrAppend(&lines, INT64_MAX, ";", INT64_MIN, "\n3;4\n");
  const std::string text = Write("sparse.csv", lines);
  for (const uint64_t piece_bytes : {1, 100, 1 << 20}) {
    const EdgePiecePlan plan = MakeAll({text}, piece_bytes);
    EXPECT_THAT(Missing(plan), IsEmpty());
    ExpectSame(text);
    ExpectSame(text, {.add_reverse = true});
  }
  // Ids of text have an order of their own, which one piece does not know.
  std::filesystem::remove(io::JoinPath(Folder(), EdgePiecePlan::kFileName));
  for (const char* const line : {"1 a\n", "1 +2\n", "1 02\n"}) {
    const auto plan =
        Plan({Write("text.txt", absl::StrCat("1 2\n2 3\n", line))}, 1 << 20);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const absl::Status status = Make(*plan, 0);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("line 3: has an id that is no number"));
    std::filesystem::remove(plan->path);
  }
  // The rows of a matrix number the nodes.
  const std::string matrix = Write(
      "graph.mtx",
      "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 5\n3 1 6\n");
  MakeAll({matrix}, 4);
  ExpectSame(matrix);
}

TEST_F(EdgePiecesTest, APieceIsTheSameWheneverItIsMade) {
  const std::string text = Write("edges.txt", ManyLines(200));
  const EdgePiecePlan plan = MakeAll({text}, 500);
  for (int64_t i = 0; i < plan.num_pieces(); ++i) {
    const std::string bytes = Read(Path(i));
    Write("pieces/" + EdgePieceName(i), "anything");
    ASSERT_TRUE(Make(plan, i).ok());
    EXPECT_EQ(Read(Path(i)), bytes);
  }
  // So is the plan.
  const auto again = Plan({text}, 500);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sha256, plan.sha256);
  EXPECT_TRUE(absl::IsAlreadyExists(Plan({text}, 900).status()));
}

TEST_F(EdgePiecesTest, AnyDamageIsFoundAndNamesThePiece) {
  const std::string text = Write("edges.txt", "0 1\n1 2\n2 3\n3 0\n1 3\n");
  const EdgePiecePlan plan = MakeAll({text}, 8);
  ASSERT_EQ(plan.num_pieces(), 3);
  const std::string bytes = Read(Path(1));
  for (size_t i = 0; i < bytes.size(); ++i) {
    SCOPED_TRACE(i);
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    for (const std::string& damaged : {flipped, bytes.substr(0, i)}) {
      Write("pieces/" + EdgePieceName(1), damaged);
      ASSERT_THAT(Missing(plan), ElementsAre(1));
      EXPECT_TRUE(absl::IsDataLoss(faults_[0])) << faults_[0];
      const absl::Status status = Import(Folder(), {}).status();
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(Path(1)));
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("hearth piece --of ", plan.path,
                                         " --index 1")));
    }
  }
  ASSERT_TRUE(Make(plan, 1).ok());
  EXPECT_THAT(Missing(plan), IsEmpty());
  ExpectSame(text);
}

TEST_F(EdgePiecesTest, MissingAndForeignPiecesAreNamed) {
  const std::string text = Write("edges.txt", "0 1\n1 2\n2 3\n3 0\n");
  const EdgePiecePlan plan = MakeAll({text}, 4);
  std::filesystem::remove(Path(2));
  std::filesystem::copy_file(Path(0), Path(1),
                             std::filesystem::copy_options::overwrite_existing);
  // What every file says of itself is read in any case.
  for (const bool read_all : {true, false}) {
    ASSERT_THAT(Missing(plan, read_all), ElementsAre(1, 2));
    EXPECT_TRUE(absl::IsFailedPrecondition(faults_[0])) << faults_[0];
    EXPECT_THAT(std::string(faults_[0].message()), HasSubstr("is piece 0"));
    EXPECT_TRUE(absl::IsNotFound(faults_[1])) << faults_[1];
  }
  const std::string foreign = Read(Path(0));
  MakeAll({Write("other.txt", "0 1\n1 2\n2 3\n3 1\n")}, 4);
  Write("pieces/" + EdgePieceName(0), foreign);
  const absl::Status status = Import(Folder(), {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("of another plan"));
}

TEST_F(EdgePiecesTest, ADamagedPlanIsNone) {
  const std::string text = Write("edges.txt", "0 1\n1 2\n2 3\n3 0\n");
  const EdgePiecePlan plan = MakeAll({text}, 4);
  const std::string contents = Read(plan.path);
  for (size_t i = 0; i < contents.size(); ++i) {
    std::string damaged = contents;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    Write("pieces/pieces.json", damaged);
    const absl::Status status = ReadEdgePiecePlan(files_, plan.path).status();
    EXPECT_FALSE(status.ok()) << i;
    EXPECT_THAT(std::string(status.message()), HasSubstr(plan.path));
    EXPECT_FALSE(Import(Folder(), {}).ok());
  }
}

TEST_F(EdgePiecesTest, AWrongLineIsNamedByItsPlace) {
  const std::string text = Write("edges.txt", "0 1\n1 2\n2 3\n3 x\n1 3\n");
  const auto plan = Plan({text}, 8);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(Make(*plan, 0).ok());
  const absl::Status status = Make(*plan, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(text + " after byte 8: line 2, field 2: "));
  // Nothing is left of the piece.
  EXPECT_THAT(*files_.List(Folder()),
              ElementsAre(EdgePieceName(0), EdgePiecePlan::kFileName));
  EXPECT_TRUE(absl::IsInvalidArgument(Make(*plan, 3)));
  EXPECT_TRUE(absl::IsInvalidArgument(Make(*plan, -1)));
}

TEST_F(EdgePiecesTest, ATextThatChangedIsRefused) {
  const std::string text = Write("edges.txt", "0 1\n1 2\n2 3\n3 0\n");
  const auto plan = Plan({text}, 4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Of the same size.
  Write("edges.txt", "0 1\n1 2\n2 3\n3 1\n");
  std::filesystem::last_write_time(text, Later());
  const absl::Status status = Make(*plan, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

/// Calls a function before the nth call that opens a file for reading.
class MeddlingFileSystem final : public io::ForwardingFileSystem {
 public:
  MeddlingFileSystem(io::FileSystem& base, int nth,
                     std::function<void()> meddle)
      : ForwardingFileSystem(base), left_(nth), meddle_(std::move(meddle)) {}

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForRead(
      const std::string& path) override {
    if (--left_ == 0) meddle_();
    return ForwardingFileSystem::OpenForRead(path);
  }

  bool has_meddled() const { return left_ <= 0; }

 private:
  int left_;
  const std::function<void()> meddle_;
};

TEST_F(EdgePiecesTest, ATextThatIsReplacedWhileItIsReadIsRefused) {
  int nth = 1;
  for (;; ++nth) {
    const std::string text = Write("edges.txt", "0 1\n1 2\n2 3\n3 0\n");
    std::filesystem::remove(io::JoinPath(Folder(), EdgePiecePlan::kFileName));
    const auto plan = Plan({text}, 4);
    ASSERT_TRUE(plan.ok()) << plan.status();
    MeddlingFileSystem files(files_, nth, [&] {
      const std::string other = Write("other.txt", "0 1\n1 2\n2 3\n3 1\n");
      std::filesystem::last_write_time(other, Later());
      std::filesystem::rename(other, text);
    });
    ImportContext context(files, 1 << 20, scratch_.Path("scratch"), nullptr,
                          {});
    const absl::Status status = MakeEdgePiece(context, *plan, 3, Folder());
    if (!files.has_meddled()) break;
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_FALSE(std::filesystem::exists(Path(3)));
  }
  EXPECT_GT(nth, 2);
}

TEST_F(EdgePiecesTest, WhatCannotBeCutIsRefused) {
  const std::string text = Write("edges.txt", "0 1\n1 2\n");
  const auto refused = [&](const std::vector<std::string>& texts,
                           uint64_t piece_bytes) {
    const absl::Status status = Plan(texts, piece_bytes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused({}, 8), HasSubstr("needs a text"));
  EXPECT_THAT(refused({text}, 0), HasSubstr("size of pieces"));
  EXPECT_THAT(refused({"edges.txt"}, 8), HasSubstr("absolute"));
  EXPECT_THAT(refused({scratch_.Path("none.txt")}, 8), HasSubstr("none.txt"));
  EXPECT_THAT(refused({Write("long.txt", "0 1\n" + std::string(2 << 20, '#'))},
                      1 << 20),
              HasSubstr("longer than"));
  std::string many;
  for (int64_t i = 0; i <= EdgePiecePlan::kMaxPieces; ++i) many += "0 1\n";
  EXPECT_THAT(refused({Write("many.txt", many)}, 1), HasSubstr("larger"));
}

TEST_F(EdgePiecesTest, AFaultLeavesNoPieceOrAWholeOne) {
  const std::string text = Write("edges.txt", ManyLines(50));
  const EdgePiecePlan plan = MakeAll({text}, 1 << 20);
  const std::string bytes = Read(Path(0));
  for (const io::Effect effect :
       {io::Effect::kFail, io::Effect::kTearWrite, io::Effect::kLoseReply}) {
    for (int64_t nth = 1;; ++nth) {
      SCOPED_TRACE(nth);
      std::filesystem::remove(Path(0));
      files_.Inject({.nth = nth, .effect = effect});
      const absl::Status status = Make(plan, 0);
      const bool is_hit = files_.hits() > 0;
      files_.Clear();
      if (!is_hit) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      if (std::filesystem::exists(Path(0))) {
        EXPECT_EQ(Read(Path(0)), bytes);
      } else {
        EXPECT_FALSE(status.ok());
      }
      // What is left is read by nobody.
      const auto names = files_.List(Folder());
      ASSERT_TRUE(names.ok()) << names.status();
      for (const std::string& name : *names) {
        if (absl::EndsWith(name, io::kTemporarySuffix)) {
          std::filesystem::remove(io::JoinPath(Folder(), name));
        }
      }
      ASSERT_TRUE(Make(plan, 0).ok());
      EXPECT_EQ(Read(Path(0)), bytes);
    }
  }
  files_.LimitSpace(100);
  EXPECT_TRUE(absl::IsResourceExhausted(Make(plan, 0)));
  EXPECT_EQ(Read(Path(0)), bytes);
}

TEST_F(EdgePiecesTest, AStopEndsAPiece) {
  const std::string text = Write("edges.txt", ManyLines(50));
  const auto plan = Plan({text}, 1 << 20);
  std::stop_source stop;
  stop.request_stop();
  ImportContext context(files_, 1 << 20, scratch_.Path("scratch"), nullptr,
                        stop.get_token());
  const absl::Status status = MakeEdgePiece(context, *plan, 0, Folder());
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_THAT(*files_.List(Folder()), ElementsAre(EdgePiecePlan::kFileName));
}

}  // namespace
}  // namespace hearth::ingest
