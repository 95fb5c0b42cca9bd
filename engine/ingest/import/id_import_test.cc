#include "engine/ingest/import/id_import.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/ingest/import/scratch_array.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/store/array_header.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

class IdImportTest : public testing::Test {
 protected:
  /// `text` as an array of `shape`.
  std::unique_ptr<ArrayReader> Array(const std::string& text,
                                     std::vector<int64_t> shape,
                                     store::ElementType type) {
    const auto array = *ScratchArray::Create(context_, type, "edges.txt");
    EXPECT_TRUE(
        array->AppendValues(absl::MakeConstSpan(text.data(), text.size()))
            .ok());
    return *array->Finish(std::move(shape));
  }

  absl::StatusOr<store::FinishedArray> Copy(const std::string& text,
                                            int64_t num_nodes) {
    const auto array = Array(text, {static_cast<int64_t>(text.size())}, kText);
    const absl::Status status = CheckIdTextHeader(*array);
    if (!status.ok()) return status;
    return CopyIdText(context_, *array, num_nodes,
                      {folder_.path(), "test", "node"});
  }

  static constexpr store::ElementType kText{store::ElementType::Kind::kUint, 1};
  static constexpr store::ElementType kInt64{store::ElementType::Kind::kInt, 8};
  io::ScratchDirectory folder_;
  ImportProgress progress_;
  ImportContext context_{
      io::FileSystem::Posix(), 1 << 20, folder_.Path("scratch"), progress_, {}};
};

TEST_F(IdImportTest, CopiesText) {
  // More than a block.
  std::string text = std::string(300'000, 'a') + "\nb";
  const auto copy = Copy(text, 2);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(copy->file.path, "node.id_text.npy");
  EXPECT_EQ(copy->file.shape[0], 300'002);
  EXPECT_TRUE(Copy("a", 1).ok());
}

TEST_F(IdImportTest, TextOfOtherThanAnIdForEachNodeIsRefused) {
  struct Wrong {
    std::string text;
    std::string problem;
  };
  for (const auto& [text, problem] :
       {Wrong{"a\nb", "edges.txt: has 2 ids; there are 3 nodes"},
        Wrong{"a\nb\nc\nd", "has 4 ids; there are 3 nodes"},
        Wrong{"a\n\nc", "edges.txt: [2] is a line feed without an id"},
        Wrong{"\nb\nc", "[0] is a line feed without an id"},
        Wrong{"a\nb\n", "ends without an id"}, Wrong{"", "ends without"}}) {
    const absl::Status status = Copy(text, 3).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  }
}

TEST_F(IdImportTest, ChecksTypesAndShapes) {
  const std::string bytes(16, 'x');
  EXPECT_TRUE(CheckIdHeader(*Array(bytes, {2}, kInt64), 2).ok());
  EXPECT_TRUE(CheckIdTextHeader(*Array(bytes, {16}, kText)).ok());
  for (const absl::Status& status :
       {CheckIdHeader(*Array(bytes, {2}, kInt64), 3),
        CheckIdHeader(*Array(bytes, {16}, kText), 16),
        CheckIdHeader(*Array(bytes, {2, 1}, kInt64), 2),
        CheckIdTextHeader(*Array(bytes, {2}, kInt64)),
        CheckIdTextHeader(*Array(bytes, {4, 4}, kText))}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(" is needed"));
  }
}

}  // namespace
}  // namespace hearth::ingest
