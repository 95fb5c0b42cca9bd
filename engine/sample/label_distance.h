#ifndef HEARTH_ENGINE_SAMPLE_LABEL_DISTANCE_H_
#define HEARTH_ENGINE_SAMPLE_LABEL_DISTANCE_H_

#include <cstdint>
#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/sample/seed_order.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"

/// How far the labels of batches are from those of all seeds, and the partition
/// order of the fewest parts that is, by this, nearly as good as shuffling.

namespace hearth::sample {

/// Mean label distance of the batches of `order`, over whole epochs with the
/// keys 0, 1, 2, ..., as many as have 1,024 batches. The label distance of a
/// batch B of the seeds S is
///
///     1/2 * sum over c of |n_c(B) / |B| - n_c(S) / |S||,
///
/// where n_c counts seeds of class c: the total variation distance between the
/// labels of the batch and of all seeds, within 0 .. 1. For multi-label, n_c
/// counts seeds that are known to have label c; the sum may exceed 1 then, but
/// its ratio between two orders of the same seeds means the same.
/// REQUIRES: `labels` are classes or multi-label, and row i is that of the i-th
/// node that the order was made of; all are labeled; batch_size > 0.
double LabelDistance(const SeedOrder& order, const store::LabelsView& labels,
                     int64_t batch_size);

/// The partition order that ChooseMacroBatch has chosen.
struct MacroBatchChoice {
  int parts_per_macro_batch = 1;
  /// LabelDistance of this order, and of shuffled seeds.
  double label_distance = 0;
  double shuffled_label_distance = 0;
};

/// Chooses the least parts_per_macro_batch with which the label distance of
/// NewPartitionOrder(nodes, options) is at most 1.1 times that of shuffled
/// seeds. The distance falls as macro batches grow, but for chance: the least
/// number is found by doubling, then by bisection, and satisfies the bound as
/// measured, unless it is that of all parts that have seeds, with which seeds
/// are shuffled anyway. `labels` and `batch_size` as for LabelDistance.
/// CANCELLED after a stop. REQUIRES: as NewPartitionOrder, of which
/// options.parts_per_macro_batch is not used; nodes are not empty.
absl::StatusOr<MacroBatchChoice> ChooseMacroBatch(
    absl::Span<const store::NodeId> nodes, PartitionOrderOptions options,
    const store::LabelsView& labels, int64_t batch_size,
    const std::stop_token& stop);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_LABEL_DISTANCE_H_
