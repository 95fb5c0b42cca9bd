#include "server/cluster/checkpoint_copy.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "engine/io/file_system.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

class CheckpointCopyTest : public ::testing::Test {
 protected:
  CheckpointCopyTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/from");
    std::filesystem::create_directories(folder_ + "/to");
  }

  // Pieces of a file with these contents.
  std::vector<v1::CheckpointPiece> PiecesOf(const std::string& contents) {
    std::ofstream(folder_ + "/from/checkpoint.safetensors") << contents;
    std::vector<v1::CheckpointPiece> pieces;
    const absl::Status status = SendCheckpoint(
        files_, folder_ + "/from", "checkpoint.safetensors",
        [&](const v1::CheckpointPiece& piece) { pieces.push_back(piece); });
    EXPECT_TRUE(status.ok()) << status;
    return pieces;
  }

  std::string Copied() const {
    std::ifstream file(folder_ + "/to/checkpoint.safetensors");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_ = ::testing::TempDir() + "/checkpoint_copy";
  io::FileSystem& files_ = io::FileSystem::Posix();
  CheckpointReceiver receiver_{files_, folder_ + "/to"};
};

TEST_F(CheckpointCopyTest, AFileComesWhole) {
  const std::string contents(1'300'000, 'x');
  const auto pieces = PiecesOf(contents);
  ASSERT_GT(pieces.size(), 2u);
  for (const v1::CheckpointPiece& piece : pieces) {
    EXPECT_EQ(Copied(), "");
    const auto done = receiver_.Take(piece);
    ASSERT_TRUE(done.ok()) << done.status();
    EXPECT_EQ(*done, piece.is_last());
  }
  EXPECT_EQ(Copied(), contents);
  EXPECT_TRUE(absl::IsInvalidArgument(receiver_.Take(pieces[0]).status()));
}

TEST_F(CheckpointCopyTest, AJobThatBeginsHasNone) {
  int pieces = 0;
  ASSERT_TRUE(SendCheckpoint(files_, folder_ + "/from", "",
                             [&](const v1::CheckpointPiece& piece) {
                               ++pieces;
                               EXPECT_EQ(receiver_.Take(piece).value_or(false),
                                         true);
                             })
                  .ok());
  EXPECT_EQ(pieces, 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/to"));
}

TEST_F(CheckpointCopyTest, DamageIsFoundAndNothingIsPutInPlace) {
  auto pieces = PiecesOf(std::string(1'300'000, 'x'));
  (*pieces[1].mutable_data())[7] = 'y';
  absl::StatusOr<bool> done = false;
  for (const v1::CheckpointPiece& piece : pieces) done = receiver_.Take(piece);
  EXPECT_TRUE(absl::IsDataLoss(done.status())) << done.status();
  EXPECT_TRUE(
      absl::StrContains(done.status().message(), "checkpoint.safetensors"));
  EXPECT_EQ(Copied(), "");
}

TEST_F(CheckpointCopyTest, NamesStayInTheFolder) {
  for (const char* name : {"../checkpoint", "a/b", "..", "/etc/x"}) {
    v1::CheckpointPiece piece;
    piece.set_name(name);
    piece.set_data("x");
    EXPECT_TRUE(absl::IsInvalidArgument(
        CheckpointReceiver(files_, folder_ + "/to").Take(piece).status()))
        << name;
  }
}

TEST_F(CheckpointCopyTest, AFileThatIsMissingIsTold) {
  const absl::Status status =
      SendCheckpoint(files_, folder_ + "/from", "missing", [](const auto&) {});
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

}  // namespace
}  // namespace hearth::server
