#include "engine/io/whole_file.h"

#include <string>
#include <vector>

#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

using testing::ElementsAre;

constexpr uint64_t kLimit = 1 << 20;

class AtomicFileTest : public testing::Test {
 protected:
  std::string Contents() {
    return ReadWholeFile(FileSystem::Posix(), path_, kLimit).value_or("none");
  }

  FaultyFileSystem files_{FileSystem::Posix()};
  ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("f");
};

TEST_F(AtomicFileTest, CreatesAndReplaces) {
  ASSERT_TRUE(WriteFileAtomically(files_, path_, "old").ok());
  EXPECT_EQ(Contents(), "old");
  ASSERT_TRUE(WriteFileAtomically(files_, path_, "new and longer").ok());
  EXPECT_EQ(Contents(), "new and longer");
  EXPECT_THAT(*files_.List(scratch_.path()), ElementsAre("f"));
}

TEST_F(AtomicFileTest, WritesPiecesInOrder) {
  const std::vector<std::byte> a(3, std::byte{'a'}), none, b(2, std::byte{'b'});
  ASSERT_TRUE(WritePiecesAtomically(files_, path_, {a, none, b}).ok());
  EXPECT_EQ(Contents(), "aaabb");
}

TEST_F(AtomicFileTest, AnyFaultLeavesOneVersionWhole) {
  for (const Effect effect :
       {Effect::kFail, Effect::kTearWrite, Effect::kLoseReply}) {
    bool hit = true;
    for (int64_t nth = 1; hit; ++nth) {
      files_.Clear();
      ASSERT_TRUE(WriteFileAtomically(files_, path_, "the old one").ok());
      files_.Inject({.nth = nth, .effect = effect});
      const absl::Status status =
          WriteFileAtomically(files_, path_, "the new one");
      hit = files_.hits() > 0;
      files_.Clear();
      if (!hit) {
        EXPECT_TRUE(status.ok());
        EXPECT_GT(nth, 6);
      }
      if (status.ok()) {
        EXPECT_EQ(Contents(), "the new one");
      } else {
        EXPECT_THAT(Contents(), testing::AnyOf("the old one", "the new one"));
      }
      EXPECT_THAT(*files_.List(scratch_.path()), ElementsAre("f"));
    }
  }
}

TEST_F(AtomicFileTest, SyncsContentsBeforeTheNameAndTheNameAfter) {
  ASSERT_TRUE(WriteFileAtomically(files_, path_, "x").ok());
  std::vector<Operation> operations;
  for (const auto& call : files_.calls()) operations.push_back(call.operation);
  EXPECT_THAT(operations,
              ElementsAre(Operation::kCreate, Operation::kWrite,
                          Operation::kSync, Operation::kClose,
                          Operation::kRename, Operation::kSyncDirectory));
}

TEST_F(AtomicFileTest, AFullDiskIsResourceExhausted) {
  files_.LimitSpace(3);
  EXPECT_TRUE(
      absl::IsResourceExhausted(WriteFileAtomically(files_, path_, "12345")));
  files_.Clear();
  EXPECT_TRUE(WriteFileAtomically(files_, path_, "12345").ok());
}

TEST_F(AtomicFileTest, ReadsNoMoreThanAllowed) {
  ASSERT_TRUE(WriteFileAtomically(files_, path_, "12345").ok());
  EXPECT_EQ(*ReadWholeFile(files_, path_, 5), "12345");
  EXPECT_TRUE(
      absl::IsResourceExhausted(ReadWholeFile(files_, path_, 4).status()));
}

TEST_F(AtomicFileTest, ReadErrorsAreReported) {
  ASSERT_TRUE(WriteFileAtomically(files_, path_, "12345").ok());
  for (int64_t nth = 1; nth <= 3; ++nth) {
    files_.Inject({.nth = nth});
    EXPECT_TRUE(absl::IsUnavailable(ReadWholeFile(files_, path_, 5).status()));
  }
}

TEST(ParentDirectoryTest, IsWhatHoldsThePath) {
  EXPECT_EQ(ParentDirectory("/a/b"), "/a");
  EXPECT_EQ(ParentDirectory("/a"), "/");
  EXPECT_EQ(ParentDirectory("a"), ".");
  EXPECT_EQ(ParentDirectory("a/b/c"), "a/b");
}

}  // namespace
}  // namespace hearth::io
