#include "engine/io/descriptor.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace hearth::io {
namespace {

// A file in memory whose calls go as a script says: a positive number is the
// most bytes that the call moves, a negative one its errno. After the script,
// calls move everything.
class ScriptedFile {
 public:
  explicit ScriptedFile(std::string contents, std::vector<int> script)
      : contents_(std::move(contents)), script_(std::move(script)) {}

  ssize_t Read(uint64_t offset, absl::Span<std::byte> out) {
    const ssize_t allowed = Next(out.size());
    if (allowed < 0 || offset >= contents_.size())
      return std::min<ssize_t>(allowed, 0);
    const size_t count = std::min<size_t>(allowed, contents_.size() - offset);
    std::memcpy(out.data(), contents_.data() + offset, count);
    return static_cast<ssize_t>(count);
  }

  ssize_t Write(uint64_t offset, absl::Span<const std::byte> data) {
    const ssize_t allowed = Next(data.size());
    if (allowed <= 0) return allowed;
    contents_.resize(std::max<size_t>(contents_.size(), offset + allowed));
    std::memcpy(contents_.data() + offset, data.data(), allowed);
    return allowed;
  }

  const std::string& contents() const { return contents_; }
  size_t calls() const { return calls_; }

 private:
  ssize_t Next(size_t wanted) {
    const size_t call = calls_++;
    if (call >= script_.size()) return static_cast<ssize_t>(wanted);
    if (script_[call] >= 0) {
      return std::min<ssize_t>(script_[call], static_cast<ssize_t>(wanted));
    }
    errno = -script_[call];
    return -1;
  }

  std::string contents_;
  const std::vector<int> script_;
  size_t calls_ = 0;
};

struct ReadResult {
  absl::Status status;
  std::string text;
  std::vector<int> retries;
};

ReadResult Read(ScriptedFile& file, uint64_t offset, size_t size) {
  ReadResult result;
  std::vector<std::byte> out(size);
  result.status =
      ReadFully([&](uint64_t at,
                    absl::Span<std::byte> part) { return file.Read(at, part); },
                [&](int retry) { result.retries.push_back(retry); }, "f",
                offset, absl::MakeSpan(out));
  result.text.assign(reinterpret_cast<const char*>(out.data()), out.size());
  return result;
}

TEST(ReadFullyTest, ContinuesShortAndInterruptedReads) {
  ScriptedFile file("0123456789", {1, -EINTR, 3, -EINTR, -EINTR, 2});
  const ReadResult result = Read(file, 1, 8);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.text, "12345678");
  EXPECT_TRUE(result.retries.empty());
}

TEST(ReadFullyTest, RepeatsAfterEioThreeTimes) {
  ScriptedFile file("0123456789", {-EIO, -EIO, -EIO});
  const ReadResult result = Read(file, 0, 10);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.text, "0123456789");
  EXPECT_EQ(result.retries, (std::vector<int>{1, 2, 3}));
}

TEST(RetryDelayTest, GrowsFourfold) {
  EXPECT_EQ(RetryDelay(1), absl::Milliseconds(4));
  EXPECT_EQ(RetryDelay(kMaxReadRetries), absl::Milliseconds(64));
}

TEST(ReadFullyTest, GivesUpAtTheFourthEioNamingPathAndOffset) {
  ScriptedFile file("0123456789", {4, -EIO, -EIO, -EIO, -EIO});
  const ReadResult result = Read(file, 2, 8);
  EXPECT_EQ(result.status,
            absl::UnavailableError("f: reading at byte 6: Input/output error"));
  EXPECT_EQ(file.calls(), 5u);
}

TEST(ReadFullyTest, CountsEioAnewAfterProgress) {
  ScriptedFile file("0123456789", {-EIO, -EIO, -EIO, 5, -EIO, -EIO, -EIO});
  EXPECT_TRUE(Read(file, 0, 10).status.ok());
}

TEST(ReadFullyTest, NamesTheOffsetAtWhichTheFileEnds) {
  ScriptedFile file("0123456789", {});
  const ReadResult result = Read(file, 4, 20);
  EXPECT_EQ(result.status,
            absl::DataLossError("f: ends at byte 10, 14 bytes too early"));
}

TEST(ReadFullyTest, DoesNotRepeatOtherErrors) {
  ScriptedFile file("0123456789", {-EBADF});
  EXPECT_FALSE(Read(file, 0, 1).status.ok());
  EXPECT_EQ(file.calls(), 1u);
}

TEST(ReadFullyTest, NothingTakesNoCall) {
  ScriptedFile file("", {-EIO});
  EXPECT_TRUE(Read(file, 5, 0).status.ok());
  EXPECT_EQ(file.calls(), 0u);
}

absl::Status Write(ScriptedFile& file, uint64_t offset,
                   const std::string& text) {
  return WriteFully(
      [&](uint64_t at, absl::Span<const std::byte> part) {
        return file.Write(at, part);
      },
      "f", offset,
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()),
                          text.size()));
}

TEST(WriteFullyTest, ContinuesShortAndInterruptedWrites) {
  ScriptedFile file("ab", {2, -EINTR, 1});
  EXPECT_TRUE(Write(file, 2, "0123456").ok());
  EXPECT_EQ(file.contents(), "ab0123456");
}

TEST(WriteFullyTest, DoesNotRepeatAnyError) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    ScriptedFile file("", {3, -error});
    const absl::Status status = Write(file, 0, "0123456");
    EXPECT_FALSE(status.ok());
    EXPECT_NE(std::string(status.message()).find("f: writing at byte 3"),
              std::string::npos);
    EXPECT_EQ(file.calls(), 2u);
  }
}

TEST(WriteFullyTest, TellsAFullDiskApart) {
  ScriptedFile file("", {-ENOSPC});
  EXPECT_TRUE(absl::IsResourceExhausted(Write(file, 0, "x")));
}

TEST(WriteFullyTest, DoesNotSpinOnAWriteWithoutEffect) {
  ScriptedFile file("", {0});
  EXPECT_TRUE(absl::IsUnavailable(Write(file, 0, "x")));
}

}  // namespace
}  // namespace hearth::io
