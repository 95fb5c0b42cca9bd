#ifndef HEARTH_ENGINE_IO_JOINED_DEVICE_H_
#define HEARTH_ENGINE_IO_JOINED_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/io/block_device.h"

namespace hearth::io {

/// Where part `part` of a joined device begins: 16 TiB after the one before it,
/// further than any file or read is long.
inline constexpr uint64_t JoinedPartOffset(size_t part) {
  return static_cast<uint64_t>(part) << 44;
}

/// Several devices as one: `parts[i]` lies at JoinedPartOffset(i). Reads
/// through queues go to their files (BlockDevice::PartAt). REQUIRES: there is a
/// part.
std::unique_ptr<BlockDevice> NewJoinedDevice(
    std::vector<std::unique_ptr<BlockDevice>> parts);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_JOINED_DEVICE_H_
