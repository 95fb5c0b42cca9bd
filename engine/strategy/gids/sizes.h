#ifndef HEARTH_ENGINE_STRATEGY_GIDS_SIZES_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_SIZES_H_

#include <cstdint>

#include "engine/io/coalesce.h"
#include "engine/io/read_probe.h"
#include "engine/strategy/batch_bound.h"
#include "engine/strategy/gids/options.h"

namespace hearth::strategy {

/// The sizes of the parts of GIDS, as the options and the batches have them.

/// Rows of the constant buffer.
int64_t BufferedRows(const GidsOptions& options, const io::RowLayout& layout);

/// Lines of the window cache. `batches` is how large each of the `shards`
/// shards of a batch is.
int64_t WindowLines(const GidsOptions& options, const io::RowLayout& layout,
                    const BatchBound& batches, int64_t shards);

/// Reads that are to be under way: as many as have to overlap, and at least the
/// depth.
int64_t TargetReads(const io::ReadProfile& disk);

/// Memory of the batches that are being read, or wait to be assembled, within
/// which others join them: by default twice what the largest needs, or once
/// where the caches have room for all rows, so that each is read only once.
uint64_t StagingBytes(const GidsOptions& options, const io::RowLayout& layout,
                      const BatchBound& batches, int64_t shards);

/// Bytes that the largest batch counts with in that memory.
uint64_t LargestStagedBytes(const io::RowLayout& layout,
                            const BatchBound& batches);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_SIZES_H_
