#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_CUDA_ROW_ASSEMBLER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_CUDA_ROW_ASSEMBLER_H_

#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/strategy/diskgnn/row_assembler.h"

namespace hearth::strategy {

/// Pinned host memory through which rows go to the GPU cache: while the
/// assembler is made, and beside the CPU cache.
inline constexpr uint64_t kGpuLoadBytes = 4 << 20;

/// Assembles on a GPU (DiskGNN, sections 4, 5.3 and 6): the GPU cache lies in
/// device memory and the CPU cache in pinned host memory, which the kernel
/// reads in place; what was read for a batch, and the lists of its table, are
/// copied to the device; one kernel widens the rows of all levels. That is done
/// on a stream of the assembler's own. There AssembleOnDevice leaves the rows,
/// in a room for each batch that has some (device_rooms.h); Assemble copies
/// them to host memory on the same stream, and waits for that.
///
/// On the device it holds, beside the GPU cache, the largest batch so far: its
/// rows from disk as they are stored, and up to 12 bytes a row; and for as many
/// batches as were assembled at once all rows as float32. RESOURCE_EXHAUSTED,
/// with the size, if device or host have no memory; INTERNAL if the device
/// fails; otherwise errors as LoadRowImage.
absl::StatusOr<std::unique_ptr<RowAssembler>> NewCudaRowAssembler(
    const cuda::Device& device, const LevelImages& images,
    const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_CUDA_ROW_ASSEMBLER_H_
