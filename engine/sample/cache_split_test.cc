#include "engine/sample/cache_split.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "engine/base/random.h"
#include "engine/sample/epoch_profile.h"
#include "gtest/gtest.h"

namespace hearth::sample {
namespace {

constexpr int64_t kNodes = 400;
constexpr uint64_t kTableBytes = 4 * kNodes;

// Values of so many different sizes that some nodes are worth far more.
std::vector<float> Values(uint64_t key, uint64_t most) {
  RandomStream random(1, RandomPurpose::kSeedOrder, key);
  std::vector<float> values;
  for (int64_t node = 0; node < kNodes; ++node) {
    values.push_back(static_cast<float>(random.Below(1 + random.Below(most))));
  }
  return values;
}

EpochProfile Profile(uint64_t key) {
  EpochProfile profile;
  profile.features = Values(3 * key, 30);
  profile.sampled = Values(3 * key + 1, 20);
  profile.gathered = Values(3 * key + 2, 40);
  return profile;
}

int64_t Within(uint64_t bytes, uint64_t each) {
  return bytes < kTableBytes
             ? 0
             : static_cast<int64_t>((bytes - kTableBytes) / each);
}

// The benefit of a share, by its definition.
double NaiveBenefit(const EpochProfile& profile, double beta, uint64_t bytes,
                    uint64_t row_bytes, uint64_t embedding_bytes,
                    double share) {
  std::vector<double> rows(profile.features.begin(), profile.features.end());
  std::vector<double> histories;
  for (int64_t node = 0; node < kNodes; ++node) {
    histories.push_back(beta * profile.sampled[node] + profile.gathered[node]);
  }
  std::sort(rows.begin(), rows.end(), std::greater<>());
  std::sort(histories.begin(), histories.end(), std::greater<>());
  const auto of_histories =
      static_cast<uint64_t>(static_cast<double>(bytes) * share);
  double benefit = 0;
  for (int64_t i = 0; i < Within(bytes - of_histories, row_bytes); ++i) {
    if (i < kNodes) benefit += rows[i];
  }
  for (int64_t i = 0; i < Within(of_histories, embedding_bytes); ++i) {
    if (i < kNodes) benefit += histories[i];
  }
  return benefit;
}

TEST(CacheSplitTest, IsTheBestOfAllShares) {
  for (uint64_t key = 0; key < 20; ++key) {
    const EpochProfile profile = Profile(key);
    const double beta = 0.25 * static_cast<double>(key % 5);
    for (const uint64_t bytes : {uint64_t{0}, kTableBytes + 10, uint64_t{9000},
                                 uint64_t{40000}, uint64_t{1000000}}) {
      for (const uint64_t row_bytes : {16, 400}) {
        const uint64_t embedding_bytes = 64;
        const CacheSplit split = SplitCache(
            profile, beta,
            {.bytes = bytes,
             .rows_within = [&](uint64_t b) { return Within(b, row_bytes); },
             .embeddings_within =
                 [&](uint64_t b) { return Within(b, embedding_bytes); }});
        double best = -1;
        double best_share = 0;
        for (int i = 0; i <= 100; ++i) {
          const double benefit = NaiveBenefit(profile, beta, bytes, row_bytes,
                                              embedding_bytes, i / 100.0);
          if (benefit > best) {
            best = benefit;
            best_share = i / 100.0;
          }
        }
        EXPECT_NEAR(split.saved_rows, best, 1e-3 * (1 + best));
        EXPECT_EQ(split.share, best_share) << key << " " << bytes;
        EXPECT_EQ(split.embedding_bytes + split.row_bytes, bytes);
        EXPECT_EQ(
            split.embeddings,
            std::min(kNodes, Within(split.embedding_bytes, embedding_bytes)));
      }
    }
  }
}

TEST(CacheSplitTest, AShareThatIsGivenIsTaken) {
  const EpochProfile profile = Profile(7);
  const auto within = [](uint64_t bytes) { return Within(bytes, 50); };
  for (const double share : {0.0, 0.37, 1.0}) {
    const CacheSplit split = SplitCache(
        profile, 1,
        {.bytes = 20000, .rows_within = within, .embeddings_within = within},
        share);
    EXPECT_EQ(split.share, share);
    EXPECT_EQ(split.embedding_bytes, static_cast<uint64_t>(20000 * share));
    EXPECT_NEAR(split.saved_rows,
                NaiveBenefit(profile, 1, 20000, 50, 50, share), 1e-2);
  }
}

}  // namespace
}  // namespace hearth::sample
