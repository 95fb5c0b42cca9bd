#include "engine/sample/node_table.h"

#include <cstdint>
#include <unordered_map>

#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

TEST(NodeTableTest, KeepsTheFirstPosition) {
  NodeTable table;
  EXPECT_EQ(table.FindOrAdd(7, 0), 0);
  EXPECT_EQ(table.FindOrAdd(9, 1), 1);
  EXPECT_EQ(table.FindOrAdd(7, 2), 0);
  EXPECT_EQ(table.FindOrAdd(9, 2), 1);
}

TEST(NodeTableTest, ClearForgets) {
  NodeTable table;
  table.FindOrAdd(7, 5);
  table.Clear();
  EXPECT_EQ(table.FindOrAdd(7, 0), 0);
}

// Runs, strides of powers of two and large ids, many times beyond the initial
// size, in several generations.
TEST(NodeTableTest, AgreesWithAMap) {
  NodeTable table;
  for (const int64_t stride :
       {int64_t{1}, int64_t{1024}, int64_t{1} << 33, int64_t{12345677}}) {
    table.Clear();
    std::unordered_map<int64_t, int32_t> expected;
    for (int64_t i = 0; i < 30000; ++i) {
      const int64_t node = i * i % 20011 * stride;
      const auto next = static_cast<int32_t>(expected.size());
      ASSERT_EQ(table.FindOrAdd(node, next),
                expected.emplace(node, next).first->second);
    }
  }
}

}  // namespace
}  // namespace hearth::sample
