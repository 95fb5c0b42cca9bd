#ifndef HEARTH_ENGINE_PLAN_TESTING_VECTOR_TRACE_H_
#define HEARTH_ENGINE_PLAN_TESTING_VECTOR_TRACE_H_

#include <algorithm>
#include <cstdint>
#include <stop_token>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// A trace in memory, for tests and benchmarks, which can fail or request a
/// stop at the n-th load, counted from 1.
class VectorTrace final : public AccessTrace {
 public:
  using Batches = std::vector<std::vector<store::NodeId>>;

  explicit VectorTrace(Batches batches) : batches_(std::move(batches)) {}

  int64_t num_batches() const override {
    return static_cast<int64_t>(batches_.size());
  }
  absl::StatusOr<absl::Span<const store::NodeId>> Load(int64_t batch) override {
    if (++loads_ == failing_load_) return absl::DataLossError("torn");
    if (loads_ == stopping_load_) stop_.request_stop();
    return absl::MakeConstSpan(batches_[batch]);
  }

  const Batches& batches() const { return batches_; }
  int64_t loads() const { return loads_; }
  void FailAt(int64_t load) { failing_load_ = load; }
  void StopAt(int64_t load) { stopping_load_ = load; }
  std::stop_token stop_token() const { return stop_.get_token(); }

  /// `count` batches of `size` distinct nodes below `num_nodes`, in random
  /// order: half of the draws fall on a tenth of the nodes, as in graphs with
  /// hubs, and a third on nodes near the batch's own center.
  static Batches Random(RandomStream& random, int64_t num_nodes, int64_t count,
                        int64_t size) {
    Batches batches(static_cast<size_t>(count));
    const auto nodes = static_cast<uint64_t>(num_nodes);
    for (std::vector<store::NodeId>& batch : batches) {
      const uint64_t center = random.Below(nodes);
      std::unordered_set<store::NodeId> chosen;
      while (std::ssize(batch) < std::min(size, num_nodes)) {
        uint64_t node = random.Below(nodes);
        const uint64_t kind = random.Below(6);
        if (kind < 3) node = random.Below(nodes / 10 + 1) % nodes;
        if (kind > 3) node = (center + random.Below(nodes / 8 + 1)) % nodes;
        const auto id = static_cast<store::NodeId>(node);
        if (chosen.insert(id).second) batch.push_back(id);
      }
    }
    return batches;
  }

 private:
  const Batches batches_;
  std::stop_source stop_;
  int64_t loads_ = 0;
  int64_t failing_load_ = 0;
  int64_t stopping_load_ = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_TESTING_VECTOR_TRACE_H_
