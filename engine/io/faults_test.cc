#include "engine/io/testing/faults.h"

#include <cerrno>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/io/testing/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

std::vector<std::byte> Text(const std::string& text) {
  std::vector<std::byte> bytes;
  for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

class FaultyFileSystemTest : public testing::Test {
 protected:
  std::unique_ptr<WritableFile> Create(const std::string& name) {
    return *files_.Create(scratch_.Path(name));
  }

  uint64_t SizeOf(const std::string& name) {
    return FileSystem::Posix().Stat(scratch_.Path(name))->size_bytes;
  }

  FaultyFileSystem files_{FileSystem::Posix()};
  ScratchDirectory scratch_;
};

TEST_F(FaultyFileSystemTest, FailsTheNthOperationOnce) {
  files_.Inject({.nth = 2, .status = absl::PermissionDeniedError("no")});
  EXPECT_TRUE(files_.Stat(scratch_.path()).ok());
  const absl::Status status = files_.Stat(scratch_.path()).status();
  EXPECT_EQ(status, absl::PermissionDeniedError(scratch_.path() + ": no"));
  EXPECT_TRUE(files_.Stat(scratch_.path()).ok());
  EXPECT_EQ(files_.hits(), 1);
}

TEST_F(FaultyFileSystemTest, FailsForGood) {
  files_.Inject({.nth = 2, .for_good = true});
  EXPECT_TRUE(files_.Stat(scratch_.path()).ok());
  EXPECT_FALSE(files_.Stat(scratch_.path()).ok());
  EXPECT_FALSE(files_.List(scratch_.path()).ok());
  files_.Clear();
  EXPECT_TRUE(files_.List(scratch_.path()).ok());
}

TEST_F(FaultyFileSystemTest, CountsOnlyWhatItIsToldTo) {
  files_.Inject({.nth = 1, .only = Operation::kList});
  EXPECT_TRUE(files_.Stat(scratch_.path()).ok());
  EXPECT_FALSE(files_.List(scratch_.path()).ok());
}

TEST_F(FaultyFileSystemTest, CountsOnlyTheFilesItIsToldTo) {
  files_.Inject({.nth = 1, .for_good = true, .path_end = "/a"});
  EXPECT_TRUE(files_.Create(scratch_.Path("b")).ok());
  EXPECT_FALSE(files_.Create(scratch_.Path("a")).ok());
  EXPECT_TRUE(files_.Stat(scratch_.Path("b")).ok());
  EXPECT_EQ(files_.hits(), 1);
}

TEST_F(FaultyFileSystemTest, ReadsOfDevicesAreOperations) {
  ASSERT_TRUE(Create("f")->Append(Text("0123456789")).ok());
  const auto device =
      files_.OpenBlockDevice(scratch_.Path("f"), {.buffered = true});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->descriptor(), -1);  // No way around.
  EXPECT_EQ((*device)->size_bytes(), 10u);
  std::vector<std::byte> out(4);
  const auto read = [&] { return (*device)->ReadOnce(3, absl::MakeSpan(out)); };
  files_.Inject({.nth = 2, .only = Operation::kRead});
  EXPECT_EQ(read(), 4);
  EXPECT_EQ(out, Text("3456"));
  EXPECT_EQ(read(), -EIO);
  EXPECT_EQ(read(), 4);
  files_.Inject({.effect = Effect::kCorruptRead});
  EXPECT_EQ(read(), 4);
  EXPECT_EQ(out, Text("34%6"));
  files_.Inject({.only = Operation::kOpenForRead});
  EXPECT_TRUE(absl::IsUnavailable(
      files_.OpenBlockDevice(scratch_.Path("f"), {}).status()));
}

TEST_F(FaultyFileSystemTest, UncachedFilesFailAsOthersDo) {
  const std::string path = scratch_.Path("f");
  files_.Inject({.only = Operation::kCreate});
  EXPECT_TRUE(absl::IsUnavailable(files_.CreateUncached(path).status()));
  const auto file = *files_.CreateUncached(path);
  files_.Inject({.nth = 2, .effect = Effect::kTearWrite});
  EXPECT_TRUE(file->Append(Text("abcd")).ok());
  EXPECT_FALSE(file->Append(Text("efgh")).ok());
  EXPECT_EQ(SizeOf("f"), 6u);
}

TEST_F(FaultyFileSystemTest, AppendedFilesFailAsOthersDo) {
  const std::string path = scratch_.Path("f");
  files_.Inject({.only = Operation::kCreate});
  EXPECT_TRUE(absl::IsUnavailable(files_.OpenForAppend(path).status()));
  files_.Clear();
  ASSERT_TRUE((*files_.OpenForAppend(path))->Append(Text("abcd")).ok());
  const auto file = *files_.OpenForAppend(path);
  files_.Inject({.effect = Effect::kTearWrite});
  EXPECT_FALSE(file->Append(Text("efgh")).ok());
  EXPECT_EQ(SizeOf("f"), 6u);
}

TEST_F(FaultyFileSystemTest, AFailedOperationDoesNothing) {
  files_.Inject({.only = Operation::kCreateDirectory});
  EXPECT_FALSE(files_.CreateDirectory(scratch_.Path("d")).ok());
  EXPECT_TRUE(files_.List(scratch_.path())->empty());
}

TEST_F(FaultyFileSystemTest, ALostReplyDoesIt) {
  files_.Inject(
      {.effect = Effect::kLoseReply, .only = Operation::kCreateDirectory});
  EXPECT_FALSE(files_.CreateDirectory(scratch_.Path("d")).ok());
  EXPECT_EQ(files_.List(scratch_.path())->size(), 1u);
}

TEST_F(FaultyFileSystemTest, ATornWriteLeavesHalf) {
  const auto file = Create("f");
  files_.Inject({.effect = Effect::kTearWrite});
  EXPECT_FALSE(file->Append(Text("012345")).ok());
  EXPECT_EQ(SizeOf("f"), 3u);
}

TEST_F(FaultyFileSystemTest, ACorruptReadFlipsABit) {
  ASSERT_TRUE(Create("f")->Append(Text("012345")).ok());
  const auto file = *files_.OpenForRead(scratch_.Path("f"));
  files_.Inject({.effect = Effect::kCorruptRead});
  std::vector<std::byte> out(6);
  // Only reads count for it.
  EXPECT_TRUE(file->Info().ok());
  EXPECT_TRUE(file->Read(0, absl::MakeSpan(out)).ok());
  EXPECT_NE(out, Text("012345"));
  EXPECT_TRUE(file->Read(0, absl::MakeSpan(out)).ok());
  EXPECT_EQ(out, Text("012345"));
}

TEST_F(FaultyFileSystemTest, AFullDiskTakesWhatFits) {
  const auto file = Create("f");
  files_.LimitSpace(8);
  EXPECT_TRUE(file->Append(Text("01234")).ok());
  EXPECT_EQ(*files_.FreeBytes(scratch_.path()), 3u);
  EXPECT_TRUE(absl::IsResourceExhausted(file->Append(Text("56789"))));
  EXPECT_EQ(SizeOf("f"), 8u);
}

TEST_F(FaultyFileSystemTest, EveryCallIsCounted) {
  const auto file = Create("f");
  EXPECT_TRUE(file->Allocate(1).ok());
  EXPECT_TRUE(file->Write(0, Text("x")).ok());
  EXPECT_TRUE(file->Sync().ok());
  EXPECT_TRUE(file->Close().ok());
  const std::string path = scratch_.Path("f");
  EXPECT_TRUE(files_.Map(path, AccessPattern::kRandom).ok());
  EXPECT_TRUE(files_.RealPath(path).ok());
  EXPECT_TRUE(files_.Rename(path, scratch_.Path("g")).ok());
  EXPECT_TRUE(files_.RemoveTree(scratch_.Path("g")).ok());
  EXPECT_TRUE(files_.SyncDirectory(scratch_.path()).ok());
  std::vector<Operation> operations;
  for (const auto& call : files_.calls()) operations.push_back(call.operation);
  EXPECT_EQ(operations,
            (std::vector<Operation>{
                Operation::kCreate, Operation::kAllocate, Operation::kWrite,
                Operation::kSync, Operation::kClose, Operation::kMap,
                Operation::kRealPath, Operation::kRename,
                Operation::kRemoveTree, Operation::kSyncDirectory}));
  EXPECT_EQ(files_.calls()[0].path, path);
}

TEST_F(FaultyFileSystemTest, ABlockedCallIsDoneWhenTheFaultGoes) {
  files_.Inject({.effect = Effect::kBlock, .only = Operation::kCreate});
  bool done = false;
  std::jthread blocked([&] { done = files_.Create(scratch_.Path("f")).ok(); });
  files_.AwaitHit();
  EXPECT_FALSE(files_.Stat(scratch_.Path("f")).ok()) << "others go on";
  files_.Clear();
  blocked.join();
  EXPECT_TRUE(done);
  EXPECT_TRUE(files_.Stat(scratch_.Path("f")).ok());
}

}  // namespace
}  // namespace hearth::io
