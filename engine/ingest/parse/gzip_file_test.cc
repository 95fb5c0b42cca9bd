#include "engine/ingest/parse/gzip_file.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/ingest/parse/zip_builder.h"
#include "engine/io/memory_file.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

// A few hundred KB that do not compress away.
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
  // Magic, method, the deflate stream, CRC, length.
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

TEST(TextStreamTest, IsRecognisedByItsFirstBytes) {
  for (const std::string& bytes : {std::string("0,1\n"), Gzip("0,1\n")}) {
    auto stream = NewTextStream(io::NewMemoryFile(bytes, "edge.csv.gz"));
    ASSERT_TRUE(stream.ok()) << stream.status();
    EXPECT_EQ(ReadAll(**stream, 3).value(), "0,1\n");
    EXPECT_EQ((*stream)->path(), "edge.csv.gz");
  }
  for (const std::string bytes : {"", "\x1f"}) {
    auto stream = NewTextStream(io::NewMemoryFile(bytes));
    ASSERT_TRUE(stream.ok());
    EXPECT_EQ(ReadAll(**stream).value(), bytes);
  }
}

}  // namespace
}  // namespace hearth::ingest
