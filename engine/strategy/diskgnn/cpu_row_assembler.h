#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_CPU_ROW_ASSEMBLER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_CPU_ROW_ASSEMBLER_H_

#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/strategy/diskgnn/row_assembler.h"

namespace hearth::strategy {

/// Assembles on the CPU, with all levels in host memory; rows of a GPU cache,
/// too, so that it is the twin of an assembler on a GPU. RESOURCE_EXHAUSTED
/// without memory; otherwise errors as LoadRowImage.
absl::StatusOr<std::unique_ptr<RowAssembler>> NewCpuRowAssembler(
    const LevelImages& images, const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_CPU_ROW_ASSEMBLER_H_
