#ifndef HEARTH_ENGINE_PLAN_PARTITION_WRITE_PARTITION_H_
#define HEARTH_ENGINE_PLAN_PARTITION_WRITE_PARTITION_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// Partitions the graph of a dataset and writes the partition, durably:
/// two-level streaming FENNEL that balances training nodes, too (OUTRE,
/// sections 4.2 and 5.2; the protocol is at the top of write_partition.cc). A
/// heterograph is partitioned as one graph of all its nodes. `training_nodes`
/// are ascending, without repetition. Equal graphs, training nodes and options
/// give equal bytes, except for the seconds, whatever the threads.
///
/// Files of another partition in the folder are removed first; after an error
/// nothing of this one is left, and after a kill a second call starts over.
/// INVALID_ARGUMENT, naming the field, as CheckPartitionOptions and for
/// training nodes that are not as above; DATA_LOSS, naming file and block, if
/// the topology is damaged; RESOURCE_EXHAUSTED without memory or space on the
/// disk; CANCELLED, within a few MiB, when a stop is requested; errors of
/// files.
absl::StatusOr<PartitionSummary> WritePartition(
    io::FileSystem& files, const store::Dataset& dataset,
    absl::Span<const store::NodeId> training_nodes,
    const PartitionOptions& options, const PartitionRun& run);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_WRITE_PARTITION_H_
