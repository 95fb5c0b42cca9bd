#include "engine/strategy/diskgnn/row_assembler.h"

namespace hearth::strategy {

RowImage LevelImages::gpu() const {
  return {.path = io::JoinPath(folder, kGpuCacheFile),
          .crc = layout.gpu_crc,
          .bytes = layout.gpu_cache_bytes()};
}

RowImage LevelImages::cpu() const {
  return {.path = io::JoinPath(folder, kCpuCacheFile),
          .crc = layout.cpu_crc,
          .bytes = layout.cpu_cache_bytes()};
}

}  // namespace hearth::strategy
