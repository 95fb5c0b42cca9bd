#include "engine/sample/epoch_profile.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/sample/graph_fixture.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_sampler.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::sample {

namespace {

using store::NodeId;
using ::testing::HasSubstr;

constexpr int64_t kNodes = 500;

EpochProfile Example() {
  RandomStream random(3, RandomPurpose::kSeedOrder, 0);
  EpochProfile profile = {.num_seeds = 40,
                          .num_rows = 1300,
                          .num_drawn = 900,
                          .drawn_pages = 600,
                          .row_pages = 2,
                          .shuffled_redundancy = 41.5,
                          .features = {},
                          .sampled = {},
                          .gathered = {}};
  for (int64_t node = 0; node < kNodes; ++node) {
    profile.features.push_back(static_cast<float>(random.Below(5)));
    profile.sampled.push_back(static_cast<float>(random.Below(7)));
    profile.gathered.push_back(static_cast<float>(random.Below(3)));
  }
  return profile;
}

TEST(EpochProfileTest, RedundancyIsRowsForEachSeed) {
  EXPECT_DOUBLE_EQ(Example().redundancy(), 32.5);
  EXPECT_EQ(EpochProfile().redundancy(), 0);
}

TEST(EpochProfileTest, BetaWeighsPagesOfListsAgainstPagesOfRows) {
  EXPECT_DOUBLE_EQ(Example().beta(), 600.0 / 900 / 2);
  EXPECT_EQ(EpochProfile().beta(), 1);
}

TEST(EpochProfileTest, TheBestHistoriesComeFirst) {
  const EpochProfile profile = Example();
  for (const double beta : {0.0, profile.beta(), 3.0}) {
    const std::vector<NodeId> all = profile.BestHistories(kNodes, beta);
    EXPECT_EQ(std::set<NodeId>(all.begin(), all.end()).size(), size_t{kNodes});
    for (size_t i = 1; i < all.size(); ++i) {
      const double better = profile.SavedByHistory(all[i - 1], beta);
      const double worse = profile.SavedByHistory(all[i], beta);
      ASSERT_GE(better, worse);
      if (better == worse) {
        ASSERT_LT(all[i - 1], all[i]);
      }
    }
    EXPECT_EQ(profile.BestHistories(20, beta),
              std::vector<NodeId>(all.begin(), all.begin() + 20));
  }
  EXPECT_TRUE(profile.BestHistories(0, 1).empty());
  EXPECT_EQ(profile.BestHistories(kNodes * 2, 1).size(), size_t{kNodes});
}

class EpochProfileFileTest : public ::testing::Test {
 protected:
  const io::ScratchDirectory directory_;
  const std::string path_ = directory_.Path("profile");
  io::FileSystem& files_ = io::FileSystem::Posix();
};

TEST_F(EpochProfileFileTest, ComesBack) {
  const EpochProfile profile = Example();
  ASSERT_TRUE(WriteEpochProfile(files_, path_, profile).ok());
  const auto read = ReadEpochProfile(files_, path_, kNodes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(*read == profile);
  EXPECT_EQ(files_.Stat(path_)->size_bytes, EpochProfileBytes(kNodes));
}

TEST_F(EpochProfileFileTest, IsNotFound) {
  EXPECT_TRUE(
      absl::IsNotFound(ReadEpochProfile(files_, path_, kNodes).status()));
}

TEST_F(EpochProfileFileTest, AnotherGraphsIsRefused) {
  ASSERT_TRUE(WriteEpochProfile(files_, path_, Example()).ok());
  const auto read = ReadEpochProfile(files_, path_, kNodes + 1);
  EXPECT_TRUE(absl::IsDataLoss(read.status()));
  EXPECT_THAT(read.status().message(), HasSubstr(path_));
}

// Any flipped bit and any cut is found.
TEST_F(EpochProfileFileTest, DamageIsNamed) {
  ASSERT_TRUE(WriteEpochProfile(files_, path_, Example()).ok());
  const std::string whole = *io::ReadWholeFile(files_, path_, 1 << 20);
  for (size_t at = 0; at < whole.size(); at += 97) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    ASSERT_TRUE(io::WriteFileAtomically(files_, path_, damaged).ok());
    const auto read = ReadEpochProfile(files_, path_, kNodes);
    ASSERT_FALSE(read.ok()) << at;
    EXPECT_THAT(read.status().message(), HasSubstr(path_));
    ASSERT_TRUE(
        io::WriteFileAtomically(files_, path_, whole.substr(0, at)).ok());
    EXPECT_TRUE(
        absl::IsDataLoss(ReadEpochProfile(files_, path_, kNodes).status()))
        << at;
  }
}

constexpr int64_t kProfiledNodes = 300;

bool IsCached(NodeId node) { return node % 4 == 0; }

class EpochProfilerTest : public ::testing::Test {
 protected:
  static EpochProfiler New(int64_t row_bytes = 512) {
    return EpochProfiler({.num_nodes = kProfiledNodes,
                          .index_bytes = 4,
                          .row_bytes = row_bytes});
  }

  std::vector<MiniBatch> Batches(std::vector<int32_t> fanouts) const {
    const auto sampler = NewNeighborSampler(
        graph_.topology(), {.fanouts = std::move(fanouts), .data_seed = 4});
    std::vector<MiniBatch> batches;
    for (uint64_t batch = 0; batch < 6; ++batch) {
      std::vector<NodeId> seeds;
      for (NodeId node = static_cast<NodeId>(batch); node < kProfiledNodes;
           node += 31) {
        seeds.push_back(node);
      }
      batches.push_back(
          *sampler->Sample({.epoch_key = 0, .batch = batch}, seeds));
    }
    return batches;
  }

  const Graph graph_ = RandomGraph(kProfiledNodes);
};

// Number of edges in the tree below a destination of a block, along the edges
// that `walks` allows.
int64_t EdgesBelow(const MiniBatch& batch, size_t layer, int64_t row,
                   const std::function<bool(size_t, int64_t, int64_t)>& walks) {
  const Block& block = batch.blocks[layer];
  int64_t edges = 0;
  for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1]; ++edge) {
    if (!walks(layer, row, edge)) continue;
    ++edges;
    const int32_t source = block.indices[edge];
    if (layer > 0) edges += EdgesBelow(batch, layer - 1, source, walks);
  }
  return edges;
}

TEST_F(EpochProfilerTest, IsThatOfTheTrees) {
  for (const std::vector<int32_t>& fanouts :
       {std::vector<int32_t>{4, 3}, {5, 3, 2}, {3, 2, 2, 2}}) {
    EpochProfiler saved = New();
    std::vector<float> features(kProfiledNodes);
    std::vector<float> sampled(kProfiledNodes);
    std::vector<float> gathered(kProfiledNodes);
    for (const MiniBatch& batch : Batches(fanouts)) {
      saved.Add(batch, IsCached);
      for (const NodeId node : batch.input_nodes) ++features[node];
      const size_t top = batch.blocks.size() - 2;
      for (int64_t row = 0; row < batch.blocks[top].num_destinations; ++row) {
        const NodeId node = batch.input_nodes[row];
        sampled[node] += static_cast<float>(EdgesBelow(
            batch, top, row, [&](size_t, int64_t destination, int64_t) {
              return !IsCached(batch.input_nodes[destination]);
            }));
        gathered[node] += static_cast<float>(EdgesBelow(
            batch, top, row, [&](size_t layer, int64_t, int64_t edge) {
              const Block& block = batch.blocks[layer];
              return block.indices[edge] >= block.num_destinations &&
                     std::find(
                         block.indices.begin(), block.indices.begin() + edge,
                         block.indices[edge]) == block.indices.begin() + edge;
            }));
      }
    }
    const EpochProfile profile = std::move(saved).TakeProfile();
    EXPECT_EQ(profile.features, features);
    EXPECT_EQ(profile.sampled, sampled);
    EXPECT_EQ(profile.gathered, gathered);
  }
}

// With two layers, each input node that is no source of the last block entered
// its batch through one of its sources.
TEST_F(EpochProfilerTest, EachInputIsGatheredForOneNode) {
  EpochProfiler saved = New();
  float expected = 0;
  for (const MiniBatch& batch : Batches({5, 3})) {
    saved.Add(batch, IsCached);
    expected += static_cast<float>(std::ssize(batch.input_nodes) -
                                   batch.blocks.back().num_sources);
  }
  float total = 0;
  for (const float gathered : saved.profile().gathered) total += gathered;
  EXPECT_EQ(total, expected);
}

TEST_F(EpochProfilerTest, CountsSeedsRowsAndPages) {
  EpochProfiler saved = New(3 * 4096);
  EpochProfiler nothing_drawn = New();
  int64_t seeds = 0;
  int64_t rows = 0;
  int64_t drawn = 0;
  for (const MiniBatch& batch : Batches({5, 3})) {
    saved.Add(batch, IsCached);
    nothing_drawn.Add(batch, [](NodeId) { return true; });
    seeds += batch.num_seeds;
    rows += std::ssize(batch.input_nodes);
    for (const Block& block : batch.blocks) {
      for (int64_t row = 0; row < block.num_destinations; ++row) {
        if (IsCached(batch.input_nodes[row])) continue;
        drawn += block.indptr[row + 1] - block.indptr[row];
      }
    }
  }
  EXPECT_EQ(saved.profile().num_seeds, seeds);
  EXPECT_EQ(saved.profile().num_rows, rows);
  EXPECT_EQ(saved.profile().num_drawn, drawn);
  EXPECT_EQ(saved.profile().row_pages, 3);
  // Lists of this graph fit on one page, from which several neighbors are
  // drawn.
  EXPECT_GT(saved.profile().drawn_pages, drawn / 10);
  EXPECT_LT(saved.profile().drawn_pages, drawn);
  EXPECT_EQ(nothing_drawn.profile().num_drawn, 0);
  EXPECT_EQ(nothing_drawn.profile().drawn_pages, 0);
}

constexpr int64_t kCacheSplitNodes = 400;
constexpr uint64_t kTableBytes = 4 * kCacheSplitNodes;

// Values of widely differing sizes, so that some nodes are worth far more.
std::vector<float> Values(uint64_t key, uint64_t most) {
  RandomStream random(1, RandomPurpose::kSeedOrder, key);
  std::vector<float> values;
  for (int64_t node = 0; node < kCacheSplitNodes; ++node) {
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

// Benefit of a share, by its definition.
double NaiveBenefit(const EpochProfile& profile, double beta, uint64_t bytes,
                    uint64_t row_bytes, uint64_t embedding_bytes,
                    double share) {
  std::vector<double> rows(profile.features.begin(), profile.features.end());
  std::vector<double> histories;
  for (int64_t node = 0; node < kCacheSplitNodes; ++node) {
    histories.push_back(beta * profile.sampled[node] + profile.gathered[node]);
  }
  std::sort(rows.begin(), rows.end(), std::greater<>());
  std::sort(histories.begin(), histories.end(), std::greater<>());
  const auto of_histories =
      static_cast<uint64_t>(static_cast<double>(bytes) * share);
  double benefit = 0;
  for (int64_t i = 0; i < Within(bytes - of_histories, row_bytes); ++i) {
    if (i < kCacheSplitNodes) benefit += rows[i];
  }
  for (int64_t i = 0; i < Within(of_histories, embedding_bytes); ++i) {
    if (i < kCacheSplitNodes) benefit += histories[i];
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
        EXPECT_EQ(split.embeddings,
                  std::min(kCacheSplitNodes,
                           Within(split.embedding_bytes, embedding_bytes)));
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
