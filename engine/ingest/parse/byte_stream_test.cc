#include "engine/ingest/parse/byte_stream.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/io/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

// A few hundred KB that do not compress well.
std::string LongText() {
  std::string text;
  for (uint64_t i = 0; text.size() < 300'000; ++i) {
    absl::StrAppend(&text, i * 2654435761u % 4294967291u, "\n");
  }
  return text;
}

absl::StatusOr<std::string> ReadAll(ByteStream& stream, size_t piece = 1000) {
  std::string all;
  while (true) {
    std::string buffer(piece, '\0');
    const auto count = stream.Read(absl::MakeSpan(
        reinterpret_cast<std::byte*>(buffer.data()), buffer.size()));
    if (!count.ok()) return count.status();
    all.append(buffer, 0, *count);
    if (*count < piece) return all;
  }
}

absl::StatusOr<std::string> Decompress(const std::string& bytes,
                                       size_t piece = 1000) {
  auto stream = NewGzipStream(io::NewMemoryFile(bytes, "edge.csv.gz"));
  EXPECT_TRUE(stream.ok());
  return ReadAll(**stream, piece);
}

TEST(GzipFileTest, DecompressesInPiecesOfAnySize) {
  const std::string text = LongText();
  for (const size_t piece : {1, 999, 65536, 1 << 20}) {
    const auto read = Decompress(Gzip(text), piece);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, text) << piece;
  }
}

TEST(GzipFileTest, JoinsMembersAndIgnoresZerosAfterThem) {
  const std::string members = absl::StrCat(Gzip("0,1\n"), Gzip(""), Gzip("2"));
  EXPECT_EQ(Decompress(members).value(), "0,1\n2");
  EXPECT_EQ(Decompress(members + std::string(70'000, '\0')).value(), "0,1\n2");
  EXPECT_EQ(Decompress(Gzip("")).value(), "");
}

TEST(GzipFileTest, StaysAtTheEnd) {
  auto stream = NewGzipStream(io::NewMemoryFile(Gzip("ab")));
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(ReadAll(**stream).value(), "ab");
  EXPECT_EQ(ReadAll(**stream).value(), "");
}

TEST(GzipFileTest, EveryTruncationIsDataLoss) {
  const std::string whole = Gzip("0,1\n1,2\n");
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto read = Decompress(whole.substr(0, size));
    ASSERT_TRUE(absl::IsDataLoss(read.status())) << size << read.status();
    EXPECT_EQ(read.status().message(),
              absl::StrCat("edge.csv.gz: is truncated, at byte ", size,
                           " of the compressed data"));
  }
}

TEST(GzipFileTest, DamageIsDataLoss) {
  const std::string whole = Gzip(LongText());
  // Damage in magic, method, deflate stream, CRC and length.
  for (const size_t at : {size_t{1}, size_t{2}, whole.size() / 2,
                          whole.size() - 8, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 0x40;
    const auto read = Decompress(damaged);
    ASSERT_TRUE(absl::IsDataLoss(read.status())) << at << read.status();
    EXPECT_TRUE(absl::StartsWith(read.status().message(), "edge.csv.gz: is "))
        << read.status();
  }
}

TEST(GzipFileTest, ErrorsStay) {
  auto stream = NewGzipStream(io::NewMemoryFile(Gzip("abc").substr(0, 12)));
  ASSERT_TRUE(stream.ok());
  const auto first = ReadAll(**stream);
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(ReadAll(**stream).status(), first.status());
}

TEST(GzipFileTest, WhatFollowsIsRefused) {
  const std::string whole = Gzip("abc");
  EXPECT_EQ(Decompress(whole + "x").status().message(),
            absl::StrCat("edge.csv.gz: is truncated, at byte ",
                         whole.size() + 1, " of the compressed data"));
  EXPECT_TRUE(absl::IsDataLoss(Decompress(whole + "garbage").status()));
  const auto later = Decompress(whole + std::string("\0\0x", 3));
  EXPECT_EQ(later.status().message(),
            absl::StrCat("edge.csv.gz: has something after its end, at byte ",
                         whole.size() + 2));
}

absl::StatusOr<std::string> DecompressZstd(
    const std::string& bytes, size_t piece = 1000,
    uint64_t max_window_bytes = kMaxZstdWindowBytes) {
  auto stream =
      NewZstdStream(io::NewMemoryFile(bytes, "e.zst"), max_window_bytes);
  EXPECT_TRUE(stream.ok());
  return ReadAll(**stream, piece);
}

TEST(ZstdFileTest, DecompressesInPiecesOfAnySize) {
  const std::string text = LongText();
  for (const size_t piece : {1, 999, 65536, 1 << 20}) {
    const auto read = DecompressZstd(Zstd(text), piece);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, text) << piece;
  }
}

TEST(ZstdFileTest, JoinsFramesAndSkipsThoseToSkip) {
  const std::string skipped("\x50\x2a\x4d\x18\4\0\0\0size", 12);
  const std::string file =
      absl::StrCat(skipped, Zstd("0,1\n"), Zstd(""), skipped, Zstd("2"));
  EXPECT_TRUE(IsZstd(file));
  EXPECT_EQ(DecompressZstd(file).value(), "0,1\n2");
  EXPECT_FALSE(IsZstd("\x28\xb5\x2f"));
  EXPECT_FALSE(IsZstd("P*M P*M"));
}

TEST(ZstdFileTest, EveryTruncationIsDataLoss) {
  const std::string whole = Zstd("0,1\n1,2\n");
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto read = DecompressZstd(whole.substr(0, size));
    ASSERT_TRUE(absl::IsDataLoss(read.status())) << size << read.status();
    EXPECT_EQ(read.status().message(),
              absl::StrCat("e.zst: is truncated, at byte ", size,
                           " of the compressed data"));
  }
  const std::string text = Zstd(LongText());
  EXPECT_TRUE(absl::IsDataLoss(
      DecompressZstd(text.substr(0, text.size() / 2)).status()));
}

TEST(ZstdFileTest, DamageIsDataLoss) {
  const std::string whole = Zstd(LongText());
  // Damage in magic, a block and the checksum.
  for (const size_t at : {size_t{1}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 0x40;
    const auto read = DecompressZstd(damaged);
    ASSERT_TRUE(absl::IsDataLoss(read.status())) << at << read.status();
    EXPECT_TRUE(absl::StartsWith(read.status().message(), "e.zst: is damaged"))
        << read.status();
  }
}

TEST(ZstdFileTest, WhatFollowsIsRefusedAndErrorsStay) {
  const std::string whole = Zstd("abc");
  auto stream = NewZstdStream(io::NewMemoryFile(whole + "garbage", "e.zst"));
  ASSERT_TRUE(stream.ok());
  const absl::Status refused = ReadAll(**stream).status();
  EXPECT_TRUE(absl::IsDataLoss(refused));
  EXPECT_EQ(refused.message(),
            absl::StrCat("e.zst: has something after its end, at byte ",
                         whole.size()));
  EXPECT_EQ(ReadAll(**stream).status(), refused);
}

TEST(ZstdFileTest, LargerWindowsThanAllowedAreRefused) {
  const std::string text = LongText();
  EXPECT_EQ(DecompressZstd(Zstd(text, 22), 1000, 1 << 22).value(), text);
  const absl::Status refused =
      DecompressZstd(Zstd(text, 22), 1000, (1 << 22) - 1).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("a window of more than 2.0 MiB"));
}

TEST(RangeStreamTest, ReadsItsBytesAndTellsWhereTheyBegin) {
  for (const size_t piece : {1, 2, 100}) {
    const auto whole = NewRangeStream(io::NewMemoryFile("0123", "a.txt"), 0, 4);
    EXPECT_EQ(ReadAll(*whole, piece).value(), "0123");
    EXPECT_EQ(whole->path(), "a.txt");
    const auto part = NewRangeStream(io::NewMemoryFile("0123", "a.txt"), 1, 3);
    EXPECT_EQ(ReadAll(*part, piece).value(), "12");
    EXPECT_EQ(part->path(), "a.txt after byte 1");
  }
}

TEST(TextStreamTest, IsRecognisedByItsFirstBytes) {
  for (const std::string& bytes :
       {std::string("0,1\n"), Gzip("0,1\n"), Zstd("0,1\n")}) {
    auto stream = NewTextStream(io::NewMemoryFile(bytes, "edge.csv.gz"));
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_EQ(ReadAll(**stream, 3).value(), "0,1\n");
    EXPECT_EQ((*stream)->path(), "edge.csv.gz");
    EXPECT_EQ(*IsCompressedText(*io::NewMemoryFile(bytes)), bytes != "0,1\n");
  }
  for (const std::string bytes : {"", "\x1f"}) {
    auto stream = NewTextStream(io::NewMemoryFile(bytes));
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(ReadAll(**stream).value(), bytes);
  }
}

TEST(CheckIsTextTest, TextIsAnythingWithoutZeros) {
  for (const std::string text : {"", "0 1\n",
                                 "\xef\xbb\xbf"
                                 "0 1\n",
                                 "\xe9\x80 caf\xc3\xa9\n", "a\x01 b", "PK 7\n",
                                 "BZh 1AY\n", "PAR1 PAR2\n"}) {
    EXPECT_TRUE(CheckIsText(text).ok()) << CheckIsText(text);
  }
}

TEST(CheckIsTextTest, TellsWhatAFileIsInstead) {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  const std::pair<std::string, const char*> kinds[] = {
      {Gzip("0 1\n"), "is compressed by gzip twice"},
      {Zstd("0 1\n"), "the second time by zstd"},
      {std::string("\xfd\x37zXZ\0\0\4", 8), "is compressed by xz"},
      {"BZh91AY&SY\x12", "is compressed by bzip2"},
      {BuildZip({{.name = "a"}}), "is a zip archive"},
      {BuildZip({}), "is an empty zip archive"},
      {tar, "is a tar archive"},
      {std::string("\xff\xfe"
                   "0\0 \0"
                   "1\0\n\0",
                   10),
       "is UTF-16 text"},
      {std::string("\xfe\xff\0"
                   "0\0 ",
                   6),
       "is UTF-16 text"},
      {std::string("\xff\xfe\0\0"
                   "0\0\0\0",
                   8),
       "is UTF-32 text"},
      {std::string("0\0 \0"
                   "1\0\n\0",
                   8),
       "iconv -f UTF-16LE"},
      {std::string("\0"
                   "0\0 \0"
                   "1\0\n",
                   8),
       "iconv -f UTF-16BE"},
      {std::string("\x93NUMPY\1\0", 8), "is a numpy array"},
      {std::string("0 1\n\0\0\0\0", 8),
       "is binary data, not text: byte 4 is zero"},
  };
  for (const auto& [bytes, problem] : kinds) {
    const absl::Status refused = CheckIsText(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << problem;
    EXPECT_THAT(std::string(refused.message()), testing::HasSubstr(problem));
  }
}

}  // namespace
}  // namespace hearth::ingest
