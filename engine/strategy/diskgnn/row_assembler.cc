#include "engine/strategy/diskgnn/row_assembler.h"

namespace hearth::strategy {

plan::RowImage LevelImages::gpu() const {
  return {.path = io::JoinPath(folder, plan::kGpuCacheFile),
          .crc = layout.gpu_crc,
          .bytes = layout.gpu_cache_bytes()};
}

plan::RowImage LevelImages::cpu() const {
  return {.path = io::JoinPath(folder, plan::kCpuCacheFile),
          .crc = layout.cpu_crc,
          .bytes = layout.cpu_cache_bytes()};
}

}  // namespace hearth::strategy
