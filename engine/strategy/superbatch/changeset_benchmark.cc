// How fast the optimal cache of a superbatch is planned, per access:
//   bazel run -c opt //engine/strategy/superbatch:changeset_benchmark

#include <cstdint>
#include <stop_token>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/superbatch/changeset.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNodes = 4'000'000;
constexpr int64_t kBatchRows = 50'000;

// Batches of distinct rows; a quarter of the draws falls on a hundredth.
class SkewedTrace final : public plan::AccessTrace {
 public:
  explicit SkewedTrace(int64_t num_batches) {
    RandomStream random(1, RandomPurpose::kGenerator);
    for (int64_t i = 0; i < num_batches; ++i) {
      std::unordered_set<store::NodeId> chosen;
      while (chosen.size() < kBatchRows) {
        const int64_t bound = random.Below(4) == 0 ? kNodes / 100 : kNodes;
        chosen.insert(static_cast<store::NodeId>(random.Below(bound)));
      }
      batches_.emplace_back(chosen.begin(), chosen.end());
    }
  }

  int64_t num_batches() const override {
    return static_cast<int64_t>(batches_.size());
  }
  absl::StatusOr<absl::Span<const store::NodeId>> Load(int64_t batch) override {
    return absl::MakeConstSpan(batches_[batch]);
  }

 private:
  std::vector<std::vector<store::NodeId>> batches_;
};

class NullSink final : public ChangesetSink {
 public:
  absl::Status Initialize(absl::Span<const store::NodeId> ids) override {
    return absl::OkStatus();
  }
  absl::Status Update(int64_t batch, const Changeset& changeset) override {
    return absl::OkStatus();
  }
};

void BM_PlanChangesets(benchmark::State& state) {
  SkewedTrace trace(state.range(0));
  const CacheShape shape = {.num_nodes = kNodes,
                            .capacity = kNodes * state.range(1) / 100};
  NullSink sink;
  ChangesetTotals totals;
  for (auto _ : state) {
    totals = *PlanChangesets(trace, shape, sink, std::stop_token());
  }
  state.SetItemsProcessed(state.iterations() * totals.needed);
  state.counters["read_share"] =
      static_cast<double>(totals.filled + totals.missed) /
      static_cast<double>(totals.needed);
}

// (batches, cache in percent of the rows)
BENCHMARK(BM_PlanChangesets)
    ->Args({50, 10})
    ->Args({100, 1})
    ->Args({100, 10})
    ->Args({100, 50})
    ->Args({200, 10})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::strategy

BENCHMARK_MAIN();
