#ifndef HEARTH_CLIENT_DOCTOR_MACHINE_FACTS_H_
#define HEARTH_CLIENT_DOCTOR_MACHINE_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"

/// Facts that this machine tells about itself. Nothing here judges; a fact that
/// cannot be read is left at its default.

namespace hearth::doctor {

/// Where the kernel tells of itself; tests have folders of their own.
struct KernelFolders {
  std::string proc = "/proc";
  std::string sys = "/sys";
  std::string dev = "/dev";
};

/// A limit of a process; UINT64_MAX = none.
struct Limit {
  uint64_t soft = UINT64_MAX;
  uint64_t hard = UINT64_MAX;
};

/// The machine, and one process on it.
struct MachineFacts {
  /// "6.1.0-18-amd64".
  std::string kernel;
  /// Errno of io_uring_setup in this process; 0 = a ring.
  int io_uring_error = 0;
  /// The setting kernel.io_uring_disabled: 1 = for users without CAP_SYS_ADMIN
  /// who are not in kernel.io_uring_group, 2 = for all; 0 also without the
  /// setting.
  int io_uring_disabled = 0;
  /// Whether a filter decides which calls the process may make.
  bool has_seccomp_filter = false;
  /// Limits of the process: open files, and bytes that stay in memory.
  Limit open_files;
  Limit locked_memory;
  /// Whether the limit on locked memory does not hold for the process: it has
  /// the capability CAP_IPC_LOCK, as root's processes do outside containers.
  bool may_lock_any = false;
  /// Bytes; of the machine, and of the container that this process is in (with
  /// the machine's where that has no limit).
  uint64_t memory_bytes = 0;
  uint64_t memory_available_bytes = 0;
  uint64_t memory_capacity_bytes = 0;
  /// Features of the first processor: "avx2", "avx512f".
  std::set<std::string> cpu_features;
  /// Version of the driver of NVIDIA's GPUs; empty = there is none.
  std::string gpu_driver;
  /// Whether this machine or container has the device of a GPU.
  bool has_gpu_device = false;
  /// Whether the wall clock is kept right by another; nullopt = not known.
  std::optional<bool> clock_is_synchronized;
};

/// The facts of process `pid`, which is on this machine; 0 = this process.
MachineFacts ReadMachineFacts(const KernelFolders& folders, pid_t pid);

/// Whether the process `pid` of this machine runs `program` ("hearthd"): a
/// daemon in another container has a number of its own.
bool IsProcess(const KernelFolders& folders, pid_t pid,
               const std::string& program);

/// A data directory, or the folder above it in which it would be made.
struct FolderFacts {
  /// The data directory.
  std::string path = {};
  bool exists = false;
  bool is_folder = false;
  uid_t owner = 0;
  /// Permissions, as of chmod.
  mode_t mode = 0;
  /// The file system of the folder, or of the nearest one above it that exists:
  /// "ext4", "xfs", or a number in hexadecimal that has no name here.
  std::string file_system = {};
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  /// The read-ahead of the disk below; nullopt where there is none, or it is
  /// not known.
  std::optional<uint64_t> read_ahead_kib = std::nullopt;
  std::optional<bool> rotates = std::nullopt;
  /// "nvme0n1"; empty = not known.
  std::string disk = {};
};

FolderFacts ReadFolderFacts(const KernelFolders& folders,
                            const std::string& path);

/// The Unix socket in a data directory.
struct SocketFacts {
  std::string path = {};
  bool exists = false;
  bool is_socket = false;
  mode_t mode = 0;
  /// Whether this process may connect to it, by its permissions.
  bool is_open_to_us = false;
  /// Name of its group; empty = not known.
  std::string group = {};
};

SocketFacts ReadSocketFacts(const std::string& data_dir);

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

#endif  // HEARTH_CLIENT_DOCTOR_MACHINE_FACTS_H_
