#ifndef HEARTH_ENGINE_MACHINE_DISK_PROFILE_H_
#define HEARTH_ENGINE_MACHINE_DISK_PROFILE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/machine/machine_probe.h"

/// What a disk and the processors beside it can do, measured in at most
/// kMostProfileSeconds (MeasureProfile) and kept in a file for each disk
/// (DiskProfiles).

namespace hearth::machine {

/// Rate of reads of a page of 4 KiB at random places.
struct RandomReads {
  int threads = 1;
  /// Reads that each thread keeps in flight.
  int depth = 1;
  /// Reads per second of all threads together.
  double per_second = 0;

  bool operator==(const RandomReads&) const = default;
};

/// Rates of a disk, and of the processors with it. Seconds are those of one
/// thread.
struct DiskProfile {
  absl::Time measured = absl::UnixEpoch();
  /// In the order of threads, then of depths; the first is {1, 1}.
  std::vector<RandomReads> pages;
  /// Random reads per second of 16 and of 128 KiB, at depth kDeepReads.
  double reads_of_16k = 0;
  double reads_of_128k = 0;
  /// [i]: bytes per second read in order by 2^i threads.
  std::vector<double> streams;
  /// Bytes per second written in order, durably.
  double write_bytes_per_second = 0;
  /// Processor time of the thread that makes a random read.
  double seconds_per_read = 0;
  /// Copying a byte of a row to its place in a batch, and a row of few bytes.
  double copy_seconds_per_byte = 0;
  double copy_seconds_per_row = 0;
  double checksum_seconds_per_byte = 0;
  /// Getting memory that was not in use.
  double memory_seconds_per_byte = 0;
  /// Whether nothing was measured: rates of a common machine.
  bool is_assumed = false;

  /// The rates of a common NVMe disk, for jobs that begin while others read.
  static DiskProfile Assumed();

  /// Random reads per second of `bytes` each, by `threads` that each keep
  /// `depth` in flight: at least the rate of fewer threads and reads.
  double ReadsPerSecond(int threads, int depth, uint64_t bytes) const;

  /// Bytes per second read in order by `threads`.
  double BytesPerSecond(int threads) const;

  /// Seconds to copy a row of `bytes` bytes.
  double CopySeconds(uint64_t bytes) const {
    return copy_seconds_per_row +
           copy_seconds_per_byte * static_cast<double>(bytes);
  }

  bool operator==(const DiskProfile&) const = default;
};

/// Depth of the reads of 16 and of 128 KiB.
inline constexpr int kDeepReads = 64;
/// Time that a measurement takes at most, apart from what is under way then.
inline constexpr double kMostProfileSeconds = 3;
/// Age up to which a profile is taken to hold.
inline constexpr absl::Duration kFreshProfile = absl::Hours(24);
/// Memory that a measurement holds at most.
inline constexpr uint64_t kProfileBytes = kProbeBytes;

/// A disk that is measured.
struct MeasuredDisk {
  /// A file on it, which is read: the larger, the better.
  std::string file;
  /// The folder where plans are made, which is written to. It is usually on the
  /// same disk; the profile is named by the disk of `file`.
  std::string folder;
};

/// Measures the disk, in the order of importance: measurements for which no
/// time is left have the value of the nearest one. Removes what it writes.
/// Errors of reading and writing; CANCELLED on a stop.
absl::StatusOr<DiskProfile> MeasureProfile(const ProbeContext& context,
                                           const MeasuredDisk& disk);

/// The text of a profile, and its inverse: DATA_LOSS or INVALID_ARGUMENT for
/// text that is damaged or of another version.
std::string SerializeProfile(const DiskProfile& profile);
absl::StatusOr<DiskProfile> ParseProfile(absl::string_view text);

/// The profiles of disks, each in a file of a folder. Thread-safe.
class DiskProfiles {
 public:
  /// All arguments outlive this. `folder` may not exist yet.
  DiskProfiles(io::FileSystem& files, io::ReadQueues& read_queues,
               const Clock& clock, std::string folder)
      : files_(files),
        read_queues_(read_queues),
        clock_(clock),
        folder_(std::move(folder)) {}

  /// The kept profile of the disk. If there is none, or it is damaged or not
  /// younger than `fresh`, and `may_measure` says that nobody reads now, the
  /// disk is measured and its profile kept; otherwise the old one serves, or
  /// DiskProfile::Assumed. Errors of MeasureProfile; a profile that cannot be
  /// kept is none.
  absl::StatusOr<DiskProfile> Find(const MeasuredDisk& disk,
                                   const std::function<bool()>& may_measure,
                                   std::stop_token stop,
                                   absl::Duration fresh = kFreshProfile)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Corrects the kept profile of the disk with `file`, if there is one, by the
  /// rate at which a job read a large file in order: a measurement is short,
  /// and may find a disk rested, or files in a cache below it. Rates of streams
  /// become the geometric mean of what was and what was measured now, so that
  /// they follow a few jobs, not one.
  void NoteScan(const std::string& file, double bytes_per_second)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The file that keeps the profile of a file system (FileInfo::file_system).
  std::string PathOf(uint64_t file_system) const;

 private:
  // The profile in a file; absent if it is damaged, or there is none.
  std::optional<DiskProfile> Kept(const std::string& path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  io::FileSystem& files_;
  io::ReadQueues& read_queues_;
  const Clock& clock_;
  const std::string folder_;
  // One measurement at a time.
  absl::Mutex mutex_;
};

}  // namespace hearth::machine

#endif  // HEARTH_ENGINE_MACHINE_DISK_PROFILE_H_
