#include "engine/store/node_columns.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

constexpr NodeColumnsKind kKind = {
    .name = "list of tests", .version = 3, .num_scalars = 2, .num_columns = 2};

class NodeColumnsTest : public testing::Test {
 protected:
  absl::Status Write() {
    const std::vector<absl::Span<const float>> columns = {first_, second_};
    return WriteNodeColumns(files_, path_, kKind, scalars_, columns);
  }

  absl::StatusOr<NodeColumns> Read(const NodeColumnsKind& kind = kKind,
                                   int64_t num_nodes = 3) {
    return ReadNodeColumns(files_, path_, kind, num_nodes);
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("columns");
  const std::vector<double> scalars_ = {9007199254740992.0, 0.1};
  const std::vector<float> first_ = {1, 0.25f, 7};
  const std::vector<float> second_ = {0, -3, 2};
};

TEST_F(NodeColumnsTest, GivesBackWhatWasWritten) {
  EXPECT_TRUE(absl::IsNotFound(Read().status()));
  ASSERT_TRUE(Write().ok());
  const auto read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->scalars, scalars_);
  EXPECT_EQ(read->columns, (std::vector<std::vector<float>>{first_, second_}));
  EXPECT_EQ(files_.Stat(path_)->size_bytes, NodeColumnsBytes(kKind, 3));
}

TEST_F(NodeColumnsTest, RefusesWhatIsSomethingElse) {
  ASSERT_TRUE(Write().ok());
  NodeColumnsKind other = kKind;
  other.name = "list of others";
  EXPECT_TRUE(absl::IsDataLoss(Read(other).status()));
  other = kKind;
  other.version = 4;
  EXPECT_TRUE(absl::IsFailedPrecondition(Read(other).status()));
  EXPECT_TRUE(absl::IsDataLoss(Read(kKind, 4).status()));
}

// Any flipped bit and any cut is found.
TEST_F(NodeColumnsTest, NamesDamage) {
  ASSERT_TRUE(Write().ok());
  const std::string whole = *io::ReadWholeFile(files_, path_, 1 << 20);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    for (const std::string& bytes : {damaged, whole.substr(0, at)}) {
      ASSERT_TRUE(io::WriteFileAtomically(files_, path_, bytes).ok());
      const absl::Status status = Read().status();
      ASSERT_TRUE(absl::IsDataLoss(status) ||
                  absl::IsFailedPrecondition(status))
          << at << ": " << status;
      EXPECT_TRUE(absl::StrContains(status.message(), path_)) << status;
    }
  }
}

}  // namespace
}  // namespace hearth::store
