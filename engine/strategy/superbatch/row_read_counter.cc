#include "engine/strategy/superbatch/row_read_counter.h"

#include <algorithm>
#include <iterator>

#include "engine/base/status_macros.h"
#include "engine/io/queued_reader.h"
#include "engine/strategy/superbatch/executor.h"

namespace hearth::strategy {

absl::StatusOr<RowReadCounter> RowReadCounter::Make(
    io::ReadQueues& queues, const Clock& clock, int depth,
    const store::StoredFeatures& features) {
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedReader reader,
      io::QueuedReader::Open(queues, depth, *features.device, features.layout,
                             clock));
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedReader filler,
      Executor::OpenFiller(queues, clock, depth, features, nullptr));
  return RowReadCounter(features, filler.reader().cost(),
                        reader.reader().cost());
}

RowReadCounter::RowReadCounter(const store::StoredFeatures& features,
                               const io::ReadCost& filling,
                               const io::ReadCost& executing)
    : features_(features),
      filling_(filling),
      executing_(executing),
      inside_(static_cast<size_t>(features.layout.num_rows)) {}

absl::Status RowReadCounter::Fill(std::vector<store::NodeId> nodes) {
  std::fill(inside_.begin(), inside_.end(), false);
  // As Executor reads them.
  std::sort(nodes.begin(), nodes.end());
  const absl::Span<const store::NodeId> all = nodes;
  for (size_t first = 0; first < nodes.size();
       first += Executor::kFilledAtOnce) {
    HEARTH_RETURN_IF_ERROR(CountReads(
        all.subspan(first, Executor::kFilledAtOnce), filling_, reads_.filling));
  }
  for (const store::NodeId node : nodes) {
    inside_[static_cast<size_t>(node)] = true;
  }
  return absl::OkStatus();
}

absl::Status RowReadCounter::Add(absl::Span<const store::NodeId> nodes,
                                 const Changeset& changeset) {
  misses_.clear();
  for (const store::NodeId node : nodes) {
    if (!inside_[static_cast<size_t>(node)]) misses_.push_back(node);
  }
  HEARTH_RETURN_IF_ERROR(CountReads(misses_, executing_, reads_.executing));
  rows_needed_ += static_cast<int64_t>(nodes.size());
  for (const store::NodeId node : changeset.out_ids) {
    inside_[static_cast<size_t>(node)] = false;
  }
  for (const store::NodeId node : changeset.in_ids) {
    inside_[static_cast<size_t>(node)] = true;
  }
  return absl::OkStatus();
}

absl::Status RowReadCounter::CountReads(absl::Span<const store::NodeId> nodes,
                                        const io::ReadCost& cost,
                                        io::ReadTally& tally) {
  HEARTH_RETURN_IF_ERROR(io::Coalesce(
      nodes, features_.layout, features_.device->alignment(), cost, plan_));
  tally.rows += static_cast<int64_t>(nodes.size());
  tally.payload_bytes += static_cast<int64_t>(plan_.payload_bytes);
  tally.bytes_read += static_cast<int64_t>(plan_.read_bytes);
  tally.requests += std::ssize(plan_.reads);
  return absl::OkStatus();
}

}  // namespace hearth::strategy
