#include "engine/job/run/heard_turns.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/job/interface/pass_board.h"
#include "gtest/gtest.h"

namespace hearth::job {
namespace {

PassTurn Turn(uint64_t number, const std::vector<std::string>& jobs) {
  PassTurn turn = {.number = number};
  for (const std::string& job : jobs) turn.jobs.push_back({.attempt = job});
  return turn;
}

bool None(const std::string& /*attempt*/) { return false; }

uint64_t NumberOf(const std::optional<PassTurn>& turn) {
  return turn.has_value() ? turn->number : 0;
}

TEST(HeardTurnsTest, AreInRankZerosOrder) {
  HeardTurns heard;
  heard.Add(Turn(2, {"a", "b"}));
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/true, None)), 0u);
  heard.Add(Turn(1, {"a"}));
  heard.Add(Turn(2, {"a", "b"}));
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/true, None)), 1u);
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/true, None)), 2u);
  // Another job's board tells it late.
  heard.Add(Turn(2, {"a", "b"}));
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/true, None)), 0u);
}

TEST(HeardTurnsTest, WithoutJobsTheFirstOneOfAJobThatWaitsIsNext) {
  HeardTurns heard;
  heard.Add(Turn(4, {"a"}));
  heard.Add(Turn(5, {"a", "b"}));
  heard.Add(Turn(6, {"a", "b"}));
  const auto b_waits = [](const std::string& attempt) {
    return attempt == "b";
  };
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/false, None)), 0u);
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/false, b_waits)), 5u);
  EXPECT_EQ(NumberOf(heard.Next(/*is_attached=*/true, b_waits)), 6u);
}

}  // namespace
}  // namespace hearth::job
