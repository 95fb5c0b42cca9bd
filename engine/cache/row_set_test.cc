#include "engine/cache/row_set.h"

#include <cstdint>
#include <vector>

#include "engine/base/random.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::cache {
namespace {

TEST(RowSetTest, TheEmptySetHasNobody) {
  const RowSet none;
  EXPECT_EQ(none.size(), 0);
  EXPECT_EQ(none.Find(0), RowSet::kAbsent);
  EXPECT_EQ(RowSet(10, {}).Find(9), RowSet::kAbsent);
}

TEST(RowSetTest, MembersAreNumberedInAscendingOrder) {
  // Whole blocks, and one node more.
  for (const int64_t num_nodes : {1, 64, 448, 449, 5000}) {
    for (const uint64_t one_in : {1, 2, 700}) {
      SCOPED_TRACE(testing::Message() << num_nodes << ", 1 in " << one_in);
      RandomStream random(num_nodes, RandomPurpose::kGenerator, one_in);
      std::vector<store::NodeId> members;
      for (int64_t node = 0; node < num_nodes; ++node) {
        if (random.Below(one_in) == 0) members.push_back(node);
      }
      const RowSet set(num_nodes, members);
      EXPECT_EQ(set.size(), static_cast<int64_t>(members.size()));
      int64_t place = 0;
      for (int64_t node = 0; node < num_nodes; ++node) {
        const bool is_member = place < set.size() && members[place] == node;
        EXPECT_EQ(set.Find(node), is_member ? place : RowSet::kAbsent) << node;
        place += is_member ? 1 : 0;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::cache
