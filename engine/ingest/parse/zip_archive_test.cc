#include "engine/ingest/parse/zip_archive.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

absl::StatusOr<std::unique_ptr<ZipArchive>> Open(const std::string& bytes) {
  return ZipArchive::Open(io::NewMemoryFile(bytes, "data.npz"));
}

absl::StatusOr<std::string> Read(io::ReadableFile& file, uint64_t offset,
                                 size_t count) {
  std::string out(count, '\0');
  const absl::Status status = file.Read(
      offset,
      absl::MakeSpan(reinterpret_cast<std::byte*>(out.data()), out.size()));
  if (!status.ok()) return status;
  return out;
}

/// All bytes of the only member.
absl::StatusOr<std::string> ReadOnly(const std::string& bytes) {
  const auto archive = Open(bytes);
  if (!archive.ok()) return archive.status();
  const ZipMember& member = (*archive)->members().front();
  const auto file = (*archive)->OpenMember(member.name);
  if (!file.ok()) return file.status();
  return Read(**file, 0, member.size_bytes);
}

std::string Words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, i, " ");
  return text;
}

std::string Message(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), " ",
                      status.message());
}

TEST(ZipArchiveTest, ListsMembers) {
  const std::string words = Words(1000);
  for (const bool zip64 : {false, true}) {
    const auto archive = Open(BuildZip(
        {{.name = "a.npy", .contents = words, .deflate = true, .zip64 = zip64},
         {.name = "b/c", .contents = "xyz", .zip64 = zip64}},
        zip64, "a comment"));
    ASSERT_TRUE(archive.ok()) << archive.status();
    const std::vector<ZipMember>& members = (*archive)->members();
    ASSERT_EQ(members.size(), 2u);
    EXPECT_EQ(members[0].name, "a.npy");
    EXPECT_TRUE(members[0].is_deflated);
    EXPECT_EQ(members[0].size_bytes, words.size());
    EXPECT_LT(members[0].compressed_bytes, words.size());
    EXPECT_EQ(members[1].size_bytes, 3u);
    EXPECT_EQ((*archive)->Find("b/c"), &members[1]);
    EXPECT_EQ((*archive)->Find("b"), nullptr);
  }
}

TEST(ZipArchiveTest, AnEmptyArchiveHasNoMembers) {
  const auto archive = Open(BuildZip({}));
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_TRUE((*archive)->members().empty());
  EXPECT_EQ(Message((*archive)->OpenMember("x\n").status()),
            "NOT_FOUND data.npz: has no member \"x\\n\"");
}

TEST(ZipArchiveTest, MembersAreFiles) {
  const std::string words = Words(200'000);
  for (const bool deflate : {false, true}) {
    auto archive = Open(
        BuildZip({{.name = "first", .contents = "1"},
                  {.name = "words", .contents = words, .deflate = deflate}}));
    ASSERT_TRUE(archive.ok());
    const auto file = (*archive)->OpenMember("words");
    ASSERT_TRUE(file.ok()) << file.status();
    // Files outlive their archive.
    archive->reset();
    EXPECT_EQ((*file)->path(), "data.npz: words");
    EXPECT_EQ((*file)->Info()->size_bytes, words.size());
    EXPECT_TRUE((*file)->Info()->is_regular);
    // Offsets: ascending, far ahead, back, all, nothing.
    for (const auto& [offset, count] :
         std::vector<std::pair<size_t, size_t>>{{0, 12},
                                                {10, 118},
                                                {words.size() - 5, 5},
                                                {700'000, 300'000},
                                                {0, words.size()},
                                                {words.size(), 0}}) {
      const auto read = Read(**file, offset, count);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, words.substr(offset, count)) << offset;
    }
    EXPECT_EQ(Message(Read(**file, words.size() - 1, 2).status()),
              absl::StrCat("DATA_LOSS data.npz: words: ends at byte ",
                           words.size(), ", where bytes from ",
                           words.size() - 1, " on were wanted"));
    EXPECT_TRUE(absl::IsDataLoss(Read(**file, ~uint64_t{0}, 2).status()));
  }
}

TEST(ZipArchiveTest, AMemberMayBeReadByManyThreads) {
  const std::string words = Words(100'000);
  for (const bool deflate : {false, true}) {
    const auto archive =
        Open(BuildZip({{.name = "x", .contents = words, .deflate = deflate}}));
    ASSERT_TRUE(archive.ok());
    const auto file = (*archive)->OpenMember("x");
    ASSERT_TRUE(file.ok());
    std::vector<std::thread> readers;
    std::atomic<int> right = 0;
    for (size_t reader = 0; reader < 4; ++reader) {
      readers.emplace_back([&, reader] {
        for (size_t offset = reader * 1000; offset + 50'000 < words.size();
             offset += 50'000) {
          right += Read(**file, offset, 50'000).value_or("") ==
                   words.substr(offset, 50'000);
        }
      });
    }
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(right, static_cast<int>(4 * (words.size() / 50'000)));
  }
}

TEST(ZipArchiveTest, StoredMembersLieInTheArchive) {
  const std::string bytes = BuildZip(
      {{.name = "a", .contents = "1"}, {.name = "b", .contents = "23"}});
  const auto archive = Open(bytes);
  ASSERT_TRUE(archive.ok());
  const auto offset = (*archive)->DataOffset("b");
  ASSERT_TRUE(offset.ok());
  EXPECT_EQ(bytes.substr(*offset, 2), "23");
}

TEST(ZipArchiveTest, AMemberMayBeAnNpyFile) {
  const std::string npy =
      store::FormatNpyHeader(store::DType::kFloat32, {1000, 2}, 64) +
      std::string(8000, 'x');
  for (const bool deflate : {false, true}) {
    const auto archive = Open(BuildZip(
        {{.name = "node_feat.npy", .contents = npy, .deflate = deflate}}));
    ASSERT_TRUE(archive.ok());
    const auto file = (*archive)->OpenMember("node_feat.npy");
    ASSERT_TRUE(file.ok());
    const auto header = store::ReadNpyHeader(**file);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->shape, (std::vector<int64_t>{1000, 2}));
    EXPECT_EQ(Read(**file, header->data_offset, 8000).value(),
              std::string(8000, 'x'));
  }
}

TEST(ZipArchiveTest, ReadsWhatNumpyWrote) {
  auto npz = io::FileSystem::Posix().OpenForRead(
      "engine/ingest/parse/testdata/arrays.npz");
  ASSERT_TRUE(npz.ok()) << npz.status();
  const auto archive = ZipArchive::Open(*std::move(npz));
  ASSERT_TRUE(archive.ok()) << archive.status();
  ASSERT_EQ((*archive)->members().size(), 2u);
  const auto file = (*archive)->OpenMember("edge_index.npy");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto header = store::ReadNpyHeader(**file);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->shape, (std::vector<int64_t>{2, 1000}));
  const auto data = Read(**file, header->data_offset, 16'000);
  ASSERT_TRUE(data.ok()) << data.status();
  for (int64_t i = 0; i < 2000; ++i) {
    int64_t value;
    std::memcpy(&value, data->data() + 8 * i, sizeof(value));
    ASSERT_EQ(value, i);
  }
}

TEST(ZipArchiveTest, EmptyMembersAreVerified) {
  for (const bool deflate : {false, true}) {
    ZipSource source{.name = "e", .contents = "", .deflate = deflate};
    EXPECT_EQ(ReadOnly(BuildZip({source})).value(), "");
    source.claimed_crc32 = 7;
    EXPECT_TRUE(absl::IsDataLoss(ReadOnly(BuildZip({source})).status()));
  }
}

TEST(ZipArchiveTest, TheChecksumIsVerifiedAtTheEnd) {
  for (const bool deflate : {false, true}) {
    const auto archive = Open(BuildZip({{.name = "x",
                                         .contents = "abcdef",
                                         .deflate = deflate,
                                         .claimed_crc32 = 0x12}}));
    ASSERT_TRUE(archive.ok());
    auto file = (*archive)->OpenMember("x");
    ASSERT_TRUE(file.ok());
    // Reads in order with an overlap, the end last.
    if (!deflate) {
      EXPECT_TRUE(Read(**file, 0, 4).ok());
      EXPECT_TRUE(Read(**file, 2, 3).ok());
    }
    const std::string wanted =
        "DATA_LOSS data.npz: x: is damaged: its CRC-32 is 4b8e39ef, the "
        "archive says 00000012";
    EXPECT_EQ(Message(Read(**file, 4, 2).status()), wanted);
    EXPECT_EQ(Message(Read(**file, 0, 6).status()), wanted);
  }
  // With a gap between reads, a stored member is not verified.
  const auto archive = Open(
      BuildZip({{.name = "x", .contents = "abcdef", .claimed_crc32 = 0x12}}));
  auto file = (*archive)->OpenMember("x");
  EXPECT_EQ(Read(**file, 4, 2).value(), "ef");
}

TEST(ZipArchiveTest, SizesMustBeTrue) {
  const std::string words = Words(1000);
  ZipSource source{.name = "x", .contents = words, .deflate = true};
  source.claimed_size = words.size() + 1;
  EXPECT_EQ(Message(ReadOnly(BuildZip({source})).status()),
            absl::StrCat("DATA_LOSS data.npz: x: has ", words.size(),
                         " bytes, the archive says ", words.size() + 1));
  source.claimed_size = words.size() - 1;
  EXPECT_EQ(Message(ReadOnly(BuildZip({source})).status()),
            absl::StrCat("DATA_LOSS data.npz: x: goes on after the ",
                         words.size() - 1, " bytes that the archive says"));
  source.claimed_size = 0;
  EXPECT_TRUE(absl::IsDataLoss(ReadOnly(BuildZip({source})).status()));
}

TEST(ZipArchiveTest, DamagedDataIsDataLoss) {
  const std::string words = Words(1000);
  const std::string whole =
      BuildZip({{.name = "x", .contents = words, .deflate = true}});
  int refused = 0;
  for (size_t at = 60; at < 1000; at += 7) {
    std::string damaged = whole;
    damaged[at] ^= 0x10;
    const auto read = ReadOnly(damaged);
    refused += absl::IsDataLoss(read.status()) &&
               absl::StartsWith(read.status().message(), "data.npz: x: ");
  }
  EXPECT_EQ(refused, (1000 - 60 + 6) / 7);
}

TEST(ZipArchiveTest, EveryTruncationIsRefused) {
  const std::string whole = BuildZip(
      {{.name = "a", .contents = "12"}, {.name = "b", .contents = "3"}}, true);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Open(whole.substr(0, size)).ok()) << size;
  }
}

TEST(ZipArchiveTest, RefusesWhatItDoesNotRead) {
  EXPECT_EQ(Message(ReadOnly(BuildZip({{.name = "x", .flags = 1}})).status()),
            "INVALID_ARGUMENT data.npz: \"x\": is encrypted or a patch");
  EXPECT_EQ(
      Message(
          ReadOnly(BuildZip({{.name = "x\n", .claimed_method = 14}})).status()),
      "INVALID_ARGUMENT data.npz: \"x\\n\": is compressed with method 14; only "
      "stored and deflated members are read");
  EXPECT_EQ(
      Message(ReadOnly(BuildZip({{.name = "x"}, {.name = "x"}})).status()),
      "INVALID_ARGUMENT data.npz: has \"x\" twice");
  EXPECT_EQ(
      Message(ReadOnly(BuildZip({{.name = "x", .claimed_size = 9}})).status()),
      "INVALID_ARGUMENT data.npz: \"x\": cannot have 9 bytes, stored in "
      "0");
  EXPECT_EQ(Message(ReadOnly("no zip file, but long enough").status()),
            "INVALID_ARGUMENT data.npz: is not a zip file, or is truncated: "
            "there is no directory at its end");
}

TEST(ZipArchiveTest, RefusesSizesThatDeflateCannotReach) {
  ZipSource bomb{.name = "x", .contents = "abc", .deflate = true};
  bomb.zip64 = true;
  bomb.claimed_size = uint64_t{1} << 62;
  const auto refused = ReadOnly(BuildZip({bomb}));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

/// `bytes` with the 32-bit number at `offset` after the last `magic` replaced.
std::string Patch(std::string bytes, absl::string_view magic, size_t offset,
                  uint32_t value) {
  const size_t at = bytes.rfind(std::string(magic)) + offset;
  for (int i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> 8 * i);
  return bytes;
}

TEST(ZipArchiveTest, RefusesDirectoriesThatDoNotHoldTogether) {
  const std::string whole =
      BuildZip({{.name = "a", .contents = "12"}, {.name = "b"}});
  const std::string zip64 = BuildZip({{.name = "a", .zip64 = true}}, true);
  const struct {
    std::string bytes;
    std::string problem;
  } cases[] = {
      {Patch(whole, "PK\x05\x06", 12, 10), "does not end at byte"},
      {Patch(whole, "PK\x05\x06", 4, 1), "several files"},
      {Patch(whole, "PK\x05\x06", 8, 0x00010001), "after the 1 members"},
      {Patch(whole, "PK\x05\x06", 8, 0x00030003), "no record of a member"},
      {Patch(whole, "PK\x01\x02", 28, 0x7FFF), "truncated within"},
      {Patch(whole, "PK\x01\x02", 42, 0), "do not end before"},
      {Patch(whole, "PK\x01\x02", 42, 9999), "do not end before"},
      {Patch(zip64, "PK\x06\x07", 8, 0xFFFFFF), "where none can be"},
      {Patch(zip64, "PK\x06\x07", 8, 0), "has no zip64 end record"},
      {Patch(zip64, "PK\x06\x06", 16, 1), "several files"},
      {Patch(zip64, "PK\x06\x06", 32, 2), "several files"},
  };
  for (const auto& [bytes, problem] : cases) {
    const absl::Status status = Open(bytes).status();
    EXPECT_FALSE(status.ok()) << problem;
    EXPECT_TRUE(absl::StartsWith(status.message(), "data.npz: ")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), problem)) << status;
  }
  std::string many = Patch(zip64, "PK\x06\x06", 24, 1 << 30);
  many = Patch(many, "PK\x06\x06", 32, 1 << 30);
  EXPECT_TRUE(absl::IsResourceExhausted(Open(many).status()));
  std::string short_field = Patch(zip64, "PK\x01\x02", 46 + 1, 0x00020001);
  EXPECT_TRUE(absl::StrContains(Open(short_field).status().message(),
                                "lacks its zip64 sizes"));
}

TEST(ZipArchiveTest, AMembersOwnHeaderMustAgree) {
  const std::string whole = BuildZip({{.name = "a", .contents = "12"}});
  const auto damaged = [&](size_t at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    return Message(ReadOnly(bytes).status());
  };
  EXPECT_EQ(damaged(0), "DATA_LOSS data.npz: \"a\": has no header at byte 0");
  // Offsets of method, name, length of the extra fields.
  for (const size_t at : {8, 30}) {
    EXPECT_EQ(damaged(at),
              "DATA_LOSS data.npz: \"a\": has a header at byte 0 that is not "
              "what the directory says");
  }
  EXPECT_EQ(damaged(29),
            "DATA_LOSS data.npz: \"a\": passes the end of the archive");
}

}  // namespace
}  // namespace hearth::ingest
