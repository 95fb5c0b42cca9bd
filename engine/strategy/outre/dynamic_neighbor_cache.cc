#include "engine/strategy/outre/dynamic_neighbor_cache.h"

#include <algorithm>
#include <bit>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/io/row_reader.h"
#include "engine/sample/stored_sampler.h"

namespace hearth::strategy {

using store::NodeId;

size_t MacroBatchLists::NumSlots(int64_t num_nodes) {
  const auto nodes = static_cast<size_t>(num_nodes);
  return std::bit_ceil(nodes + nodes / 3 + 2);
}

MacroBatchLists::MacroBatchLists(int64_t num_nodes)
    : slots_(NumSlots(num_nodes)),
      shift_(64 - std::countr_zero(slots_.size())) {}

absl::StatusOr<std::unique_ptr<const MacroBatchLists>> MacroBatchLists::Read(
    const plan::Partition& partition, absl::Span<const uint16_t> parts) {
  int64_t num_nodes = 0;
  for (const uint16_t part : parts) num_nodes += partition.num_nodes(part);
  std::unique_ptr<MacroBatchLists> lists(new MacroBatchLists(num_nodes));
  for (const uint16_t part : parts) {
    HEARTH_ASSIGN_OR_RETURN(plan::PartLists read, partition.ReadPart(part));
    lists->Add(std::move(read));
  }
  return lists;
}

uint64_t MacroBatchLists::MemoryBytes(const plan::Partition& partition,
                                      absl::Span<const uint16_t> parts) {
  int64_t num_nodes = 0;
  uint64_t bytes = 0;
  for (const uint16_t part : parts) {
    num_nodes += partition.num_nodes(part);
    bytes += partition.part_list_bytes(part);
  }
  return bytes + NumSlots(num_nodes) * sizeof(Slot);
}

uint64_t MacroBatchLists::memory_bytes() const {
  uint64_t bytes = slots_.size() * sizeof(Slot);
  for (const plan::PartLists& part : parts_)
    bytes += part.memory.bytes().size();
  return bytes;
}

void MacroBatchLists::Add(plan::PartLists part) {
  std::visit(
      [&](const auto nodes, const auto neighbors) {
        using Neighbor = typename decltype(neighbors)::value_type;
        wide_ = std::is_same_v<std::remove_const_t<Neighbor>, int64_t>;
        for (size_t i = 0; i < nodes.size(); ++i) {
          const int64_t begin = i == 0 ? 0 : part.ends[i - 1];
          Add(nodes[i], neighbors.data() + begin);
        }
      },
      part.nodes, part.neighbors);
  parts_.push_back(std::move(part));
}

void MacroBatchLists::Add(NodeId node, const void* list) {
  size_t at = Home(node);
  while (slots_[at].node != kNone) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {.node = node, .list = list};
}

std::optional<sample::NeighborList> MacroBatchLists::Find(NodeId node) const {
  for (size_t at = Home(node);; at = (at + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[at];
    if (slot.node == kNone) return std::nullopt;
    if (slot.node != node) continue;
    return wide_ ? sample::NeighborList(static_cast<const int64_t*>(slot.list))
                 : sample::NeighborList(static_cast<const int32_t*>(slot.list));
  }
}

PassMacroBatches::PassMacroBatches(const Pass& pass)
    : batch_size_(pass.batch_size),
      all_(pass.order->MacroBatches(pass.epoch_key)) {
  int64_t end = 0;
  for (const sample::MacroBatch& macro_batch : all_) {
    end += macro_batch.num_seeds;
    ends_.push_back(end);
  }
}

int64_t PassMacroBatches::num_batches() const {
  return all_.empty() ? 0 : NumBatches(ends_.back(), batch_size_);
}

MacroBatchRange PassMacroBatches::Of(int64_t batch) const {
  if (all_.empty()) return {};
  const int64_t first_seed = batch * batch_size_;
  const int64_t last_seed =
      std::min(first_seed + batch_size_, ends_.back()) - 1;
  const auto holding = [&](int64_t seed) {
    return std::upper_bound(ends_.begin(), ends_.end(), seed) - ends_.begin();
  };
  return {.first = holding(first_seed), .end = holding(last_seed) + 1};
}

// The protocol of a feed, for each batch in order:
//
//  1. The feed releases the macro batches that the batch does not need. Earlier
//     batches that are still being sampled from them keep them alive.
//  2. The feed reads those macro batches of the batch that it does not hold.
//     Each first takes its bytes from the budget, and waits until it can: at
//     the latest when all earlier batches are sampled, as then only the batch's
//     own macro batches are held. A macro batch that does not fit together with
//     these is left out.
//  3. Bytes return to the budget when the last holder releases a macro batch.
//
// So held lists never exceed the budget; no batch waits for a later one; and
// which macro batches are left out does not depend on the timing of threads.

namespace {

/// Bytes that lists may take, from which holders take and to which they return.
/// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(uint64_t bytes) : free_bytes_(bytes) {}

  /// Waits until `bytes` are free and takes them; false after Interrupt.
  bool Take(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    while (!interrupted_ && free_bytes_ < bytes) changed_.Wait(&mutex_);
    if (interrupted_) return false;
    free_bytes_ -= bytes;
    return true;
  }

  void Give(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_bytes_ += bytes;
    changed_.SignalAll();
  }

  void Interrupt() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    interrupted_ = true;
    changed_.SignalAll();
  }

 private:
  absl::Mutex mutex_;
  // Signalled at every change. Not an absl::Condition, which ThreadSanitizer
  // cannot follow.
  absl::CondVar changed_;
  uint64_t free_bytes_ ABSL_GUARDED_BY(mutex_);
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
};

class DynamicListFeed final : public ListFeed {
 public:
  DynamicListFeed(const plan::Partition& partition, uint64_t budget_bytes,
                  const Clock& clock, const Pass& pass)
      : partition_(partition),
        budget_bytes_(budget_bytes),
        clock_(clock),
        macro_batches_(pass),
        budget_(std::make_shared<ByteBudget>(budget_bytes)) {}

  absl::StatusOr<sample::BatchLists> Take(int64_t batch) override {
    if (budget_bytes_ == 0) return sample::BatchLists();
    const MacroBatchRange range = macro_batches_.Of(batch);
    held_.erase(held_.begin(), held_.lower_bound(range.first));
    for (int64_t number = range.first; number < range.end; ++number) {
      if (held_.contains(number)) continue;
      HEARTH_RETURN_IF_ERROR(Hold(number));
    }
    sample::BatchLists lists;
    for (const auto& [number, held] : held_) lists.push_back(held.lists);
    return lists;
  }

  void Interrupt() override { budget_->Interrupt(); }

  const io::ReadTally& tally() const override { return tally_; }

 private:
  struct Held {
    std::shared_ptr<const sample::NeighborLists> lists;
    uint64_t bytes = 0;
  };

  // Reads macro batch `number`, unless it is to be left out.
  absl::Status Hold(int64_t number) {
    const std::vector<uint16_t>& parts = macro_batches_.all()[number].parts;
    const uint64_t bytes = MacroBatchLists::MemoryBytes(partition_, parts);
    uint64_t own_bytes = bytes;
    for (const auto& [other, held] : held_) own_bytes += held.bytes;
    if (own_bytes > budget_bytes_) return absl::OkStatus();
    if (!budget_->Take(bytes)) {
      return absl::CancelledError("reading neighbor lists of parts: stopped");
    }
    absl::StatusOr<std::unique_ptr<const MacroBatchLists>> read = Read(parts);
    if (!read.ok()) {
      budget_->Give(bytes);
      return read.status();
    }
    const auto let_go = [budget = budget_,
                         bytes](const MacroBatchLists* lists) {
      delete lists;
      budget->Give(bytes);
    };
    held_[number] = {.lists = std::shared_ptr<const MacroBatchLists>(
                         read->release(), let_go),
                     .bytes = bytes};
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<const MacroBatchLists>> Read(
      const std::vector<uint16_t>& parts) {
    const double start = clock_.SteadySeconds();
    absl::StatusOr<std::unique_ptr<const MacroBatchLists>> read =
        MacroBatchLists::Read(partition_, parts);
    tally_.wait_seconds += clock_.SteadySeconds() - start;
    for (const uint16_t part : parts) {
      tally_.bytes_read +=
          static_cast<int64_t>(partition_.part_list_bytes(part));
    }
    tally_.requests += std::ssize(parts);
    return read;
  }

  const plan::Partition& partition_;
  const uint64_t budget_bytes_;
  const Clock& clock_;
  const PassMacroBatches macro_batches_;
  // Shared with the lists, which may outlive the feed.
  const std::shared_ptr<ByteBudget> budget_;
  // The macro batches of the last batch, by number.
  std::map<int64_t, Held> held_;
  io::ReadTally tally_;
};

/// The most bytes that the macro batches of any batch of `pass` and the next
/// macro batch take.
uint64_t MostBytes(const plan::Partition& partition, const Pass& pass) {
  const PassMacroBatches macro_batches(pass);
  // bytes[i]: of the first i macro batches together.
  std::vector<uint64_t> bytes = {0};
  for (const sample::MacroBatch& macro_batch : macro_batches.all()) {
    bytes.push_back(bytes.back() +
                    MacroBatchLists::MemoryBytes(partition, macro_batch.parts));
  }
  uint64_t most = 0;
  for (int64_t batch = 0; batch < macro_batches.num_batches(); ++batch) {
    const MacroBatchRange range = macro_batches.Of(batch);
    const int64_t end = std::min<int64_t>(range.end + 1, std::ssize(bytes) - 1);
    most = std::max(most, bytes[end] - bytes[range.first]);
  }
  return most;
}

}  // namespace

DynamicNeighborBudget DynamicNeighborBudget::Of(
    const plan::Partition& partition, absl::Span<const Pass> passes,
    uint64_t budget_bytes) {
  DynamicNeighborBudget budget;
  for (const Pass& pass : passes) {
    budget.needed_bytes =
        std::max(budget.needed_bytes, MostBytes(partition, pass));
  }
  if (budget.needed_bytes <= budget_bytes / 2) {
    budget.reserved_bytes = budget.needed_bytes;
  }
  return budget;
}

std::string DynamicNeighborBudget::Describe(uint64_t budget_bytes) const {
  if (needed_bytes == 0) return {};
  const std::string needed = FormatByteSize(needed_bytes);
  const std::string budget = FormatByteSize(budget_bytes);
  if (reserved_bytes > 0) {
    return absl::StrCat("the dynamic neighbor cache takes at most ", needed,
                        " of the ", budget, " for neighbor lists");
  }
  return absl::StrCat("there is no dynamic neighbor cache: it would take ",
                      needed, ", more than half of the ", budget,
                      " for neighbor lists");
}

DynamicNeighborCache::DynamicNeighborCache(
    std::shared_ptr<const plan::Partition> partition, const Clock& clock)
    : partition_(std::move(partition)), clock_(clock) {}

uint64_t DynamicNeighborCache::Reserve(absl::Span<const Pass> passes,
                                       uint64_t budget_bytes,
                                       const PreparationListener& listener) {
  const auto budget =
      DynamicNeighborBudget::Of(*partition_, passes, budget_bytes);
  budget_bytes_ = budget.reserved_bytes;
  const std::string text = budget.Describe(budget_bytes);
  if (listener.log && !text.empty()) listener.log(text);
  return budget_bytes_;
}

std::unique_ptr<ListFeed> DynamicNeighborCache::NewFeed(const Pass& pass) {
  return std::make_unique<DynamicListFeed>(*partition_, budget_bytes_, clock_,
                                           pass);
}

}  // namespace hearth::strategy
