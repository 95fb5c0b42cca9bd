#ifndef HEARTH_ENGINE_IO_POSIX_BLOCK_DEVICE_H_
#define HEARTH_ENGINE_IO_POSIX_BLOCK_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/io/block_device.h"

namespace hearth::io {

/// FileSystem::OpenBlockDevice of the machine's file system. Direct, with the
/// alignment that the kernel tells (Linux 6.1) or that a first read shows to
/// work, 4096 or the file system's block size; buffered where none does.
absl::StatusOr<std::unique_ptr<BlockDevice>> OpenPosixBlockDevice(
    const std::string& path, const BlockDeviceOptions& options);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_POSIX_BLOCK_DEVICE_H_
