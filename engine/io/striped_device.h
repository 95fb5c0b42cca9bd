#ifndef HEARTH_ENGINE_IO_STRIPED_DEVICE_H_
#define HEARTH_ENGINE_IO_STRIPED_DEVICE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/io/block_device.h"

namespace hearth::io {

/// The bytes that lie between two stripes of a striped device, in no file. A
/// gap is longer than what a request costs in bytes (ReadCost), so that no
/// planned read goes from one stripe to the next, which is in another file; and
/// it is a multiple of any alignment.
inline constexpr uint64_t kStripeGapBytes = 128 << 10;

/// Several files as one device, to read from all of their disks: stripe s, of
/// `stripe_bytes`, is the (s / n)th of file s % n, for n files, and lies at
/// s * (stripe_bytes + kStripeGapBytes) of the device. The last stripe may be
/// short. Reads through queues go to the files (BlockDevice::PartAt). REQUIRES:
/// there is a file, and a stripe has bytes: a multiple of the files' alignment.
std::unique_ptr<BlockDevice> NewStripedDevice(
    std::vector<std::unique_ptr<BlockDevice>> files, uint64_t stripe_bytes);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_STRIPED_DEVICE_H_
