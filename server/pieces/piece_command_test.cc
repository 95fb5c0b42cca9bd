#include "server/pieces/piece_command.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class PieceCommandTest : public testing::Test {
 protected:
  PieceCommandTest() { std::ofstream(text_) << "0 1\n1 2\n2 3\n3 0\n"; }

  int Run(const std::vector<std::string>& arguments,
          std::stop_token stop = {}) {
    std::ostringstream out, err;
    const int code = RunPieceCommand(arguments, io::FileSystem::Posix(), out,
                                     err, std::move(stop));
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  io::ScratchDirectory scratch_;
  const std::string text_ = scratch_.Path("edges.txt");
  const std::string folder_ = scratch_.Path("pieces");
  const std::string plan_ = scratch_.Path("pieces/pieces.json");
  std::string out_;
  std::string err_;
};

TEST_F(PieceCommandTest, APlanIsMadePieceByPiece) {
  ASSERT_EQ(Run({"plan", folder_, text_, "--piece-size", "8"}), kPieceDone)
      << err_;
  EXPECT_EQ(out_, "2 pieces in " + plan_ + "\n");
  ASSERT_EQ(Run({"check", "--of", plan_}), kPieceDone) << err_;
  EXPECT_THAT(out_, StartsWith("0: " + folder_ + "/piece-000000.edges: "));
  EXPECT_THAT(out_, HasSubstr("\n1: "));
  for (const char* const index : {"1", "0"}) {
    ASSERT_EQ(Run({"--of", plan_, "--index", index}), kPieceDone) << err_;
    EXPECT_EQ(out_, folder_ + "/piece-00000" + index + ".edges\n");
  }
  ASSERT_EQ(Run({"check", "--of", plan_}), kPieceDone) << err_;
  EXPECT_EQ(out_, "");
}

TEST_F(PieceCommandTest, PiecesMayLieInAnotherFolder) {
  ASSERT_EQ(Run({"plan", folder_, text_}), kPieceDone) << err_;
  const std::string other = scratch_.Path("other");
  std::filesystem::create_directory(other);
  ASSERT_EQ(Run({"--of", plan_, "--index", "0", "--to", other}), kPieceDone)
      << err_;
  ASSERT_EQ(Run({"check", "--of", plan_, "--in", other}), kPieceDone) << err_;
  EXPECT_EQ(out_, "");
  // A flipped bit of an edge shows when contents are read.
  const std::string path = other + "/piece-000000.edges";
  std::string bytes =
      *io::ReadWholeFile(io::FileSystem::Posix(), path, 1 << 20);
  bytes[0] = static_cast<char>(bytes[0] ^ 1);
  std::ofstream(path) << bytes;
  ASSERT_EQ(Run({"check", "--of", plan_, "--in", other}), kPieceDone);
  EXPECT_EQ(out_, "");
  ASSERT_EQ(Run({"check", "--of", plan_, "--in", other, "--contents"}),
            kPieceDone);
  EXPECT_THAT(out_, StartsWith("0: "));
}

TEST_F(PieceCommandTest, ColumnsAndHeaderAreOfThePlan) {
  std::ofstream(text_) << "a,b,c\n0,1,2\n1,2,0\n";
  ASSERT_EQ(
      Run({"plan", folder_, text_, "--columns", "c,a", "--header", "yes"}),
      kPieceDone)
      << err_;
  EXPECT_EQ(Run({"plan", scratch_.Path("2"), text_, "--columns", "c"}),
            kPieceInvalid);
  EXPECT_EQ(Run({"plan", scratch_.Path("2"), text_, "--columns", "c,d"}),
            kPieceInvalid);
  EXPECT_THAT(err_, HasSubstr("\"d\""));
}

TEST_F(PieceCommandTest, IdsMayBeAnyNumbers) {
  std::ofstream(text_) << "-5 1\n9000000000 -5\n";
  ASSERT_EQ(Run({"plan", folder_, text_}), kPieceDone) << err_;
  EXPECT_EQ(Run({"--of", plan_, "--index", "0"}), kPieceInvalid);
  EXPECT_THAT(err_, HasSubstr("--relabel"));
  const std::string other = scratch_.Path("other");
  ASSERT_EQ(Run({"plan", other, text_, "--relabel"}), kPieceDone) << err_;
  EXPECT_EQ(Run({"--of", other + "/pieces.json", "--index", "0"}), kPieceDone)
      << err_;
}

TEST_F(PieceCommandTest, ExitCodesTellWhetherToTryAgain) {
  EXPECT_EQ(Run({}), kPieceInvalid);
  EXPECT_THAT(err_, HasSubstr("--of"));
  EXPECT_EQ(Run({"--of", plan_}), kPieceInvalid);
  EXPECT_THAT(err_, HasSubstr("--index"));
  EXPECT_EQ(Run({"--of", plan_, "--inex", "0"}), kPieceInvalid);
  EXPECT_THAT(err_, HasSubstr("--index"));
  EXPECT_EQ(Run({"--of", plan_, "--index", "0"}), kPieceFailed);
  EXPECT_THAT(err_, HasSubstr(plan_));
  ASSERT_EQ(Run({"plan", folder_, text_, "--piece-size", "8"}), kPieceDone);
  EXPECT_EQ(Run({"--of", plan_, "--index", "2"}), kPieceInvalid);
  EXPECT_EQ(Run({"plan", folder_, text_, "--piece-size", "12"}), kPieceFailed);
  EXPECT_THAT(err_, HasSubstr("another plan"));
  EXPECT_EQ(Run({"plan", folder_, text_, "--piece-size", "many"}),
            kPieceInvalid);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(Run({"--of", plan_, "--index", "0"}, stop.get_token()),
            kPieceInterrupted);
}

TEST_F(PieceCommandTest, HelpAndVersion) {
  EXPECT_EQ(Run({"--help"}), kPieceDone);
  EXPECT_THAT(out_, HasSubstr("--index"));
  EXPECT_THAT(out_, HasSubstr("plan"));
  EXPECT_EQ(Run({"--version"}), kPieceDone);
  EXPECT_THAT(out_, StartsWith("hearth-piece "));
}

}  // namespace
}  // namespace hearth::server
