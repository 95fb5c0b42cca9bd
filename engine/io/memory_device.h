#ifndef HEARTH_ENGINE_IO_MEMORY_DEVICE_H_
#define HEARTH_ENGINE_IO_MEMORY_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/io/block_device.h"

namespace hearth::io {

/// A device whose bytes are `contents`. It says that it is direct if its
/// alignment, a power of two, is above 1, and refuses as a disk would
/// (-EINVAL) what is not aligned. For tests.
std::unique_ptr<BlockDevice> NewMemoryDevice(std::string contents,
                                             uint32_t alignment = 512,
                                             std::string path = "memory");

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_MEMORY_DEVICE_H_
