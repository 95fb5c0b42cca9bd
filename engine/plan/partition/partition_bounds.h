#ifndef HEARTH_ENGINE_PLAN_PARTITION_PARTITION_BOUNDS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_PARTITION_BOUNDS_H_

#include <cstdint>

#include "engine/plan/partition/partition_options.h"

/// Bounds of a partition's memory and disk, told before it is made.

namespace hearth::plan {

/// Bytes on disk of a partition, at most.
uint64_t PartitionBytes(const PartitionShape& shape,
                        const PartitionOptions& options);

/// Bytes on disk, at most, that making it takes beside that.
uint64_t PartitionScratchBytes(const PartitionShape& shape,
                               const PartitionOptions& options);

/// Bytes of memory that making it takes, at most: no more than 4.2 a node and
/// 512 MiB. REQUIRES: threads > 0.
uint64_t PartitionMemory(const PartitionShape& shape,
                         const PartitionOptions& options, int threads);

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_PARTITION_BOUNDS_H_
