#include "engine/strategy/marius/buffer_plan.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/store/graph.h"
#include "engine/strategy/pass.h"

namespace hearth::strategy {

namespace {

using store::NodeId;

// Partitions that a buffer holds by default, and at least, and bytes of a
// partition that are read at the disk's full speed.
constexpr uint64_t kSlots = 32;
constexpr uint64_t kLeastSlots = 4;
constexpr uint64_t kLeastPartitionBytes = 4 << 20;

// A quarter of the slots is for the partitions that come next.
constexpr int32_t kSpare = 4;

// Bytes of the neighbor lists of nodes.
class ListSizes {
 public:
  explicit ListSizes(const store::LoadedTopology& topology)
      : topology_(topology),
        into_(store::RelationsInto(topology.relations(), topology.nodes())) {}

  uint64_t Of(NodeId node) const {
    uint64_t bytes = 0;
    for (const size_t index : into_[topology_.nodes().TypeOf(node)]) {
      const store::Relation& relation = topology_.relations()[index];
      const size_t index_bytes = std::visit(
          [](const auto& indices) { return sizeof(*indices.data()); },
          relation.topology.indices);
      bytes += static_cast<uint64_t>(relation.InDegree(node)) * index_bytes;
    }
    return bytes;
  }

 private:
  const store::LoadedTopology& topology_;
  const std::vector<std::vector<size_t>> into_;
};

int32_t DefaultCount(uint64_t all_bytes, uint64_t buffer_bytes) {
  const auto for_slots = [&](uint64_t slots) {
    return static_cast<uint64_t>(static_cast<double>(slots) *
                                 static_cast<double>(all_bytes) /
                                 static_cast<double>(buffer_bytes)) +
           1;
  };
  const uint64_t count =
      std::max(std::min(for_slots(kSlots), all_bytes / kLeastPartitionBytes),
               for_slots(kLeastSlots));
  return static_cast<int32_t>(std::min<uint64_t>(count, INT32_MAX));
}

}  // namespace

NodePartitions NodePartitions::Make(const store::LoadedTopology& topology,
                                    int64_t row_bytes, uint64_t buffer_bytes,
                                    int32_t partitions) {
  const int64_t num_nodes = topology.nodes().num_nodes();
  const ListSizes lists(topology);
  uint64_t all_bytes =
      static_cast<uint64_t>(num_nodes) * static_cast<uint64_t>(row_bytes);
  for (NodeId node = 0; node < num_nodes; ++node) all_bytes += lists.Of(node);
  int64_t count = 1;
  if (all_bytes > buffer_bytes) {
    count = partitions > 0
                ? partitions
                : DefaultCount(all_bytes, std::max<uint64_t>(buffer_bytes, 1));
  }
  count = std::clamp<int64_t>(count, 1, std::max<int64_t>(num_nodes, 1));
  NodePartitions made;
  made.firsts_.push_back(0);
  uint64_t most_list_bytes = 0, list_bytes = 0, bytes = 0;
  const auto end_partition = [&](NodeId end) {
    made.most_rows_ = std::max(made.most_rows_, end - made.firsts_.back());
    most_list_bytes = std::max(most_list_bytes, list_bytes);
    list_bytes = 0;
    made.firsts_.push_back(end);
  };
  for (NodeId node = 0; node < num_nodes; ++node) {
    // Partition i begins where i shares of the bytes lie before it.
    const auto number = static_cast<double>(std::ssize(made.firsts_));
    if (node > made.firsts_.back() && std::ssize(made.firsts_) < count &&
        static_cast<double>(bytes) * static_cast<double>(count) >=
            number * static_cast<double>(all_bytes)) {
      end_partition(node);
    }
    list_bytes += lists.Of(node);
    bytes += static_cast<uint64_t>(row_bytes) + lists.Of(node);
  }
  end_partition(num_nodes);
  made.slot_bytes_ = static_cast<uint64_t>(made.most_rows_) *
                         static_cast<uint64_t>(row_bytes) +
                     most_list_bytes;
  return made;
}

int32_t NodePartitions::PartitionOf(NodeId node) const {
  return static_cast<int32_t>(
      std::upper_bound(firsts_.begin(), firsts_.end(), node) - firsts_.begin() -
      1);
}

uint64_t BytesOf(const store::LoadedTopology& topology, int64_t row_bytes,
                 absl::Span<const NodeId> nodes) {
  const ListSizes lists(topology);
  uint64_t bytes = nodes.size() * static_cast<uint64_t>(row_bytes);
  for (const NodeId node : nodes) bytes += lists.Of(node);
  return bytes;
}

namespace {

// The most bytes of the rows and lists of `count` of the seeds.
uint64_t MostBytesOf(const StatesRequest& request,
                     const std::vector<NodeId>& seeds, int64_t count) {
  const ListSizes lists(request.topology);
  std::vector<uint64_t> bytes;
  bytes.reserve(seeds.size());
  for (const NodeId seed : seeds) bytes.push_back(lists.Of(seed));
  const auto most = std::min(count, std::ssize(bytes));
  std::nth_element(bytes.begin(), bytes.begin() + most, bytes.end(),
                   std::greater<>());
  uint64_t sum =
      static_cast<uint64_t>(most) * static_cast<uint64_t>(request.row_bytes);
  for (int64_t i = 0; i < most; ++i) sum += bytes[static_cast<size_t>(i)];
  return sum;
}

// Partitions that fit beside kept nodes of `kept_bytes`.
int32_t SlotsBeside(const StatesRequest& request, uint64_t kept_bytes) {
  if (kept_bytes > request.buffer_bytes) return 0;
  const uint64_t slots = (request.buffer_bytes - kept_bytes) /
                         std::max<uint64_t>(request.partitions.slot_bytes(), 1);
  return static_cast<int32_t>(std::min<uint64_t>(
      slots, static_cast<uint64_t>(request.partitions.count())));
}

RandomStream StreamOf(const StatesRequest& request, uint64_t use) {
  return RandomStream(request.data_seed, RandomPurpose::kPartitionBuffer,
                      request.epoch_key, use);
}

// Sorts the seeds by the state in which each is trained on; returns the state
// of each.
std::vector<size_t> Disperse(const StatesRequest& request,
                             const std::vector<PartitionSet>& sets,
                             std::vector<NodeId>& seeds) {
  // The sets that have a partition follow each other.
  std::vector<size_t> first(static_cast<size_t>(request.partitions.count()));
  std::vector<size_t> times(first.size());
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const int32_t partition : sets[i]) {
      if (times[partition]++ == 0) first[partition] = i;
    }
  }
  RandomStream random = StreamOf(request, 1);
  std::vector<std::vector<NodeId>> of_state(sets.size());
  for (const NodeId seed : seeds) {
    const int32_t partition = request.partitions.PartitionOf(seed);
    of_state[first[partition] + random.Below(times[partition])].push_back(seed);
  }
  std::vector<size_t> states;
  states.reserve(seeds.size());
  seeds.clear();
  for (size_t i = 0; i < sets.size(); ++i) {
    seeds.insert(seeds.end(), of_state[i].begin(), of_state[i].end());
    states.resize(seeds.size(), i);
  }
  return states;
}

// Nodes among `seeds` whose partitions are not in `set`, ascending.
std::vector<NodeId> OutsideOf(const PartitionSet& set,
                              absl::Span<const NodeId> seeds,
                              const NodePartitions& partitions) {
  std::vector<NodeId> outside;
  for (const NodeId seed : seeds) {
    if (!std::binary_search(set.begin(), set.end(),
                            partitions.PartitionOf(seed))) {
      outside.push_back(seed);
    }
  }
  std::sort(outside.begin(), outside.end());
  return outside;
}

PassStates PlanRotation(const StatesRequest& request, int32_t slots,
                        std::vector<NodeId> seeds) {
  const int32_t spare = slots < request.partitions.count() ? slots / kSpare : 0;
  RandomStream random = StreamOf(request, 0);
  const std::vector<PartitionSet> sets = DispersedOrder(
      request.partitions.count(), slots - spare, std::max(spare, 1), random);
  PassStates plan = {
      .num_slots = slots,
      .most_kept = std::min(request.batch_size, std::ssize(seeds))};
  const std::vector<size_t> state_of = Disperse(request, sets, seeds);
  const int64_t batches = NumBatches(std::ssize(seeds), request.batch_size);
  size_t current = sets.size();
  for (int64_t batch = 0; batch < batches; ++batch) {
    const auto first = static_cast<size_t>(batch * request.batch_size);
    const size_t end =
        std::min(seeds.size(), first + static_cast<size_t>(request.batch_size));
    if (const size_t state = state_of[end - 1]; state != current) {
      current = state;
      plan.states.push_back(
          {.partitions = sets[state],
           .kept =
               OutsideOf(sets[state],
                         absl::MakeConstSpan(seeds).subspan(first, end - first),
                         request.partitions),
           .first_batch = batch,
           .end_batch = batch});
    }
    ++plan.states.back().end_batch;
  }
  plan.seeds = std::move(seeds);
  return plan;
}

}  // namespace

absl::StatusOr<PassStates> PlanStates(const StatesRequest& request,
                                      std::vector<NodeId> seeds) {
  const NodePartitions& partitions = request.partitions;
  const int64_t batches = NumBatches(std::ssize(seeds), request.batch_size);
  if (batches == 0) return PassStates();
  if (partitions.count() == 1 &&
      partitions.slot_bytes() <= request.buffer_bytes) {
    return PassStates{.seeds = std::move(seeds),
                      .states = {{.partitions = {0},
                                  .kept = {},
                                  .first_batch = 0,
                                  .end_batch = batches}},
                      .num_slots = 1};
  }
  const uint64_t kept_bytes =
      BytesOf(request.topology, request.row_bytes, seeds);
  if (const int32_t slots = SlotsBeside(request, kept_bytes); slots > 0) {
    RandomStream random = StreamOf(request, 0);
    PassStates plan = {
        .seeds = std::move(seeds),
        .states = {{.partitions = RandomSet(partitions.count(), slots, random),
                    .kept = {},
                    .first_batch = 0,
                    .end_batch = batches}},
        .num_slots = slots};
    plan.states[0].kept = plan.seeds;
    std::sort(plan.states[0].kept.begin(), plan.states[0].kept.end());
    plan.most_kept = std::ssize(plan.seeds);
    return plan;
  }
  const uint64_t batch_bytes = MostBytesOf(request, seeds, request.batch_size);
  const int32_t slots = SlotsBeside(request, batch_bytes);
  if (slots == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "partition-buffer: ", FormatByteSize(request.buffer_bytes),
        " do not hold a partition and the seeds of a batch, ",
        FormatByteSize(partitions.slot_bytes()), " and ",
        FormatByteSize(batch_bytes), "; make it larger, or have more than ",
        partitions.count(), " partitions"));
  }
  return PlanRotation(request, slots, std::move(seeds));
}

}  // namespace hearth::strategy
