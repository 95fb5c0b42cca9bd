#include "engine/strategy/diskgnn/diskgnn_plan.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/sample/history.h"
#include "engine/strategy/packing/pass_digest.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

Pass SmallPass() {
  return {.sampler = {.fanouts = {3, 2}, .data_seed = 7},
          .batch_size = 4,
          .epoch_key = 1};
}

const std::vector<store::NodeId> kSeeds = {5, 3, 9};

TEST(DigestOfPassTest, IsAllThatTheBatchesDependOn) {
  std::set<std::string> digests = {DigestOfPass(SmallPass(), kSeeds)};
  const auto is_new = [&](const Pass& pass,
                          const std::vector<store::NodeId>& seeds) {
    return digests.insert(DigestOfPass(pass, seeds)).second;
  };
  Pass pass = SmallPass();
  pass.epoch_key = 2;
  EXPECT_TRUE(is_new(pass, kSeeds));
  pass = SmallPass();
  pass.sampler.data_seed = 8;
  EXPECT_TRUE(is_new(pass, kSeeds));
  pass = SmallPass();
  pass.sampler.fanouts = {32};
  EXPECT_TRUE(is_new(pass, kSeeds));
  pass = SmallPass();
  pass.sampler.once = true;
  EXPECT_TRUE(is_new(pass, kSeeds));
  pass = SmallPass();
  pass.batch_size = 5;
  EXPECT_TRUE(is_new(pass, kSeeds));
  pass = SmallPass();
  pass.shards = 2;
  EXPECT_TRUE(is_new(pass, kSeeds));
  EXPECT_TRUE(is_new(SmallPass(), {3, 5, 9}));
  EXPECT_TRUE(is_new(SmallPass(), {5, 3}));
}

TEST(DigestOfPassTest, IsWhichEmbeddingsAHistoryKeepsForHowLong) {
  std::set<std::string> digests = {DigestOfPass(SmallPass(), kSeeds)};
  const auto is_new = [&](const sample::HistoryPolicy& policy) {
    Pass pass = SmallPass();
    pass.history = &policy;
    return digests.insert(DigestOfPass(pass, kSeeds)).second;
  };
  const auto of = [](const std::vector<store::NodeId>& nodes) {
    return std::make_shared<sample::HistoryCandidates>(nodes, 10);
  };
  EXPECT_TRUE(is_new({.candidates = of({5, 3}), .staleness = 3}));
  EXPECT_TRUE(is_new({.candidates = of({5, 3}), .staleness = 4}));
  EXPECT_TRUE(is_new({.candidates = of({5, 9}), .staleness = 3}));
  EXPECT_FALSE(is_new({.candidates = of({5, 3}), .staleness = 3}));
}

TEST(DigestOfPassTest, IsNotWhereAPassBegins) {
  const sample::HistoryPolicy fresh = {
      .candidates = std::make_shared<sample::HistoryCandidates>(kSeeds, 10),
      .staleness = 3};
  sample::HistoryPolicy resumed = fresh;
  resumed.live = {{.slot = 1, .batch = 0}};
  Pass pass = SmallPass();
  pass.history = &fresh;
  const std::string digest = DigestOfPass(pass, kSeeds);
  pass.first_batch = 1;
  pass.history = &resumed;
  EXPECT_EQ(DigestOfPass(pass, kSeeds), digest);
}

TEST(KeyOfPlanTest, IsAllThatItsBytesDependOn) {
  const std::vector<PlannedPass> passes = {{.digest = "a"}, {.digest = "b"}};
  const DiskgnnOptions options = {.cpu_cache_bytes = 100};
  std::set<uint64_t> ids = {KeyOfPlan("data", options, 8, passes).id};
  const auto is_new = [&](const PlanKey& key) {
    return ids.insert(key.id).second;
  };
  EXPECT_TRUE(is_new(KeyOfPlan("other", options, 8, passes)));
  EXPECT_TRUE(is_new(KeyOfPlan("data", options, 16, passes)));
  EXPECT_TRUE(is_new(KeyOfPlan("data", options, 8, {passes.data(), 1})));
  EXPECT_TRUE(is_new(
      KeyOfPlan("data", options, 8,
                {PlannedPass{.digest = "b"}, PlannedPass{.digest = "a"}})));
  DiskgnnOptions other = options;
  other.cpu_cache_bytes = 101;
  EXPECT_TRUE(is_new(KeyOfPlan("data", other, 8, passes)));
  other = options;
  other.gpu_cache_bytes = 100;
  EXPECT_TRUE(is_new(KeyOfPlan("data", other, 8, passes)));
  other = options;
  other.disk_cache_bytes = 0;
  EXPECT_TRUE(is_new(KeyOfPlan("data", other, 8, passes)));
  other.disk_cache_bytes = 1;
  EXPECT_TRUE(is_new(KeyOfPlan("data", other, 8, passes)));
  other = options;
  other.disk_limit_bytes = 1;
  EXPECT_TRUE(is_new(KeyOfPlan("data", other, 8, passes)));
}

TEST(KeyOfPlanTest, IsNotHowItIsMadeOrRead) {
  const PlanKey key = KeyOfPlan("data", {}, 8, {});
  EXPECT_EQ(key, KeyOfPlan("data", {.prepare_memory_bytes = 5, .io_depth = 1},
                           8, {}));
}

// Plans that lie on disks are found by these.
TEST(KeyOfPlanTest, NamesStayAsTheyAre) {
  EXPECT_EQ(DigestOfPass(SmallPass(), kSeeds),
            "0f814bf3a04e6deb72acf950267f4de67ffbbef71afa099af35ed43ba490900f");
  const std::vector<PlannedPass> passes = {
      {.digest = DigestOfPass(SmallPass(), kSeeds)}};
  EXPECT_EQ(KeyOfPlan("data", {}, 8, passes).name,
            "diskgnn-data-e233e5ee03023e6b80195df1442f0067");
  EXPECT_EQ(KeyOfPlan("data",
                      {.cpu_cache_bytes = 1,
                       .gpu_cache_bytes = 2,
                       .disk_cache_bytes = 3,
                       .disk_limit_bytes = 4},
                      8, passes)
                .name,
            "diskgnn-data-057aa8a431386763dcb40681c4bb6017");
}

TEST(KeyOfPlanTest, TheNumberIsInTheName) {
  const PlanKey key = KeyOfPlan("data", {}, 8, {});
  // "diskgnn-data-" and the digits.
  ASSERT_EQ(key.name.size(), 13u + 32u);
  EXPECT_EQ(key.name.substr(0, 13), "diskgnn-data-");
  EXPECT_EQ(std::stoull(key.name.substr(13, 16), nullptr, 16), key.id);
}

}  // namespace
}  // namespace hearth::strategy
