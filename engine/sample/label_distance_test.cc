#include "engine/sample/label_distance.h"

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "engine/sample/seed_order.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

using store::Labels;

constexpr int kParts = 64;
constexpr int kNodesOfPart = 32;
constexpr int kClasses = 4;
constexpr int64_t kBatch = 128;

// Seeds in parts of equal sizes, and their classes.
struct Seeds {
  std::vector<store::NodeId> nodes;
  std::vector<uint16_t> parts;
  std::vector<int32_t> classes;

  PartitionOrderOptions Order(int parts_per_macro_batch) const {
    return {.parts = parts,
            .parts_per_macro_batch = parts_per_macro_batch,
            .partition = "partition",
            .data_seed = 5};
  }
};

// A node's class is that of its part, or goes through all classes in each part.
Seeds MakeSeeds(bool by_part) {
  Seeds seeds;
  for (int i = 0; i < kParts * kNodesOfPart; ++i) {
    // Parts are not runs of nodes.
    const int part = i % kParts;
    seeds.nodes.push_back(1000 + i);
    seeds.parts.push_back(static_cast<uint16_t>(part));
    seeds.classes.push_back((by_part ? part : i / kParts) % kClasses);
  }
  return seeds;
}

MacroBatchChoice Choose(const Seeds& seeds, const Labels& labels) {
  const auto choice =
      ChooseMacroBatch(seeds.nodes, seeds.Order(0), labels.view(), kBatch, {});
  EXPECT_TRUE(choice.ok()) << choice.status();
  return *choice;
}

TEST(LabelDistanceTest, IsTheMeanDistanceOfBatchesFromAllSeeds) {
  // Batches of {0, 0}, {0, 1} and {1}; shares of all: 3/5, 2/5.
  const auto order = NewSequentialOrder({7, 8, 9, 10, 11});
  const Labels labels = Labels::Classes({0, 0, 0, 1, 1}, 3);
  EXPECT_NEAR(LabelDistance(*order, labels.view(), 2),
              (2.0 / 5 + 1.0 / 10 + 3.0 / 5) / 3, 1e-12);
  EXPECT_EQ(LabelDistance(*order, labels.view(), 5), 0);
  EXPECT_EQ(LabelDistance(*order, labels.view(), 100), 0);
}

TEST(LabelDistanceTest, CountsEachLabelOfANode) {
  // Labels {0, 1}, {0} and none, of two; bit 2 marks labeled nodes.
  const auto order = NewSequentialOrder({3, 4, 5});
  const Labels labels = Labels::MultiLabel({0b111, 0b101, 0b100}, 3, 2);
  // Shares of all: 2/3, 1/3; of the batches 1, 1/2 and 0, 0.
  EXPECT_NEAR(LabelDistance(*order, labels.view(), 2),
              ((1.0 / 3 + 1.0 / 6) / 2 + (2.0 / 3 + 1.0 / 3) / 2) / 2, 1e-12);
}

TEST(LabelDistanceTest, FallsAsMacroBatchesGrow) {
  const Seeds seeds = MakeSeeds(/*by_part=*/true);
  const Labels labels = Labels::Classes(seeds.classes, kClasses);
  double before = 1;
  for (const int parts : {4, 8, 16, 32, 64}) {
    const double distance =
        LabelDistance(*NewPartitionOrder(seeds.nodes, seeds.Order(parts)),
                      labels.view(), kBatch);
    EXPECT_LT(distance, before) << parts;
    before = distance;
  }
}

TEST(ChooseMacroBatchTest, LabelsApartFromPartsNeedFew) {
  const Seeds seeds = MakeSeeds(/*by_part=*/false);
  const MacroBatchChoice choice =
      Choose(seeds, Labels::Classes(seeds.classes, kClasses));
  EXPECT_EQ(choice.parts_per_macro_batch, 1);
  EXPECT_LE(choice.label_distance, 1.1 * choice.shuffled_label_distance);
}

TEST(ChooseMacroBatchTest, LabelsOfPartsNeedMany) {
  const Seeds seeds = MakeSeeds(/*by_part=*/true);
  const Labels labels = Labels::Classes(seeds.classes, kClasses);
  const MacroBatchChoice choice = Choose(seeds, labels);
  EXPECT_GT(choice.parts_per_macro_batch, kParts / 4);
  // It is the least of its neighborhood.
  EXPECT_GT(LabelDistance(
                *NewPartitionOrder(
                    seeds.nodes, seeds.Order(choice.parts_per_macro_batch - 1)),
                labels.view(), kBatch),
            1.1 * choice.shuffled_label_distance);
}

TEST(ChooseMacroBatchTest, MultiLabelOfOneLabelIsAsClasses) {
  const Seeds seeds = MakeSeeds(/*by_part=*/true);
  std::vector<uint8_t> bits;
  for (const int32_t label : seeds.classes) {
    bits.push_back(static_cast<uint8_t>(1 << label | 1 << kClasses));
  }
  const auto rows = static_cast<int64_t>(bits.size());
  const MacroBatchChoice by_bits =
      Choose(seeds, Labels::MultiLabel(bits, rows, kClasses));
  const MacroBatchChoice by_class =
      Choose(seeds, Labels::Classes(seeds.classes, kClasses));
  EXPECT_EQ(by_bits.parts_per_macro_batch, by_class.parts_per_macro_batch);
  EXPECT_EQ(by_bits.label_distance, by_class.label_distance);
}

TEST(ChooseMacroBatchTest, AllPartsAreAlwaysEnough) {
  // Two parts, of one class each: only both together have all classes.
  Seeds seeds;
  for (int i = 0; i < 512; ++i) {
    seeds.nodes.push_back(i);
    // Part 1 has no seeds.
    seeds.parts.push_back(i < 256 ? 0 : 2);
    seeds.classes.push_back(i < 256 ? 0 : 1);
  }
  EXPECT_EQ(
      Choose(seeds, Labels::Classes(seeds.classes, 2)).parts_per_macro_batch,
      2);
}

TEST(ChooseMacroBatchTest, EndsWhenAskedToStop) {
  const Seeds seeds = MakeSeeds(/*by_part=*/true);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(
      ChooseMacroBatch(seeds.nodes, seeds.Order(0),
                       Labels::Classes(seeds.classes, kClasses).view(), kBatch,
                       stop.get_token())
          .status()));
}

}  // namespace
}  // namespace hearth::sample
