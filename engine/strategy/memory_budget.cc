#include "engine/strategy/memory_budget.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/cache/row_memory.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/device_sampler.h"
#include "engine/sample/device_workspace.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

namespace {

uint64_t Times(uint64_t bytes, int count) {
  return bytes * static_cast<uint64_t>(count);
}

// With a history, batches are sampled by two stages, with one stage between.
BatchCounts WithHistory(BatchCounts counts, int shards) {
  counts.sampled += counts.samplers + 1 + 2 * kUndecided * shards;
  counts.samplers *= 2;
  return counts;
}

// Memory of a sample::TopLayer, with the capacity that its arrays may have
// grown to.
uint64_t TopBytes(const sample::BatchShape& shape) {
  const size_t layers = shape.edges.size();
  if (layers < 2) return 0;
  return 2 * static_cast<uint64_t>(shape.nodes[layers - 1]) *
         (sizeof(store::NodeId) + sizeof(int64_t) + 3 * sizeof(int32_t) +
          (shape.types_per_node > 0 ? sizeof(store::TypeId) : 0));
}

}  // namespace

void MemoryEstimate::Add(std::string owner, uint64_t bytes, bool kept,
                         MemoryPlace place) {
  shares.push_back({.owner = std::move(owner),
                    .bytes = bytes,
                    .kept = kept,
                    .place = place});
}

uint64_t MemoryEstimate::TotalBytes(MemoryPlace place) const {
  uint64_t total = 0;
  for (const MemoryShare& share : shares) {
    if (share.place == place) total += share.bytes;
  }
  return total;
}

std::string FormatShares(const MemoryEstimate& estimate, MemoryPlace place) {
  std::vector<MemoryShare> shares = estimate.shares;
  std::erase_if(shares, [&](const auto& one) { return one.place != place; });
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  for (const MemoryShare& share : shares) {
    if (share.bytes == 0) break;
    absl::StrAppend(&text, text.empty() ? "" : ", ", share.owner, " ",
                    FormatByteSize(share.bytes));
  }
  return text;
}

int64_t MemoryBasis::num_nodes() const {
  return store::NodeSpace(manifest).num_nodes();
}

uint64_t MemoryBasis::feature_bytes() const {
  uint64_t bytes = 0;
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    bytes += type.features.file_size_bytes;
  }
  return bytes;
}

uint64_t MemoryBasis::indptr_bytes() const {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    bytes += type.indptr.file_size_bytes;
  }
  return bytes;
}

uint64_t MemoryBasis::indices_bytes() const {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    bytes += type.indices.file_size_bytes;
  }
  return bytes;
}

uint64_t MemoryBasis::sampled_topology_bytes() const {
  const bool in_memory = pipeline.sampling_gpu.has_value() ||
                         pipeline.topology == TopologyPlace::kMemory;
  return indptr_bytes() + (in_memory ? indices_bytes() : 0);
}

uint64_t MemoryBasis::all_rows_bytes() const {
  return static_cast<uint64_t>(num_nodes()) *
         (static_cast<uint64_t>(row_bytes()) + sizeof(int64_t));
}

uint64_t MemoryBasis::all_lists_bytes() const {
  // Lists of several edge types are as wide as the widest type's ids.
  const uint64_t wider = manifest.edge_types.size() > 1 ? 2 : 1;
  return static_cast<uint64_t>(num_nodes()) * sizeof(int64_t) +
         wider * indices_bytes();
}

uint64_t MemoryBasis::label_bytes() const {
  uint64_t most = 0;
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    most = std::max(most, type.labels.file_size_bytes);
  }
  return most;
}

void AddBatches(const MemoryBasis& basis, const BatchCounts& wanted,
                MemoryEstimate& estimate) {
  const BatchCounts counts =
      basis.has_history ? WithHistory(wanted, basis.shards) : wanted;
  const sample::BatchShape largest = basis.batches.WithMargin();
  const uint64_t batch =
      largest.MemoryBytes() + (basis.has_history ? TopBytes(largest) : 0);
  const auto rows = static_cast<uint64_t>(largest.num_inputs());
  const uint64_t inputs = cache::AlignedBuffer::MemoryBytes(
      rows * static_cast<uint64_t>(basis.row_format().dim) * sizeof(float));
  estimate.Add("labels", basis.label_bytes(), /*kept=*/true);
  if (basis.pipeline.sampling_gpu.has_value()) {
    const sample::DeviceGraphSize graph = {
        .num_nodes = basis.num_nodes(),
        .num_types = std::ssize(basis.manifest.node_types),
        .num_relations = std::ssize(basis.manifest.edge_types),
        .lists_per_node = std::max<int64_t>(largest.types_per_node, 1)};
    estimate.Add("samplers",
                 Times(sample::DeviceTopology::DeviceBytes(largest, graph),
                       counts.samplers),
                 /*kept=*/false, {.gpu = basis.pipeline.sampling_gpu});
  } else {
    estimate.Add("samplers", Times(largest.SamplerBytes(), counts.samplers));
  }
  estimate.Add("batches",
               Times(batch, counts.sampled) + Times(inputs, counts.assembled));
}

namespace {

constexpr uint64_t kMostCacheStep = uint64_t{64} << 20;
constexpr uint64_t kCacheSteps = 16;

std::string AmountText(uint64_t amount, BudgetUnit unit) {
  return unit == BudgetUnit::kBytes ? FormatByteSize(amount)
                                    : absl::StrCat(amount);
}

// Values that a budget may be cut to, ascending: the least, and multiples of
// the step above it.
class Ladder {
 public:
  explicit Ladder(const Budget& budget)
      : least_(budget.least),
        step_(budget.step),
        first_(budget.least / budget.step + 1) {
    const uint64_t most = budget.useful == 0
                              ? budget.asked
                              : std::min(budget.asked, budget.useful);
    const uint64_t end = most / step_ + (most % step_ > 0 ? 1 : 0);
    num_rungs_ = 1 + (end > first_ ? end - first_ : 0);
  }

  uint64_t num_rungs() const { return num_rungs_; }
  uint64_t amount(uint64_t rung) const {
    return rung == 0 ? least_ : (first_ + rung - 1) * step_;
  }

 private:
  uint64_t least_;
  uint64_t step_;
  // The number of steps of the first rung above the least.
  uint64_t first_;
  uint64_t num_rungs_;
};

}  // namespace

absl::string_view Name(BudgetUnit unit) {
  switch (unit) {
    case BudgetUnit::kBytes:
      return "bytes";
    case BudgetUnit::kBatches:
      return "batches";
    case BudgetUnit::kThreads:
      return "threads";
  }
  return "";
}

std::string Describe(const BudgetCut& cut) {
  return absl::StrCat(cut.option, ": ", AmountText(cut.chosen, cut.unit),
                      " instead of ", AmountText(cut.asked, cut.unit));
}

std::vector<uint64_t> FitBudgets(
    absl::Span<const Budget> budgets, uint64_t limit_bytes,
    absl::FunctionRef<uint64_t(absl::Span<const uint64_t> amounts)> estimate) {
  std::vector<uint64_t> amounts;
  amounts.reserve(budgets.size());
  for (const Budget& budget : budgets) amounts.push_back(budget.asked);
  uint64_t bytes = estimate(amounts);
  if (bytes <= limit_bytes) return amounts;
  for (size_t i = 0; i < budgets.size(); ++i) {
    if (budgets[i].asked <= budgets[i].least) continue;
    amounts[i] = budgets[i].least;
    const uint64_t bytes_at_least = estimate(amounts);
    if (bytes_at_least > limit_bytes) {
      if (bytes_at_least > bytes) amounts[i] = budgets[i].asked;
      bytes = std::min(bytes, bytes_at_least);
      continue;
    }
    const auto fits = [&](uint64_t amount) {
      amounts[i] = amount;
      return estimate(amounts) <= limit_bytes;
    };
    const Ladder ladder(budgets[i]);
    uint64_t good = 0;
    uint64_t bad = ladder.num_rungs();
    while (bad - good > 1) {
      const uint64_t middle = good + (bad - good) / 2;
      (fits(ladder.amount(middle)) ? good : bad) = middle;
    }
    amounts[i] = ladder.amount(good);
    return amounts;
  }
  return amounts;
}

std::vector<BudgetCut> CutsOf(absl::Span<const Budget> budgets,
                              absl::Span<const uint64_t> amounts) {
  std::vector<BudgetCut> cuts;
  for (size_t i = 0; i < budgets.size(); ++i) {
    if (amounts[i] >= budgets[i].asked) continue;
    cuts.push_back({.option = budgets[i].option,
                    .unit = budgets[i].unit,
                    .asked = budgets[i].asked,
                    .chosen = amounts[i]});
  }
  return cuts;
}

Budget CacheBudget(std::string option, uint64_t asked_bytes,
                   uint64_t useful_bytes) {
  return {.option = std::move(option),
          .asked = asked_bytes,
          .useful = useful_bytes,
          .step = std::clamp<uint64_t>(
              std::min(asked_bytes, useful_bytes) / kCacheSteps, 1,
              kMostCacheStep)};
}

}  // namespace hearth::strategy
