#include "engine/io/read_plan.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "gtest/gtest.h"

namespace hearth::io {

namespace {

std::vector<RowAt> Numbered(const std::vector<int64_t>& rows) {
  std::vector<RowAt> numbered;
  for (size_t i = 0; i < rows.size(); ++i) numbered.push_back({rows[i], i});
  return numbered;
}

void ExpectSorted(const std::vector<int64_t>& rows) {
  std::vector<RowAt> expected = Numbered(rows);
  std::stable_sort(
      expected.begin(), expected.end(),
      [](const RowAt& a, const RowAt& b) { return a.row < b.row; });
  std::vector<RowAt> sorted = Numbered(rows);
  std::vector<RowAt> scratch;
  SortByRow(sorted, scratch);
  ASSERT_EQ(sorted.size(), expected.size());
  for (size_t i = 0; i < sorted.size(); ++i) {
    ASSERT_EQ(sorted[i].row, expected[i].row) << i << " of " << rows.size();
    ASSERT_EQ(sorted[i].position, expected[i].position) << i;
  }
}

TEST(SortByRowTest, SortsStablyWhateverTheNumberAndTheRange) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (const size_t count : {0, 1, 2, 127, 128, 129, 1000, 20000}) {
    for (const int bits : {1, 8, 9, 30, 47, 63}) {
      std::vector<int64_t> rows(count);
      for (int64_t& row : rows) {
        row = static_cast<int64_t>(random.Below(uint64_t{1} << bits));
      }
      ExpectSorted(rows);
    }
  }
}

TEST(SortByRowTest, LeavesWhatIsSortedAndReversesWhatIsReversed) {
  std::vector<int64_t> rows(1000);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = 1'000'000 + 3 * i;
  ExpectSorted(rows);
  std::reverse(rows.begin(), rows.end());
  ExpectSorted(rows);
  ExpectSorted(std::vector<int64_t>(1000, 7));
}

TEST(SortByRowTest, DiffersInOneHighDigitOnly) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 500; ++i) rows.push_back(((i * 37) % 100) << 40);
  ExpectSorted(rows);
}

struct Case {
  std::vector<int64_t> rows = {};
  RowLayout layout = {};
  uint32_t alignment = 512;
  ReadCost cost = {};
};

uint64_t Begin(const Case& c, int64_t row) {
  return c.layout.RowOffset(row) / c.alignment * c.alignment;
}

uint64_t End(const Case& c, int64_t row) {
  return (c.layout.RowOffset(row) + c.layout.row_bytes + c.alignment - 1) /
         c.alignment * c.alignment;
}

ReadPlan Plan(const Case& c) {
  ReadPlan plan;
  const absl::Status status =
      Coalesce(c.rows, c.layout, c.alignment, c.cost, plan);
  EXPECT_TRUE(status.ok()) << status;
  return plan;
}

uint64_t Cost(const Case& c, const ReadPlan& plan) {
  return plan.read_bytes + plan.reads.size() * c.cost.request_bytes;
}

/// Every position is in one read which holds its row whole.
void ExpectCovers(const Case& c, const ReadPlan& plan) {
  std::vector<bool> covered(c.rows.size(), false);
  size_t next = 0;
  for (const PlannedRead& read : plan.reads) {
    ASSERT_EQ(read.first_row, next);
    next += read.num_rows;
    ASSERT_LE(next, plan.rows.size());
    for (size_t i = read.first_row; i < next; ++i) {
      const RowAt& at = plan.rows[i];
      ASSERT_FALSE(covered[at.position]);
      covered[at.position] = true;
      ASSERT_EQ(at.row, c.rows[at.position]);
      ASSERT_GE(c.layout.RowOffset(at.row), read.offset);
      ASSERT_LE(c.layout.RowOffset(at.row) + c.layout.row_bytes,
                read.offset + read.length);
    }
  }
  ASSERT_EQ(next, c.rows.size());
}

/// Reads are aligned, within the file's aligned end, no longer than they may,
/// tight around their rows, and apart, unless a shared page has to be read
/// twice.
void ExpectWellFormed(const Case& c, const ReadPlan& plan) {
  uint64_t end = 0;
  uint64_t bytes = 0;
  const PlannedRead* last = nullptr;
  for (const PlannedRead& read : plan.reads) {
    const int64_t first = plan.rows[read.first_row].row;
    const int64_t final = plan.rows[read.first_row + read.num_rows - 1].row;
    ASSERT_EQ(read.offset, Begin(c, first));
    ASSERT_EQ(read.offset + read.length, End(c, final));
    ASSERT_TRUE(read.length <= c.cost.max_request_bytes || first == final);
    if (read.offset < end) {
      ASSERT_EQ(end - read.offset, c.alignment);
      ASSERT_GT(read.offset + read.length - last->offset,
                c.cost.max_request_bytes);
    }
    end = read.offset + read.length;
    bytes += read.length;
    last = &read;
  }
  ASSERT_LE(end, End(c, c.layout.num_rows - 1));
  const std::set<int64_t> distinct(c.rows.begin(), c.rows.end());
  EXPECT_EQ(plan.payload_bytes, distinct.size() * c.layout.row_bytes);
  EXPECT_EQ(plan.read_bytes, bytes);
}

/// The least cost over all ways to cut the sorted distinct rows.
uint64_t BruteForceCost(const Case& c) {
  const std::set<int64_t> distinct(c.rows.begin(), c.rows.end());
  const std::vector<int64_t> rows(distinct.begin(), distinct.end());
  uint64_t least = UINT64_MAX;
  for (uint64_t cuts = 0; cuts < uint64_t{1} << (rows.size() - 1); ++cuts) {
    uint64_t cost = 0;
    bool allowed = true;
    size_t first = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (i + 1 < rows.size() && (cuts >> i & 1) == 0) continue;
      const uint64_t length = End(c, rows[i]) - Begin(c, rows[first]);
      allowed &= first == i || length <= c.cost.max_request_bytes;
      cost += length + c.cost.request_bytes;
      first = i + 1;
    }
    if (allowed) least = std::min(least, cost);
  }
  return least;
}

Case RandomCase(RandomStream& random, size_t num_rows, int64_t range) {
  constexpr uint32_t kRowBytes[] = {4, 100, 256, 512, 513, 1024, 4096, 16384};
  constexpr uint64_t kFirst[] = {0, 80, 128, 512, 4096, 12345};
  constexpr uint64_t kRequest[] = {0, 1, 512, 4096, 20000};
  constexpr uint64_t kLongest[] = {0, 512, 2048, 8192, 131072};
  constexpr uint32_t kAlignment[] = {1, 512, 4096};
  Case c;
  c.layout = {.first_offset = kFirst[random.Below(6)],
              .row_bytes = kRowBytes[random.Below(8)],
              .num_rows = range};
  c.alignment = kAlignment[random.Below(3)];
  c.cost = {.request_bytes = kRequest[random.Below(5)],
            .max_request_bytes = kLongest[random.Below(5)]};
  for (size_t i = 0; i < num_rows; ++i) {
    c.rows.push_back(static_cast<int64_t>(random.Below(range)));
  }
  return c;
}

std::string Describe(const Case& c) {
  return absl::StrCat(c.rows.size(), " of ", c.layout.num_rows, " rows of ",
                      c.layout.row_bytes, " bytes at ", c.layout.first_offset,
                      ", alignment ", c.alignment, ", request ",
                      c.cost.request_bytes, ", longest ",
                      c.cost.max_request_bytes);
}

TEST(CoalesceTest, IsOptimalOnSmallCases) {
  RandomStream random(1, RandomPurpose::kGenerator);
  for (int i = 0; i < 4000; ++i) {
    const Case c = RandomCase(random, 1 + random.Below(10),
                              static_cast<int64_t>(1 + random.Below(60)));
    SCOPED_TRACE(Describe(c));
    const ReadPlan plan = Plan(c);
    ASSERT_NO_FATAL_FAILURE(ExpectCovers(c, plan));
    ASSERT_NO_FATAL_FAILURE(ExpectWellFormed(c, plan));
    ASSERT_EQ(Cost(c, plan), BruteForceCost(c));
  }
}

TEST(CoalesceTest, CoversManyRowsExactlyWithOneReusedPlan) {
  RandomStream random(2, RandomPurpose::kGenerator);
  ReadPlan plan;
  for (int i = 0; i < 200; ++i) {
    const Case c = RandomCase(random, random.Below(3000),
                              static_cast<int64_t>(1 + random.Below(20000)));
    SCOPED_TRACE(Describe(c));
    ASSERT_TRUE(Coalesce(c.rows, c.layout, c.alignment, c.cost, plan).ok());
    ASSERT_NO_FATAL_FAILURE(ExpectCovers(c, plan));
    ASSERT_NO_FATAL_FAILURE(ExpectWellFormed(c, plan));
  }
}

TEST(CoalesceTest, KeepsWithinTheMemoryThatItTells) {
  RandomStream random(4, RandomPurpose::kGenerator);
  for (const int64_t range : {5'000, 200'000, 50'000'000}) {
    ReadPlan plan;
    for (const size_t count : {9'000, 10'000}) {
      Case c{.layout = {128, 512, range}};
      for (size_t i = 0; i < count; ++i) {
        c.rows.push_back(static_cast<int64_t>(random.Below(range)));
      }
      ASSERT_TRUE(Coalesce(c.rows, c.layout, c.alignment, c.cost, plan).ok());
    }
    const ReadPlan::Scratch& scratch = plan.scratch;
    const size_t bytes =
        (plan.rows.capacity() + scratch.order.capacity()) * sizeof(RowAt) +
        plan.reads.capacity() * sizeof(PlannedRead) +
        (scratch.firsts.capacity() + scratch.cost.capacity() +
         scratch.cut.capacity() + scratch.window.capacity()) *
            8;
    EXPECT_LE(bytes, 10'000 * kPlanBytesPerRow) << range;
  }
}

TEST(CoalesceTest, NoRowsTakeNoReads) {
  const ReadPlan plan = Plan({.layout = {0, 512, 0}});
  EXPECT_TRUE(plan.reads.empty());
  EXPECT_EQ(plan.waste_bytes(), 0u);
}

TEST(CoalesceTest, DuplicatesAreReadOnce) {
  const ReadPlan plan =
      Plan({.rows = {9, 3, 9, 9}, .layout = {0, 512, 10}, .cost = {0, 4096}});
  ASSERT_EQ(plan.reads.size(), 2u);
  EXPECT_EQ(plan.payload_bytes, 1024u);
  EXPECT_EQ(plan.read_bytes, 1024u);
  EXPECT_EQ(plan.reads[1].num_rows, 3u);
  EXPECT_EQ(plan.rows[1].position, 0u);  // Equal rows as they stood.
  EXPECT_EQ(plan.rows[3].position, 3u);
}

TEST(CoalesceTest, RowsSmallerThanASectorAreReadJointly) {
  const ReadPlan plan = Plan(
      {.rows = {1, 0, 3, 127}, .layout = {0, 4, 128}, .cost = {0, 131072}});
  ASSERT_EQ(plan.reads.size(), 1u);
  EXPECT_EQ(plan.reads[0].length, 512u);
  EXPECT_EQ(plan.waste_bytes(), 512u - 16);
}

TEST(CoalesceTest, AGapIsReadWhereItCostsLessThanARequest) {
  Case c{.rows = {0, 3}, .layout = {0, 512, 4}, .cost = {1025, 131072}};
  EXPECT_EQ(Plan(c).reads.size(), 1u);
  EXPECT_EQ(Plan(c).waste_bytes(), 1024u);
  c.cost.request_bytes = 1023;
  EXPECT_EQ(Plan(c).reads.size(), 2u);
  EXPECT_EQ(Plan(c).waste_bytes(), 0u);
}

TEST(CoalesceTest, CutsAtTheWidestGapsThatTheLongestRequestAllows) {
  // Four rows in two requests: between 1 and 3, where most is skipped.
  const ReadPlan plan =
      Plan({.rows = {0, 1, 3, 4}, .layout = {0, 512, 5}, .cost = {4096, 2048}});
  ASSERT_EQ(plan.reads.size(), 2u);
  EXPECT_EQ(plan.reads[0].length, 1024u);
  EXPECT_EQ(plan.reads[1].offset, 1536u);
}

TEST(CoalesceTest, ASharedPageIsReadTwiceOnlyAtTheLongestRequest) {
  // Every row begins 128 bytes into a page, as behind an .npy header.
  Case c{.layout = {128, 512, 64}, .cost = {16384, 8192}};
  for (int64_t row = 0; row < 64; ++row) c.rows.push_back(row);
  const ReadPlan plan = Plan(c);
  EXPECT_EQ(plan.reads.size(), 5u);  // 15 rows each, and 4.
  EXPECT_EQ(plan.read_bytes, 65u * 512 + 4u * 512);
  c.cost.max_request_bytes = 1 << 20;
  EXPECT_EQ(Plan(c).reads.size(), 1u);
  EXPECT_EQ(Plan(c).read_bytes, 65u * 512);
}

TEST(CoalesceTest, TakesCostsAndOffsetsBeyondAllMeasure) {
  const int64_t rows = int64_t{1} << 40;
  const Case c{.rows = {rows - 1, 0, rows - 2},
               .layout = {80, 16384, rows},
               .cost = {UINT64_MAX, 131072}};
  const ReadPlan plan = Plan(c);
  ASSERT_EQ(plan.reads.size(), 2u);
  EXPECT_EQ(plan.reads[1].num_rows, 2u);
}

TEST(CoalesceTest, RefusesRowsThatAreNotThere) {
  ReadPlan plan;
  for (const int64_t row : {int64_t{-1}, int64_t{10}, INT64_MIN, INT64_MAX}) {
    const absl::Status status =
        Coalesce({3, row}, {0, 512, 10}, 512, ReadCost{}, plan);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_EQ(status.message(), absl::StrCat("there is no row ", row,
                                             " among 10 (at position 1)"));
    EXPECT_TRUE(plan.rows.empty());
    EXPECT_TRUE(plan.reads.empty());
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      Coalesce({0}, {0, 0, 10}, 512, ReadCost{}, plan)));
}

TEST(LongestRowReadTest, IsThatOfTheRowThatLiesWorst) {
  RandomStream random(3, RandomPurpose::kGenerator);
  for (int i = 0; i < 300; ++i) {
    Case c = RandomCase(random, 0, 5000);
    c.layout.row_bytes = static_cast<uint32_t>(1 + random.Below(5000));
    uint64_t longest = 0;
    for (int64_t row = 0; row < c.layout.num_rows; ++row) {
      longest = std::max(longest, End(c, row) - Begin(c, row));
    }
    EXPECT_EQ(LongestRowRead(c.layout, c.alignment), longest) << Describe(c);
  }
}

}  // namespace

}  // namespace hearth::io
