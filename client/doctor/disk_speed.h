#ifndef HEARTH_CLIENT_DOCTOR_DISK_SPEED_H_
#define HEARTH_CLIENT_DOCTOR_DISK_SPEED_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queues.h"

namespace hearth::doctor {

/// How fast a disk gives what is read past the page cache.
struct DiskSpeed {
  /// Random reads of 4 KiB, kDepth in flight.
  double reads_per_second = 0;
  /// One read of a MiB after the other.
  double bytes_per_second = 0;
  /// Whether the file system lets reads go past the page cache; otherwise the
  /// figures are those of memory.
  bool is_direct = false;

  static constexpr uint64_t kReadBytes = 4096;
  static constexpr size_t kDepth = 64;
};

/// Measures the disk below `folder`, on a file of the dataset with the largest
/// ones there, or, where none has kProbeBytes, on one of that size that is
/// written there, and is gone at once. Takes two seconds at most on a disk that
/// answers. Errors name the file.
absl::StatusOr<DiskSpeed> MeasureDisk(io::FileSystem& files,
                                      io::ReadQueues& queues,
                                      const Clock& clock,
                                      const std::string& folder);
/// The same of this machine's files and clock.
absl::StatusOr<DiskSpeed> MeasureDisk(const std::string& folder);

/// Bytes of the file that is written.
inline constexpr uint64_t kProbeBytes = uint64_t{64} << 20;

}  // namespace hearth::doctor

#endif  // HEARTH_CLIENT_DOCTOR_DISK_SPEED_H_
