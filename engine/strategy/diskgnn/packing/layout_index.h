#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_LAYOUT_INDEX_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_LAYOUT_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"

namespace hearth::strategy {

/// Writes the index of a plan in `folder`, durably: the last step of packing.
absl::Status WriteLayoutIndex(io::FileSystem& files, const std::string& folder,
                              const PackedLayout& layout);

/// The layout of the plan in `folder`. NOT_FOUND if there is none, or if it was
/// not finished; DATA_LOSS, naming the file, if the index is damaged, is that
/// of another plan, or does not agree with the sizes of the files;
/// FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<PackedLayout> ReadLayoutIndex(io::FileSystem& files,
                                             const std::string& folder,
                                             uint64_t plan_id);

/// Writes the header before the graph sample of batch `batch`:
/// kChunkHeaderBytes.
void WriteChunkHeader(const PackedLayout& layout, int64_t batch, std::byte* to);

/// Whether `bytes` begin with the header of that batch's chunk.
bool IsChunkHeader(const PackedLayout& layout, int64_t batch,
                   absl::Span<const std::byte> bytes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_LAYOUT_INDEX_H_
