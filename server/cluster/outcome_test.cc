#include "server/cluster/outcome.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

train::BatchResult SomeResult() {
  return {.loss = 0.3F,
          .num_seeds = 5,
          .weight = 4.1,
          .tally = {.num_predictions = 6,
                    .num_correct = 5,
                    .true_positives = 4,
                    .false_positives = 3,
                    .false_negatives = 2,
                    .squared_error = 0.1,
                    .ranking = {.columns = 2,
                                .scores = {{1.5F, true, true},
                                           {-2.5F, false, false}}}}};
}

void ExpectSame(const train::BatchResult& a, const train::BatchResult& b) {
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.num_seeds, b.num_seeds);
  EXPECT_EQ(a.weight, b.weight);
  EXPECT_EQ(a.tally.num_predictions, b.tally.num_predictions);
  EXPECT_EQ(a.tally.num_correct, b.tally.num_correct);
  EXPECT_EQ(a.tally.true_positives, b.tally.true_positives);
  EXPECT_EQ(a.tally.false_positives, b.tally.false_positives);
  EXPECT_EQ(a.tally.false_negatives, b.tally.false_negatives);
  EXPECT_EQ(a.tally.squared_error, b.tally.squared_error);
  EXPECT_EQ(a.tally.ranking.columns, b.tally.ranking.columns);
  ASSERT_EQ(a.tally.ranking.scores.size(), b.tally.ranking.scores.size());
  for (size_t i = 0; i < a.tally.ranking.scores.size(); ++i) {
    EXPECT_EQ(a.tally.ranking.scores[i].score, b.tally.ranking.scores[i].score);
    EXPECT_EQ(a.tally.ranking.scores[i].is_positive,
              b.tally.ranking.scores[i].is_positive);
    EXPECT_EQ(a.tally.ranking.scores[i].is_known,
              b.tally.ranking.scores[i].is_known);
  }
}

TEST(OutcomeTest, ReadsBack) {
  const auto good = DecodeOutcome(Encode(
      Outcome{.epoch = 3, .batch = 9, .sums_crc = 77, .result = SomeResult()}));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->epoch, 3u);
  EXPECT_EQ(good->batch, 9u);
  EXPECT_EQ(good->sums_crc, 77u);
  ASSERT_TRUE(good->result.ok());
  ExpectSame(*good->result, SomeResult());
  const auto bad = DecodeOutcome(
      Encode(Outcome{.epoch = 3, .result = absl::DataLossError("row 7")}));
  ASSERT_TRUE(bad.ok()) << bad.status();
  EXPECT_EQ(bad->result.status(), absl::DataLossError("row 7"));
}

TEST(DecisionTest, ReadsBack) {
  const auto good = DecodeDecision(Encode(
      Decision{.results = std::vector<train::BatchResult>{SomeResult(), {}},
               .leaves = true}));
  ASSERT_TRUE(good.ok() && good->results.ok());
  EXPECT_TRUE(good->leaves);
  ASSERT_EQ(good->results->size(), 2u);
  ExpectSame((*good->results)[0], SomeResult());
  ExpectSame((*good->results)[1], {});
  const auto bad = DecodeDecision(
      Encode(Decision{.results = absl::AbortedError("replicas differ")}));
  ASSERT_TRUE(bad.ok()) << bad.status();
  EXPECT_FALSE(bad->leaves);
  EXPECT_EQ(bad->results.status(), absl::AbortedError("replicas differ"));
}

TEST(OutcomeTest, AnotherLengthIsDataLoss) {
  const std::string text = Encode(Outcome{.result = SomeResult()});
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeOutcome(text.substr(0, size)).status()))
        << size;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeOutcome(text + "x").status()));
  const std::string decision = Encode(
      Decision{.results = std::vector<train::BatchResult>{SomeResult()}});
  for (size_t size = 0; size < decision.size(); ++size) {
    EXPECT_TRUE(
        absl::IsDataLoss(DecodeDecision(decision.substr(0, size)).status()));
  }
}

TEST(DecideTest, TheFirstRanksErrorIsThatOfAll) {
  const Decision decision =
      Decide({{.result = SomeResult()},
              {.result = absl::UnavailableError("a disk")},
              {.result = absl::DataLossError("a row")}});
  EXPECT_EQ(decision.results.status(), absl::UnavailableError("a disk"));
}

TEST(DecideTest, AllLeaveIfOneAsks) {
  EXPECT_FALSE(Decide({Outcome{}, Outcome{}}).leaves);
  EXPECT_TRUE(Decide({Outcome{}, Outcome{.leaves = true}}).leaves);
}

TEST(DecideTest, RanksAreAtOneBatchWithEqualSums) {
  EXPECT_EQ(Decide({{.epoch = 1, .batch = 2}, {.epoch = 1, .batch = 2}})
                .results->size(),
            2u);
  for (const Outcome& other :
       {Outcome{.epoch = 1, .batch = 3}, Outcome{.epoch = 2, .batch = 2},
        Outcome{.epoch = 1, .batch = 2, .sums_crc = 5}}) {
    EXPECT_TRUE(absl::IsAborted(
        Decide({Outcome{.epoch = 1, .batch = 2}, other}).results.status()));
  }
}

}  // namespace
}  // namespace hearth::server
