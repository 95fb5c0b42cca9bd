// Plans of DiskGNN that are joined from pieces: the bytes of a plan that one
// machine makes, and what becomes of pieces that are missing, damaged or of
// another plan.

#include "engine/strategy/diskgnn/pieces/plan_pieces.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/file_system.h"
#include "engine/store/strict_json.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/pieces/piece_plan.h"
#include "engine/strategy/testing/planning_harness.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixtures/graphs.h"

namespace hearth::strategy {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

// A disk cache of several segments, and rows in memory.
constexpr uint64_t kSomeRows = 20 * 148;
constexpr uint64_t kSomeDisk = 400'000;

class PlanPiecesTest : public PlanningHarness {
 protected:
  DiskgnnOptions Some() const {
    return {.cpu_cache_bytes = kSomeRows, .disk_limit_bytes = kSomeDisk};
  }

  DiskgnnOptions InPieces(DiskgnnOptions options, int64_t num_pieces) const {
    options.pieces_folder = folder_;
    options.num_pieces = num_pieces;
    return options;
  }

  // The files of the plan that is made without pieces, which is removed.
  std::map<std::string, std::string> Whole(const DiskgnnOptions& options) {
    EXPECT_EQ(Prepare(*Make(options)), absl::OkStatus());
    std::map<std::string, std::string> files = Files();
    std::filesystem::remove_all(plans_folder_);
    return files;
  }

  // A prepare; the report's pieces to make.
  std::optional<PiecesToMake> Next(Strategy& strategy) {
    log_.clear();
    const auto report = strategy.Prepare(Passes(), Listener(), {});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->to_make : std::nullopt;
  }

  PiecePlan Read(const std::string& path) {
    const auto plan = ReadPiecePlan(io::FileSystem::Posix(), path);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : PiecePlan();
  }

  absl::Status MakeOne(const PiecePlan& plan, int64_t index,
                       const PieceMaking& making = {
                           .files = io::FileSystem::Posix()}) {
    return MakePlanPiece(making, plan, index, folder_);
  }

  // Makes all pieces of the plan, the last one first.
  PiecePlan MakeAll(const std::string& path) {
    const PiecePlan plan = Read(path);
    for (int64_t i = plan.num_pieces(); i-- > 0;) {
      EXPECT_EQ(MakeOne(plan, i,
                        {.files = io::FileSystem::Posix(),
                         .threads = 1 + static_cast<int>(i % 3)}),
                absl::OkStatus());
    }
    return plan;
  }

  // Prepares and makes pieces until there is a plan; the number of rounds.
  int MakePlan(Strategy& strategy) {
    int rounds = 0;
    while (const auto to_make = Next(strategy)) {
      if (++rounds > 2) break;
      MakeAll(to_make->plan);
    }
    return rounds;
  }

  // Changes a byte of a file of a piece: the one at `at`, or in the middle.
  void DamagePiece(const std::string& name, int64_t at = -1) const {
    const std::string path = io::JoinPath(folder_, name);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    ASSERT_TRUE(file) << path;
    const auto place = static_cast<std::streamoff>(
        at >= 0 ? at : std::filesystem::file_size(path) / 2);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 1));
  }

  std::map<std::string, std::string> FilesOfPiece(const std::string& name) {
    std::map<std::string, std::string> files;
    for (const auto& entry :
         std::filesystem::directory_iterator(io::JoinPath(folder_, name))) {
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().filename()] = {std::istreambuf_iterator<char>(file),
                                        {}};
    }
    return files;
  }

  std::vector<std::string> Unfinished() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      if (entry.path().extension() == ".tmp") names.push_back(entry.path());
    }
    return names;
  }

  const std::string folder_ = scratch_.Path("pieces");
};

TEST_F(PlanPiecesTest, GiveThePlanOfOneMachine) {
  gpu_ = EmulatedGpu{};
  const std::vector<DiskgnnOptions> all = {
      {},
      Some(),
      {.cpu_cache_bytes = kSomeRows, .gpu_cache_bytes = kSomeRows},
      {.disk_cache_bytes = 0},
      {.disk_cache_bytes = 300 * 148, .disk_limit_bytes = 750'000},
      {.cpu_cache_bytes = 1 << 20}};
  for (const DiskgnnOptions& options : all) {
    const std::map<std::string, std::string> whole = Whole(options);
    for (const int64_t pieces : {1, 3, 500}) {
      std::filesystem::remove_all(folder_);
      const auto strategy = Make(InPieces(options, pieces));
      EXPECT_EQ(MakePlan(*strategy), 2);
      EXPECT_THAT(log_, HasSubstr("joining"));
      EXPECT_TRUE(Files() == whole) << pieces;
      ExpectAllPasses(*strategy);
      std::filesystem::remove_all(plans_folder_);
    }
  }
}

TEST_F(PlanPiecesTest, AreTheSameHoweverTheyAreMade) {
  const auto strategy = Make(InPieces(Some(), 3));
  for (const char* const name : {"samples-000001", "packs-000001"}) {
    const auto to_make = Next(*strategy);
    ASSERT_TRUE(to_make.has_value());
    EXPECT_EQ(to_make->pieces, 3);
    EXPECT_EQ(to_make->missing, 3);
    const PiecePlan plan = MakeAll(to_make->plan);
    const auto files = FilesOfPiece(name);
    EXPECT_GE(files.size(), 3u);
    const std::string copy = scratch_.Path("copy");
    std::filesystem::copy(
        Dataset().path(), copy,
        std::filesystem::copy_options::recursive |
            std::filesystem::copy_options::overwrite_existing);
    ASSERT_EQ(MakeOne(plan, 1,
                      {.files = io::FileSystem::Posix(),
                       .dataset_path = copy,
                       .memory_bytes = 40 << 20,
                       .threads = 4}),
              absl::OkStatus());
    EXPECT_TRUE(FilesOfPiece(name) == files);
  }
  EXPECT_EQ(Unfinished().size(), 0u);
}

TEST_F(PlanPiecesTest, ThatAreMissingOrDamagedAreNamedWithTheirRemedy) {
  const std::map<std::string, std::string> whole = Whole(Some());
  const auto strategy = Make(InPieces(Some(), 3));
  for (const std::string round : {"samples", "packs"}) {
    const std::string first = round + "-000001";
    auto to_make = Next(*strategy);
    ASSERT_TRUE(to_make.has_value());
    const std::string plan = to_make->plan;
    MakeAll(plan);
    std::filesystem::remove_all(io::JoinPath(folder_, first));
    to_make = Next(*strategy);
    ASSERT_TRUE(to_make.has_value());
    EXPECT_EQ(to_make->plan, plan);
    EXPECT_EQ(to_make->missing, 1);
    EXPECT_THAT(to_make->fault, HasSubstr("is missing"));
    EXPECT_THAT(to_make->fault,
                EndsWith("hearth piece --of " + plan + " --index 1"));
    EXPECT_EQ(MakeOne(Read(plan), 1), absl::OkStatus());
    // A flipped bit, wherever it is.
    for (const auto& [file, bytes] : FilesOfPiece(first)) {
      if (bytes.empty()) continue;
      // Planning reads the nodes of samples, which come first.
      DamagePiece(io::JoinPath(first, file), file == "samples" ? 100 : -1);
      to_make = Next(*strategy);
      ASSERT_TRUE(to_make.has_value()) << file;
      EXPECT_EQ(to_make->missing, 1) << file;
      EXPECT_THAT(to_make->fault, EndsWith(" --index 1"));
      const auto missing = FindMissingPlanPieces(io::FileSystem::Posix(),
                                                 Read(plan), folder_, true, {});
      ASSERT_TRUE(missing.ok()) << missing.status();
      ASSERT_EQ(missing->size(), 1u) << file;
      EXPECT_EQ(missing->front().index, 1);
      EXPECT_EQ(MakeOne(Read(plan), 1), absl::OkStatus());
    }
  }
  EXPECT_FALSE(Next(*strategy).has_value());
  EXPECT_TRUE(Files() == whole);
}

TEST_F(PlanPiecesTest, OfRoundTwoNameADamagedPieceOfRoundOne) {
  const auto strategy = Make(InPieces(Some(), 2));
  const auto samples = Next(*strategy);
  ASSERT_TRUE(samples.has_value());
  MakeAll(samples->plan);
  const auto packs = Next(*strategy);
  ASSERT_TRUE(packs.has_value());
  for (const bool missing : {false, true}) {
    if (missing) {
      std::filesystem::remove_all(io::JoinPath(folder_, "samples-000001"));
    } else {
      DamagePiece("samples-000001/samples");
    }
    const absl::Status status = MakeOne(Read(packs->plan), 1);
    EXPECT_EQ(status.code(), missing ? absl::StatusCode::kNotFound
                                     : absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()),
                EndsWith("hearth piece --of " + samples->plan + " --index 1"));
    EXPECT_EQ(MakeOne(Read(samples->plan), 1), absl::OkStatus());
    EXPECT_EQ(MakeOne(Read(packs->plan), 1), absl::OkStatus());
  }
}

TEST_F(PlanPiecesTest, OfAnotherPlanAreRefused) {
  const auto to_make = Next(*Make(InPieces(Some(), 2)));
  ASSERT_TRUE(to_make.has_value());
  const PiecePlan plan = MakeAll(to_make->plan);
  // Other options.
  DiskgnnOptions other = Some();
  other.cpu_cache_bytes += 148;
  const absl::Status refused = Prepare(*Make(InPieces(other, 2)));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(plan.origin.plan));
  // Another dataset, where the plan is made and where a piece is.
  PieceOrigin origin = plan.origin;
  origin.fingerprint = "0123";
  for (const absl::Status& status :
       {PlanSamplePieces(io::FileSystem::Posix(), origin, {}, 2, folder_)
            .status(),
        [&] {
          const auto path = hearth::testing::ImportPlantedGraph(
              {.num_nodes = 200, .feature_dim = 37},
              scratch_.Path("other_graph"));
          return MakeOne(
              plan, 0,
              {.files = io::FileSystem::Posix(), .dataset_path = *path});
        }()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(plan.origin.fingerprint));
  }
  // A piece in the place of another.
  std::filesystem::remove_all(io::JoinPath(folder_, "samples-000000"));
  std::filesystem::copy(io::JoinPath(folder_, "samples-000001"),
                        io::JoinPath(folder_, "samples-000000"));
  const auto missing =
      FindMissingPlanPieces(io::FileSystem::Posix(), plan, folder_, false, {});
  ASSERT_EQ(missing->size(), 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(missing->front().fault));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeOne(plan, 2)));
  EXPECT_TRUE(absl::IsInvalidArgument(MakeOne(plan, -1)));
}

TEST_F(PlanPiecesTest, OfAnotherVersionAreRefused) {
  const auto to_make = Next(*Make(InPieces(Some(), 2)));
  ASSERT_TRUE(to_make.has_value());
  std::ofstream(to_make->plan) << store::SealJson(
      {{"format", "plan in pieces"}, {"version", PiecePlan::kVersion + 1}});
  EXPECT_TRUE(*IsPiecePlan(io::FileSystem::Posix(), to_make->plan));
  for (const absl::Status& status :
       {ReadPiecePlan(io::FileSystem::Posix(), to_make->plan).status(),
        Prepare(*Make(InPieces(Some(), 2)))}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("version"));
  }
}

TEST_F(PlanPiecesTest, KeepToTheirMemory) {
  const auto strategy = Make(InPieces(Some(), 2));
  for (int round = 0; round < 2; ++round) {
    const auto to_make = Next(*strategy);
    ASSERT_TRUE(to_make.has_value());
    const absl::Status status =
        MakeOne(Read(to_make->plan), 0,
                {.files = io::FileSystem::Posix(), .memory_bytes = 1 << 20});
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the limit is 1.0 MiB"));
    MakeAll(to_make->plan);
  }
}

TEST_F(PlanPiecesTest, ThatAreStoppedLeaveNothing) {
  std::stop_source stop;
  stop.request_stop();
  const auto strategy = Make(InPieces(Some(), 2));
  for (int round = 0; round < 2; ++round) {
    const auto to_make = Next(*strategy);
    ASSERT_TRUE(to_make.has_value());
    const absl::Status status =
        MakeOne(Read(to_make->plan), 0,
                {.files = io::FileSystem::Posix(), .stop = stop.get_token()});
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(Unfinished().size(), 0u);
    MakeAll(to_make->plan);
  }
}

// After any failure of a piece nothing of it is read, and the next try makes
// it; after any failure of the daemon's steps the next call goes on.
TEST_F(PlanPiecesTest, EveryCallMayFail) {
  const std::map<std::string, std::string> whole = Whole(Some());
  for (int64_t nth = 1;; nth += 1 + nth / 3) {
    std::filesystem::remove_all(folder_);
    std::filesystem::remove_all(plans_folder_);
    const auto strategy = Make(InPieces(Some(), 2));
    bool any_hit = false;
    const auto with_fault = [&](auto call) {
      faulty_.Inject({.nth = nth});
      const absl::Status status = call();
      any_hit |= faulty_.hits() > 0;
      faulty_.Clear();
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
      return status;
    };
    for (int round = 0; round < 2; ++round) {
      with_fault([&] { return Prepare(*strategy); }).IgnoreError();
      const auto to_make = Next(*strategy);
      ASSERT_TRUE(to_make.has_value()) << nth;
      const PiecePlan plan = Read(to_make->plan);
      for (int64_t i = 0; i < plan.num_pieces(); ++i) {
        const absl::Status status =
            with_fault([&] { return MakeOne(plan, i, {.files = faulty_}); });
        if (!status.ok()) {
          ASSERT_EQ(MakeOne(plan, i), absl::OkStatus());
        }
      }
    }
    with_fault([&] { return Prepare(*strategy); }).IgnoreError();
    ASSERT_FALSE(Next(*strategy).has_value()) << nth;
    EXPECT_TRUE(Files() == whole) << nth;
    if (!any_hit) break;
  }
}

}  // namespace
}  // namespace hearth::strategy
