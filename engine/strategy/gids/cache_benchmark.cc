// Savings of GIDS's two caches on a dataset, compared with other ways to choose
// rows (GIDS, sections 4.4 and 4.5): a table of shares of the rows of an epoch.
//
//   cache_benchmark DATASET_FOLDER

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iterator>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/cache/window_cache.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/strategy/gids/batch_assembler.h"
#include "engine/strategy/gids/gids_pass.h"
#include "engine/strategy/gids/hot_nodes.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {
namespace {

using Nodes = std::vector<store::NodeId>;
// The input nodes of each batch of an epoch.
using Trace = std::vector<Nodes>;

int64_t RowsOf(const Trace& trace) {
  int64_t rows = 0;
  for (const Nodes& batch : trace) rows += std::ssize(batch);
  return rows;
}

// The rows outside of the constant buffer.
Trace Without(const Trace& trace, const cache::RowSet& buffered) {
  Trace rest;
  for (const Nodes& batch : trace) {
    rest.emplace_back();
    for (const store::NodeId node : batch) {
      if (buffered.Find(node) == cache::RowSet::kAbsent) {
        rest.back().push_back(node);
      }
    }
  }
  return rest;
}

// Hits of the window cache, which evicts at random where the window is 0.
int64_t WindowHits(const Trace& trace, const Pass& pass, int64_t num_lines,
                   size_t window) {
  const cache::RowSet none;
  cache::WindowCache table(num_lines);
  Locator locator(none, table);
  std::deque<LocatedRows> ahead;
  int64_t hits = 0;
  size_t located = 0;
  for (size_t entered = 0; located < trace.size();) {
    if (entered < trace.size()) {
      ahead.emplace_back();
      locator.Enter(trace[entered++], ahead.back());
      if (ahead.size() <= window) continue;
    }
    locator.Locate(trace[located],
                   EvictionStream(pass, static_cast<int64_t>(located)),
                   ahead.front());
    hits += std::ssize(ahead.front().lines);
    ahead.pop_front();
    ++located;
  }
  return hits;
}

int64_t LruHits(const Trace& trace, int64_t num_lines) {
  std::list<store::NodeId> order;
  absl::flat_hash_map<store::NodeId, std::list<store::NodeId>::iterator> at;
  int64_t hits = 0;
  for (const Nodes& batch : trace) {
    for (const store::NodeId node : batch) {
      if (const auto found = at.find(node); found != at.end()) {
        ++hits;
        order.splice(order.begin(), order, found->second);
        continue;
      }
      if (std::ssize(order) == num_lines) {
        at.erase(order.back());
        order.pop_back();
      }
      order.push_front(node);
      at[node] = order.begin();
    }
  }
  return hits;
}

// Hits of a cache that keeps the rows that are needed soonest (Belady).
int64_t OptimalHits(const Trace& trace, int64_t num_lines) {
  absl::flat_hash_map<store::NodeId, std::deque<size_t>> uses;
  for (size_t batch = 0; batch < trace.size(); ++batch) {
    for (const store::NodeId node : trace[batch]) uses[node].push_back(batch);
  }
  std::set<std::pair<size_t, store::NodeId>> kept;
  int64_t hits = 0;
  for (size_t batch = 0; batch < trace.size(); ++batch) {
    for (const store::NodeId node : trace[batch]) {
      hits += kept.erase({batch, node}) > 0 ? 1 : 0;
      std::deque<size_t>& next = uses[node];
      next.pop_front();
      if (!next.empty()) kept.insert({next.front(), node});
    }
    while (std::ssize(kept) > num_lines) kept.erase(std::prev(kept.end()));
  }
  return hits;
}

class Benchmark {
 public:
  explicit Benchmark(const store::Dataset& dataset)
      : dataset_(dataset),
        folder_(std::filesystem::temp_directory_path() / "gids_benchmark"),
        plans_(io::FileSystem::Posix(), Clock::Real(),
               {.folder = folder_.string()}) {
    pass_.sampler = {.fanouts = {10, 10, 10}, .data_seed = 1};
    pass_.batch_size = 1024;
  }
  ~Benchmark() { std::filesystem::remove_all(folder_); }

  absl::Status Run() {
    HEARTH_ASSIGN_OR_RETURN(labels_, dataset_.LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(const store::Split split, dataset_.LoadSplit());
    order_ = sample::NewShuffledOrder(split.train, 1);
    pass_.order = order_.get();
    HEARTH_ASSIGN_OR_RETURN(const Trace trace, Sample());
    std::printf("%zd batches of %ld rows on the average\n", trace.size(),
                static_cast<long>(RowsOf(trace) / std::ssize(trace)));
    HEARTH_RETURN_IF_ERROR(CompareBuffers(trace));
    return CompareWindows(trace);
  }

 private:
  int64_t num_nodes() const {
    return dataset_.manifest().node_types[0].num_nodes;
  }

  absl::StatusOr<Trace> Sample() {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<store::LoadedTopology> topology,
        dataset_.LoadTopology(store::Residency::kMemory));
    Trace trace;
    const std::vector<Pass> passes = {pass_};
    HEARTH_RETURN_IF_ERROR(SampleShards(
        {.clock = Clock::Real(),
         .source = SampleSource{.topology = *topology, .labels = labels_},
         .samplers = 2},
        passes, SpreadOver(passes, TotalBatches(passes)),
        [&](const ShardPick& /*pick*/, const sample::MiniBatch& batch) {
          trace.push_back(batch.input_nodes);
          return absl::OkStatus();
        },
        {}));
    return trace;
  }

  absl::StatusOr<cache::RowSet> Choose(HotNodes hot, int64_t count) {
    HEARTH_ASSIGN_OR_RETURN(const HotNodesChoice choice,
                            ChooseHotNodes({.dataset = dataset_,
                                            .labels = labels_,
                                            .files = io::FileSystem::Posix(),
                                            .clock = Clock::Real(),
                                            .plans = plans_,
                                            .samplers = 2,
                                            .listener = {},
                                            .stop = {}},
                                           {.hot = hot}, count, pass_));
    return cache::RowSet(num_nodes(), choice.nodes);
  }

  // The share of rows that a constant buffer has, by how it is chosen; by
  // frequency in this very epoch is the best that a constant one can do.
  absl::Status CompareBuffers(const Trace& trace) {
    const auto all = static_cast<double>(RowsOf(trace));
    std::printf(
        "\n%% of rows in a constant buffer of 10%%, 20%% of the nodes\n");
    for (const HotNodes hot : {HotNodes::kFrequency, HotNodes::kReversePageRank,
                               HotNodes::kOutDegree, HotNodes::kRandom}) {
      std::printf("  %-18s", std::string(Name(hot)).c_str());
      for (const int64_t part : {10, 5}) {
        HEARTH_ASSIGN_OR_RETURN(const cache::RowSet buffered,
                                Choose(hot, num_nodes() / part));
        const auto rest = static_cast<double>(RowsOf(Without(trace, buffered)));
        std::printf(" %6.2f", 100 * (all - rest) / all);
      }
      std::printf("\n");
    }
    return absl::OkStatus();
  }

  // The share of the rows outside a constant buffer of 10% that a cache has.
  absl::Status CompareWindows(const Trace& trace) {
    HEARTH_ASSIGN_OR_RETURN(
        const cache::RowSet buffered,
        Choose(HotNodes::kReversePageRank, num_nodes() / 10));
    for (const bool with_buffer : {true, false}) {
      const Trace rest = with_buffer ? Without(trace, buffered) : trace;
      const auto all = static_cast<double>(RowsOf(rest));
      const int64_t batch = RowsOf(rest) / std::ssize(rest);
      std::printf("\n%% of rows%s in a cache of 2, 4, 8, 16 batches\n",
                  with_buffer ? " outside the constant buffer" : "");
      const auto print = [&](const std::string& name, auto hits) {
        std::printf("  %-18s", name.c_str());
        for (const int64_t batches : {2, 4, 8, 16}) {
          std::printf(" %6.2f",
                      100 * static_cast<double>(hits(batches * batch)) / all);
        }
        std::printf("\n");
      };
      print("random",
            [&](int64_t lines) { return WindowHits(rest, pass_, lines, 0); });
      print("LRU", [&](int64_t lines) { return LruHits(rest, lines); });
      for (const size_t window : {4, 8, 16, 32}) {
        print("window " + std::to_string(window), [&](int64_t lines) {
          return WindowHits(rest, pass_, lines, window);
        });
      }
      print("optimal", [&](int64_t lines) { return OptimalHits(rest, lines); });
    }
    return absl::OkStatus();
  }

  const store::Dataset& dataset_;
  const std::filesystem::path folder_;
  plan::PlanStore plans_;
  store::Labels labels_;
  std::unique_ptr<sample::SeedOrder> order_;
  Pass pass_;
};

absl::Status Main(const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                          store::Dataset::Open(io::FileSystem::Posix(), path));
  return Benchmark(*dataset).Run();
}

}  // namespace
}  // namespace hearth::strategy

int main(int argc, char** argv) {
  const absl::Status status = hearth::strategy::Main(argc == 2 ? argv[1] : "");
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return EXIT_FAILURE;
}
