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

/// Facts about this machine: kernel, limits, memory, a folder and its disk, a
/// socket, and the measured speed of a disk. Nothing here judges them (checks.h
/// does). A fact that cannot be read keeps its default.

namespace hearth::doctor {

/// The kernel's folders; tests have folders of their own.
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

/// Facts about the machine, and about one process on it.
struct MachineFacts {
  /// Release: "6.1.0-18-amd64".
  std::string kernel;
  /// Errno of io_uring_setup in this process; 0 = it works.
  int io_uring_error = 0;
  /// Value of kernel.io_uring_disabled: 1 = disabled for users without
  /// CAP_SYS_ADMIN who are not in kernel.io_uring_group, 2 = for all users; 0
  /// also for kernels without the setting.
  int io_uring_disabled = 0;
  /// Whether a seccomp filter restricts the process's system calls.
  bool has_seccomp_filter = false;
  /// Limits of the process: open files, and bytes of locked memory.
  Limit open_files;
  Limit locked_memory;
  /// Whether the process has CAP_IPC_LOCK, as root's processes outside
  /// containers do: the limit on locked memory does not apply to it.
  bool may_lock_any = false;
  /// Bytes of the machine's memory, the part of it that is free, and the limit
  /// of the process's container, or all memory without a limit.
  uint64_t memory_bytes = 0;
  uint64_t memory_available_bytes = 0;
  uint64_t memory_capacity_bytes = 0;
  /// Features of the first processor, such as "avx2", "avx512f".
  std::set<std::string> cpu_features;
  /// Version of NVIDIA's driver; empty = no driver.
  std::string gpu_driver;
  /// Whether this machine or container has the device file of a GPU.
  bool has_gpu_device = false;
  /// Whether the kernel says that the wall clock is synchronized; nullopt = not
  /// known.
  std::optional<bool> clock_is_synchronized;
};

/// Facts about the machine and the process `pid` on it; 0 = this process.
MachineFacts ReadMachineFacts(const KernelFolders& folders, pid_t pid);

/// Whether the process `pid` of this machine runs `program` ("hearthd"). The
/// pid of a daemon in another container means another process, or none, here.
bool IsProcess(const KernelFolders& folders, pid_t pid,
               const std::string& program);

/// Facts about a data directory, which may not exist yet.
struct FolderFacts {
  /// Path of the data directory.
  std::string path = {};
  bool exists = false;
  bool is_folder = false;
  uid_t owner = 0;
  /// Permissions, as of chmod.
  mode_t mode = 0;
  /// File system of the folder, or of its nearest existing parent: "ext4",
  /// "xfs", or its magic number in hexadecimal.
  std::string file_system = {};
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
  /// Read-ahead of the folder's disk; nullopt without a disk, or if not known.
  std::optional<uint64_t> read_ahead_kib = std::nullopt;
  std::optional<bool> rotates = std::nullopt;
  /// Name of the disk: "nvme0n1"; empty = not known.
  std::string disk = {};
};

FolderFacts ReadFolderFacts(const KernelFolders& folders,
                            const std::string& path);

/// Facts about the Unix socket in a data directory.
struct SocketFacts {
  std::string path = {};
  bool exists = false;
  bool is_socket = false;
  mode_t mode = 0;
  /// Whether the permissions allow this process to connect.
  bool is_open_to_us = false;
  /// Name of the socket's group; empty = not known.
  std::string group = {};
};

SocketFacts ReadSocketFacts(const std::string& data_dir);

/// Speed of a disk, for reads past the page cache.
struct DiskSpeed {
  /// Random reads of kReadBytes, with kDepth in flight.
  double reads_per_second = 0;
  /// Sequential reads of 1 MiB, one at a time.
  double bytes_per_second = 0;
  /// Whether reads went past the page cache; if the file system does not allow
  /// that, the speeds are memory's.
  bool is_direct = false;

  static constexpr uint64_t kReadBytes = 4096;
  static constexpr size_t kDepth = 64;
};

/// Bytes of the file that MeasureDisk writes.
inline constexpr uint64_t kProbeBytes = uint64_t{64} << 20;

/// Measures the disk of the data directory `folder`: on the largest file of its
/// datasets or, if none has kProbeBytes, on a file of that size that is written
/// there and removed before it is read. Takes two seconds at most on a disk
/// that answers. Errors name the file.
absl::StatusOr<DiskSpeed> MeasureDisk(io::FileSystem& files,
                                      io::ReadQueues& queues,
                                      const Clock& clock,
                                      const std::string& folder);
/// MeasureDisk with this machine's files, queues and clock.
absl::StatusOr<DiskSpeed> MeasureDisk(const std::string& folder);

}  // namespace hearth::doctor

#endif  // HEARTH_CLIENT_DOCTOR_MACHINE_FACTS_H_
