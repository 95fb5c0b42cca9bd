#include "engine/ingest/import/reverse_types.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/ingest/source/source_graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

struct Names {
  std::string type, source, destination;
};

std::vector<std::pair<size_t, std::string>> Reverse(
    const std::vector<Names>& edges) {
  SourceGraph graph;
  for (const Names& names : edges) {
    SourceEdges& type = graph.edges.emplace_back();
    type.type = names.type;
    type.source_type = names.source;
    type.destination_type = names.destination;
  }
  std::vector<std::pair<size_t, std::string>> reverse;
  for (const ReverseType& type : ReverseTypesOf(graph)) {
    reverse.emplace_back(type.edge_type, type.name);
  }
  return reverse;
}

TEST(ReverseTypesTest, AreNamedAfterTheTypesThatJoinTwoNodeTypes) {
  EXPECT_THAT(
      Reverse({{"a:writes:p", "a", "p"},
               {"p:cites:p", "p", "p"},
               {"v:publishes:p", "v", "p"}}),
      ElementsAre(Pair(0, "p:rev_writes:a"), Pair(2, "p:rev_publishes:v")));
}

TEST(ReverseTypesTest, NameWithoutItsEndsIsPrefixedWhole) {
  EXPECT_THAT(Reverse({{"writes", "a", "p"}}),
              ElementsAre(Pair(0, "rev_writes")));
  EXPECT_THAT(Reverse({{"a:p", "a", "p"}}), ElementsAre(Pair(0, "rev_a:p")));
}

TEST(ReverseTypesTest, ATypeThatHasItsReverseGetsNone) {
  EXPECT_THAT(Reverse({{"a:writes:p", "a", "p"}, {"p:rev_writes:a", "p", "a"}}),
              IsEmpty());
  EXPECT_THAT(Reverse({{"rev_writes", "p", "a"}, {"writes", "a", "p"}}),
              IsEmpty());
  // A type that is the reverse of something else has a reverse, too.
  EXPECT_THAT(Reverse({{"p:rev_writes:a", "p", "a"}}),
              ElementsAre(Pair(0, "a:rev_rev_writes:p")));
}

}  // namespace
}  // namespace hearth::ingest
