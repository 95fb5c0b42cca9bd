#include "engine/store/joined_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/io/atomic_file.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::store {
namespace {

// Rows 0 .. 4 of 6 bytes; none; 5 .. 99 of 4 bytes, which become 6 with zeros.
// Each byte of a row is the row's number.
class JoinedRowsTest : public ::testing::Test {
 protected:
  JoinedRowsTest() {
    for (int row = 0; row < 100; ++row) {
      const size_t stored = row < 5 ? 6 : 4;
      all_.append(stored, static_cast<char>(row)).append(6 - stored, '\0');
    }
    std::vector<RowsOfFile> parts;
    parts.push_back(Part(
        "first",
        {.first_row = 0, .num_rows = 5, .first_offset = 3, .row_bytes = 6}));
    parts.push_back(Part("none", {.first_row = 5, .row_bytes = 4}));
    parts.push_back(
        Part("second", {.first_row = 5,
                        .num_rows = 95,
                        .first_offset = 1,
                        .row_bytes = 4,
                        .convert = [](const std::byte* from, std::byte* to) {
                          std::memcpy(to, from, 4);
                          std::memset(to + 4, 0, 2);
                        }}));
    joined_ = NewJoinedRows(std::move(parts), 6);
  }

  RowsOfFile Part(const std::string& name, const io::RowTable& table) {
    std::string bytes(table.first_offset, '\xff');
    for (int64_t i = 0; i < table.num_rows; ++i) {
      bytes.append(table.row_bytes, static_cast<char>(table.first_row + i));
    }
    const std::string path = scratch_.Path(name);
    EXPECT_TRUE(io::WriteFileAtomically(files_, path, bytes).ok());
    return {.file = *files_.OpenForRead(path), .table = table};
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  io::ScratchDirectory scratch_;
  std::string all_;
  std::unique_ptr<io::ReadableFile> joined_;
};

TEST_F(JoinedRowsTest, AnyRangeIsThatOfAllRows) {
  EXPECT_EQ(joined_->Info()->size_bytes, all_.size());
  for (size_t begin = 0; begin < all_.size(); begin += 7) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{6}, size_t{100}}) {
      const size_t end = std::min(begin + count, all_.size());
      std::string bytes(end - begin, 'x');
      ASSERT_TRUE(joined_
                      ->Read(begin, {reinterpret_cast<std::byte*>(bytes.data()),
                                     bytes.size()})
                      .ok());
      EXPECT_EQ(bytes, all_.substr(begin, end - begin)) << begin;
    }
  }
}

TEST_F(JoinedRowsTest, EndsWithTheLastRow) {
  std::vector<std::byte> bytes(2);
  const absl::Status status =
      joined_->Read(all_.size() - 1, absl::MakeSpan(bytes));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("and 2 other files: ends at byte 600"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace hearth::store
