#include "engine/strategy/marius/partition_buffer.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/sample/layered_sampler.h"
#include "engine/store/graph.h"

namespace hearth::strategy {

using store::NodeId;

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kReadBytes = 8 << 20;

uint64_t PageUp(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

uint64_t PartitionBuffer::OverheadBytes(int64_t num_nodes) {
  return static_cast<uint64_t>(num_nodes) * sizeof(int64_t) + kReadBytes;
}

absl::Status PartitionBuffer::Resize(int32_t num_slots, int64_t most_kept) {
  if (rows_.has_value() == has_rows() && std::ssize(in_slot_) == num_slots &&
      most_kept_ == most_kept) {
    return absl::OkStatus();
  }
  // Given back first, so that there is place for the new ones.
  rows_.reset();
  in_slot_.clear();
  kept_.clear();
  needed_.clear();
  row_of_.assign(static_cast<size_t>(features_.rows.num_rows), -1);
  if (has_rows() && staging_.bytes().empty()) {
    HEARTH_ASSIGN_OR_RETURN(staging_, io::AlignedMemory::Allocate(kReadBytes));
  }
  if (has_rows()) {
    HEARTH_ASSIGN_OR_RETURN(
        rows_,
        cache::SlotArena::Make(most_kept + num_slots * partitions_.most_rows(),
                               features_.rows.row_bytes));
  }
  most_kept_ = most_kept;
  in_slot_.assign(static_cast<size_t>(num_slots), kEmpty);
  return absl::OkStatus();
}

std::optional<size_t> PartitionBuffer::SlotOf(int32_t partition) const {
  const auto found = std::find(in_slot_.begin(), in_slot_.end(), partition);
  if (found == in_slot_.end()) return std::nullopt;
  return found - in_slot_.begin();
}

// A slot whose partition, if any, is not among `needed`: an empty one, if there
// is one.
std::optional<size_t> PartitionBuffer::FreeSlot(
    const PartitionSet& needed) const {
  if (const auto empty = SlotOf(kEmpty)) return empty;
  for (size_t slot = 0; slot < in_slot_.size(); ++slot) {
    if (!std::binary_search(needed.begin(), needed.end(), in_slot_[slot])) {
      return slot;
    }
  }
  return std::nullopt;
}

absl::Status PartitionBuffer::Load(int32_t partition, size_t slot,
                                   const std::stop_token& stop,
                                   LoadTally& tally) {
  in_slot_[slot] = kEmpty;
  const io::RowLayout& layout = features_.rows;
  const NodeId first = partitions_.first(partition);
  const uint64_t begin = layout.RowOffset(first);
  const uint64_t end =
      begin +
      static_cast<uint64_t>(partitions_.num_rows(partition)) * layout.row_bytes;
  std::byte* out = has_rows() ? rows_->row(FirstRowOf(slot)) : nullptr;
  // The file may end within a page.
  const uint64_t file_end =
      layout.RowOffset(0) +
      static_cast<uint64_t>(layout.num_rows) * layout.row_bytes;
  for (uint64_t at = begin / kPage * kPage; at < end;) {
    if (stop.stop_requested()) {
      return absl::CancelledError("loading a partition: stopped on request");
    }
    const uint64_t count =
        std::min({kReadBytes, PageUp(end) - at, file_end - at});
    if (has_rows()) {
      HEARTH_RETURN_IF_ERROR(
          features_.file->Read(at, staging_.bytes().first(count)));
      const uint64_t from = std::max(at, begin);
      const uint64_t to = std::min(at + count, end);
      std::memcpy(out, staging_.bytes().data() + (from - at), to - from);
      out += to - from;
    }
    at += count;
    tally.bytes += static_cast<int64_t>(count);
    ++tally.reads;
  }
  ++tally.partitions;
  in_slot_[slot] = partition;
  return absl::OkStatus();
}

// Copies the rows of the kept nodes of a partition from its slot.
void PartitionBuffer::KeepFrom(const BufferState& state, int32_t partition,
                               size_t slot) {
  if (!has_rows()) return;
  const NodeId first = partitions_.first(partition);
  const NodeId end = first + partitions_.num_rows(partition);
  for (auto node =
           std::lower_bound(state.kept.begin(), state.kept.end(), first);
       node != state.kept.end() && *node < end; ++node) {
    std::memcpy(rows_->row(node - state.kept.begin()),
                rows_->row(FirstRowOf(slot) + (*node - first)),
                features_.rows.row_bytes);
  }
}

// Fills the rows of kept nodes but for those of partitions that `state` needs
// and that are not in a slot. Takes slots that it does not need, if there are
// any.
absl::Status PartitionBuffer::Keep(const BufferState& state,
                                   const std::stop_token& stop,
                                   LoadTally& tally) {
  if (state.kept == kept_) return absl::OkStatus();
  const size_t row_bytes = features_.rows.row_bytes;
  // Rows of nodes that are kept already move to their new places. Those of all
  // training nodes would be many: they are read again.
  if (std::ssize(state.kept) == most_kept_) kept_.clear();
  std::vector<std::pair<size_t, std::vector<std::byte>>> moved;
  std::vector<bool> has_row(state.kept.size());
  for (size_t i = 0; i < state.kept.size() && !kept_.empty(); ++i) {
    const auto kept =
        std::lower_bound(kept_.begin(), kept_.end(), state.kept[i]);
    if (kept == kept_.end() || *kept != state.kept[i]) continue;
    has_row[i] = true;
    if (!has_rows()) continue;
    const std::byte* const row = rows_->row(kept - kept_.begin());
    moved.emplace_back(i, std::vector<std::byte>(row, row + row_bytes));
  }
  kept_.clear();
  // Partitions that need not be read for kept nodes.
  std::vector<bool> is_there(static_cast<size_t>(partitions_.count()));
  for (const int32_t partition : state.partitions) is_there[partition] = true;
  for (size_t slot = 0; slot < in_slot_.size(); ++slot) {
    if (in_slot_[slot] == kEmpty) continue;
    is_there[in_slot_[slot]] = true;
    KeepFrom(state, in_slot_[slot], slot);
  }
  for (const auto& [i, row] : moved) {
    std::memcpy(rows_->row(static_cast<int64_t>(i)), row.data(), row_bytes);
  }
  for (size_t i = 0; i < state.kept.size(); ++i) {
    const int32_t partition = partitions_.PartitionOf(state.kept[i]);
    if (has_row[i] || is_there[partition]) continue;
    const size_t slot = FreeSlot(state.partitions).value_or(0);
    HEARTH_RETURN_IF_ERROR(Load(partition, slot, stop, tally));
    KeepFrom(state, partition, slot);
    is_there[partition] = true;
  }
  kept_ = state.kept;
  return absl::OkStatus();
}

absl::Status PartitionBuffer::Enter(const BufferState& state,
                                    const std::stop_token& stop,
                                    LoadTally& tally) {
  assert(state.partitions.size() <= in_slot_.size());
  assert(std::ssize(state.kept) <= most_kept_);
  std::fill(row_of_.begin(), row_of_.end(), -1);
  needed_.clear();
  HEARTH_RETURN_IF_ERROR(Keep(state, stop, tally));
  for (const int32_t partition : state.partitions) {
    if (SlotOf(partition).has_value()) continue;
    const size_t slot = *FreeSlot(state.partitions);
    if (const absl::Status loaded = Load(partition, slot, stop, tally);
        !loaded.ok()) {
      kept_.clear();
      return loaded;
    }
    KeepFrom(state, partition, slot);
  }
  needed_ = state.partitions;
  for (const int32_t partition : state.partitions) {
    const int64_t first = FirstRowOf(*SlotOf(partition));
    for (int64_t i = 0; i < partitions_.num_rows(partition); ++i) {
      row_of_[partitions_.first(partition) + i] = first + i;
    }
  }
  for (size_t i = 0; i < kept_.size(); ++i) {
    row_of_[kept_[i]] = static_cast<int64_t>(i);
  }
  return absl::OkStatus();
}

absl::Status PartitionBuffer::LoadAhead(const BufferState& next,
                                        const std::stop_token& stop,
                                        LoadTally& tally) {
  // What is needed now stays, and what was loaded for then.
  PartitionSet stay;
  std::set_union(needed_.begin(), needed_.end(), next.partitions.begin(),
                 next.partitions.end(), std::back_inserter(stay));
  for (const int32_t partition : next.partitions) {
    if (SlotOf(partition).has_value()) continue;
    const std::optional<size_t> slot = FreeSlot(stay);
    if (!slot.has_value()) break;
    HEARTH_RETURN_IF_ERROR(Load(partition, *slot, stop, tally));
  }
  return absl::OkStatus();
}

namespace {

// Nodes between two looks for a stop.
constexpr int64_t kNodesPerLook = 1 << 16;

template <typename Index>
absl::Status FilterRelation(const store::Relation& whole,
                            absl::Span<const Index> indices,
                            absl::Span<const int64_t> row_of,
                            const std::stop_token& stop,
                            std::vector<int64_t>& indptr,
                            std::vector<Index>& filtered) {
  const int64_t num_nodes = whole.topology.num_nodes();
  const absl::Span<const int64_t> from = whole.topology.indptr;
  int64_t most = 0;
  for (int64_t node = 0; node < num_nodes; ++node) {
    if (from[node] < 0 || from[node + 1] < from[node] ||
        from[node + 1] > whole.topology.num_edges()) {
      return sample::NoRow(whole, node);
    }
    if (row_of[whole.first_destination + node] >= 0) {
      most += from[node + 1] - from[node];
    }
  }
  // Pages that are not written to take no memory.
  filtered.reserve(static_cast<size_t>(most));
  indptr.reserve(static_cast<size_t>(num_nodes) + 1);
  indptr.push_back(0);
  for (int64_t node = 0; node < num_nodes; ++node) {
    if (node % kNodesPerLook == 0 && stop.stop_requested()) {
      return absl::CancelledError(
          "choosing the edges in memory: stopped on request");
    }
    if (row_of[whole.first_destination + node] >= 0) {
      for (int64_t edge = from[node]; edge < from[node + 1]; ++edge) {
        const auto source = static_cast<int64_t>(indices[edge]);
        if (source < 0 || source >= whole.num_sources) {
          return sample::NoSource(whole, source);
        }
        if (row_of[whole.first_source + source] >= 0) {
          filtered.push_back(indices[edge]);
        }
      }
    }
    indptr.push_back(std::ssize(filtered));
  }
  return absl::OkStatus();
}

class Subgraph final : public store::LoadedTopology {
 public:
  explicit Subgraph(const store::LoadedTopology& whole)
      : relations_(whole.relations().begin(), whole.relations().end()),
        nodes_(whole.nodes()),
        arrays_(relations_.size()) {}

  const store::Topology& view() const override {
    return relations_.front().topology;
  }
  absl::Span<const store::Relation> relations() const override {
    return relations_;
  }
  const store::NodeSpace& nodes() const override { return nodes_; }
  absl::Status status() const override { return absl::OkStatus(); }

  // Makes each relation a view of its filtered arrays.
  absl::Status Filter(absl::Span<const int64_t> row_of,
                      const std::stop_token& stop) {
    for (size_t i = 0; i < relations_.size(); ++i) {
      store::Relation& relation = relations_[i];
      const store::Relation whole = relation;
      HEARTH_RETURN_IF_ERROR(std::visit(
          [&](auto indices) -> absl::Status {
            using Index =
                std::remove_const_t<typename decltype(indices)::value_type>;
            auto& filtered = arrays_[i].indices.emplace<std::vector<Index>>();
            HEARTH_RETURN_IF_ERROR(FilterRelation(whole, indices, row_of, stop,
                                                  arrays_[i].indptr, filtered));
            relation.topology.indptr = arrays_[i].indptr;
            relation.topology.indices = absl::MakeConstSpan(filtered);
            return absl::OkStatus();
          },
          whole.topology.indices));
    }
    return absl::OkStatus();
  }

 private:
  struct Arrays {
    std::vector<int64_t> indptr;
    std::variant<std::vector<int32_t>, std::vector<int64_t>> indices;
  };

  std::vector<store::Relation> relations_;
  const store::NodeSpace nodes_;
  std::vector<Arrays> arrays_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<store::LoadedTopology>> NewSubgraph(
    const store::LoadedTopology& whole, absl::Span<const int64_t> row_of,
    const std::stop_token& stop) {
  auto subgraph = std::make_unique<Subgraph>(whole);
  const absl::Status filtered = subgraph->Filter(row_of, stop);
  // The topology's error names the file that could not be read.
  HEARTH_RETURN_IF_ERROR(whole.status());
  HEARTH_RETURN_IF_ERROR(filtered);
  return subgraph;
}

}  // namespace hearth::strategy
