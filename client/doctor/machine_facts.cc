#include "client/doctor/machine_facts.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/block_device.h"
#include "engine/io/read_probe.h"

namespace hearth::doctor {

namespace {

namespace fs = std::filesystem;

// Text of a file in the kernel's folders; empty if it cannot be read.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// The number in a file of the kernel's folders that has nothing else.
std::optional<uint64_t> NumberIn(const std::string& path) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(TextOf(path), &number)) return std::nullopt;
  return number;
}

// Text after `key` in the first line that begins with `key`.
std::string ValueOf(const std::string& text, absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, key)) {
      return std::string(absl::StripAsciiWhitespace(line));
    }
  }
  return "";
}

// Bytes of a line such as "MemTotal:  65536 kB".
uint64_t BytesOf(const std::string& text, absl::string_view key) {
  const std::string found = ValueOf(text, key);
  absl::string_view value = found;
  absl::ConsumeSuffix(&value, " kB");
  uint64_t number = 0;
  return absl::SimpleAtoi(value, &number) ? number << 10 : 0;
}

// The limit `name` in /proc/PID/limits: "Max open files  1024  4096  files".
Limit LimitOf(const std::string& text, absl::string_view name) {
  const std::vector<std::string> words =
      absl::StrSplit(ValueOf(text, name), ' ', absl::SkipEmpty());
  const auto number = [&](size_t i) {
    uint64_t value = 0;
    return i < words.size() && absl::SimpleAtoi(words[i], &value) ? value
                                                                  : UINT64_MAX;
  };
  return {.soft = number(0), .hard = number(1)};
}

// Whether the text of /proc/PID/status has CAP_IPC_LOCK.
bool MayLockAny(const std::string& status) {
  uint64_t capabilities = 0;
  return absl::SimpleHexAtoi(ValueOf(status, "CapEff:"), &capabilities) &&
         (capabilities >> CAP_IPC_LOCK & 1) != 0;
}

int TryIoUring() {
  io_uring_params parameters = {};
  const long ring = syscall(__NR_io_uring_setup, 4, &parameters);
  if (ring < 0) return errno;
  close(static_cast<int>(ring));
  return 0;
}

// Whether the kernel's clock is synchronized; adjtimex only reads it here.
std::optional<bool> IsClockSynchronized() {
  timex clock = {};
  const int state = adjtimex(&clock);
  if (state < 0) return std::nullopt;
  return state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
}

// The version in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08
// ...".
std::string DriverVersion(const std::string& text) {
  for (const absl::string_view word :
       absl::StrSplit(ValueOf(text, "NVRM version:"), ' ')) {
    if (!word.empty() && absl::ascii_isdigit(word[0]) &&
        word.find('.') != absl::string_view::npos) {
      return std::string(word);
    }
  }
  return "";
}

std::string FileSystemName(const struct statfs& info) {
  switch (static_cast<uint32_t>(info.f_type)) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case 0x2fc12fc1:
      return "zfs";
    case F2FS_SUPER_MAGIC:
      return "f2fs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case 0xff534d42:
    case 0xfe534d42:
      return "cifs";
    case FUSE_SUPER_MAGIC:
      return "fuse";
    case 0x01021997:
      return "9p";
    case 0x0bd00bd0:
      return "lustre";
    case 0x00c36400:
      return "ceph";
    default:
      return absl::StrCat("0x", absl::Hex(info.f_type));
  }
}

// Reads the facts about the disk of a device number, which may be a partition.
void ReadDisk(const KernelFolders& folders, dev_t device, FolderFacts& facts) {
  std::error_code error;
  fs::path disk = fs::canonical(absl::StrCat(folders.sys, "/dev/block/",
                                             major(device), ":", minor(device)),
                                error);
  if (error) return;
  if (!fs::exists(disk / "queue", error)) disk = disk.parent_path();
  if (!fs::exists(disk / "queue", error)) return;
  facts.disk = disk.filename().string();
  facts.read_ahead_kib = NumberIn(disk / "queue/read_ahead_kb");
  if (const auto rotates = NumberIn(disk / "queue/rotational")) {
    facts.rotates = *rotates != 0;
  }
}

}  // namespace

MachineFacts ReadMachineFacts(const KernelFolders& folders, pid_t pid) {
  const std::string process =
      absl::StrCat(folders.proc, "/", pid == 0 ? "self" : absl::StrCat(pid));
  MachineFacts facts;
  utsname name = {};
  if (uname(&name) == 0) facts.kernel = name.release;
  facts.io_uring_error = TryIoUring();
  facts.io_uring_disabled = static_cast<int>(
      NumberIn(folders.proc + "/sys/kernel/io_uring_disabled").value_or(0));
  const std::string status = TextOf(process + "/status");
  facts.has_seccomp_filter = ValueOf(status, "Seccomp:") == "2";
  facts.may_lock_any = MayLockAny(status);
  const std::string limits = TextOf(process + "/limits");
  facts.open_files = LimitOf(limits, "Max open files");
  facts.locked_memory = LimitOf(limits, "Max locked memory");
  const std::string memory = TextOf(folders.proc + "/meminfo");
  facts.memory_bytes = BytesOf(memory, "MemTotal:");
  facts.memory_available_bytes = BytesOf(memory, "MemAvailable:");
  facts.memory_capacity_bytes = std::min(
      facts.memory_bytes, CgroupMemoryLimit(TextOf(process + "/cgroup"),
                                            folders.sys + "/fs/cgroup"));
  const std::string cpu = TextOf(folders.proc + "/cpuinfo");
  std::string features = ValueOf(cpu, "flags");
  if (features.empty()) features = ValueOf(cpu, "Features");
  facts.cpu_features = absl::StrSplit(features, ' ', absl::SkipEmpty());
  facts.gpu_driver =
      DriverVersion(TextOf(folders.proc + "/driver/nvidia/version"));
  facts.has_gpu_device = access((folders.dev + "/nvidia0").c_str(), F_OK) == 0;
  facts.clock_is_synchronized = IsClockSynchronized();
  return facts;
}

bool IsProcess(const KernelFolders& folders, pid_t pid,
               const std::string& program) {
  return absl::StripAsciiWhitespace(
             TextOf(absl::StrCat(folders.proc, "/", pid, "/comm"))) == program;
}

FolderFacts ReadFolderFacts(const KernelFolders& folders,
                            const std::string& path) {
  FolderFacts facts;
  facts.path = path;
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) {
    facts.exists = true;
    facts.is_folder = S_ISDIR(info.st_mode);
    facts.owner = info.st_uid;
    facts.mode = info.st_mode & 07777;
  }
  fs::path nearest = path;
  while (stat(nearest.c_str(), &info) != 0 && nearest.has_relative_path()) {
    nearest = nearest.parent_path();
  }
  struct statfs system = {};
  if (statfs(nearest.c_str(), &system) == 0) {
    const auto block = static_cast<uint64_t>(system.f_bsize);
    facts.file_system = FileSystemName(system);
    facts.free_bytes = system.f_bavail * block;
    facts.total_bytes = system.f_blocks * block;
  }
  ReadDisk(folders, info.st_dev, facts);
  return facts;
}

SocketFacts ReadSocketFacts(const std::string& data_dir) {
  SocketFacts facts;
  facts.path = absl::StrCat(data_dir, "/hearth.sock");
  struct stat info = {};
  if (lstat(facts.path.c_str(), &info) != 0) return facts;
  facts.exists = true;
  facts.is_socket = S_ISSOCK(info.st_mode);
  facts.mode = info.st_mode & 07777;
  facts.is_open_to_us = access(facts.path.c_str(), W_OK) == 0;
  if (const group* named = getgrgid(info.st_gid)) facts.group = named->gr_name;
  return facts;
}

namespace {

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
// Seconds after which writing the probe file and sequential reading end.
constexpr double kWriteSeconds = 1;
constexpr double kScanSeconds = 0.3;

struct Candidate {
  std::string path;
  uint64_t bytes = 0;
};

// The largest file in the folders of datasets; empty if there is none or they
// cannot be read.
Candidate LargestArray(io::FileSystem& files, const std::string& data_dir) {
  Candidate largest;
  const std::string datasets = io::JoinPath(data_dir, "datasets");
  const auto names = files.List(datasets);
  if (!names.ok()) return largest;
  for (const std::string& name : *names) {
    const std::string dataset = io::JoinPath(datasets, name);
    const auto arrays = files.List(dataset);
    if (!arrays.ok()) continue;
    for (const std::string& array : *arrays) {
      const std::string path = io::JoinPath(dataset, array);
      const auto info = files.Stat(path);
      if (info.ok() && info->is_regular && info->size_bytes > largest.bytes) {
        largest = {.path = path, .bytes = info->size_bytes};
      }
    }
  }
  return largest;
}

absl::Status WriteProbe(io::FileSystem& files, const Clock& clock,
                        const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory chunk,
                          io::AlignedMemory::Allocate(kChunkBytes));
  // Pseudo-random bytes: zeros could be stored as a hole, or compressed.
  uint64_t word = 0x9e3779b97f4a7c15;
  for (std::byte& byte : chunk.bytes()) {
    word = word * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(word >> 56);
  }
  HEARTH_ASSIGN_OR_RETURN(const auto file, files.CreateUncached(path));
  const double start = clock.SteadySeconds();
  for (uint64_t at = 0; at < kProbeBytes; at += kChunkBytes) {
    HEARTH_RETURN_IF_ERROR(file->Append(chunk.bytes()));
    if (clock.SteadySeconds() - start > kWriteSeconds) break;
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::StatusOr<double> ScanSpeed(io::ReadableFile& file, const Clock& clock) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kChunkBytes));
  const uint64_t most = std::min(info.size_bytes, 4 * kProbeBytes);
  const double start = clock.SteadySeconds();
  double seconds = 0;
  uint64_t at = 0;
  while (at + kChunkBytes <= most && seconds < kScanSeconds) {
    HEARTH_RETURN_IF_ERROR(file.Read(at, memory.bytes()));
    at += kChunkBytes;
    seconds = clock.SteadySeconds() - start;
  }
  return seconds > 0 ? static_cast<double>(at) / seconds : 0;
}

}  // namespace

absl::StatusOr<DiskSpeed> MeasureDisk(io::FileSystem& files,
                                      io::ReadQueues& queues,
                                      const Clock& clock,
                                      const std::string& folder) {
  const Candidate array = LargestArray(files, folder);
  std::string path = array.path;
  std::string written;
  const absl::Cleanup remove = [&] {
    if (!written.empty()) files.RemoveTree(written).IgnoreError();
  };
  if (array.bytes < kProbeBytes) {
    // A new folder with a random name, which no other user can write to: no
    // file or link of another user is ever written.
    std::string own = io::JoinPath(folder, "hearth-doctor-XXXXXX");
    if (mkdtemp(own.data()) == nullptr) {
      return ErrnoStatus(errno, own, "create");
    }
    written = own;
    path = io::JoinPath(own, "probe");
    HEARTH_RETURN_IF_ERROR(WriteProbe(files, clock, path));
  }
  HEARTH_ASSIGN_OR_RETURN(const auto device, files.OpenBlockDevice(path, {}));
  HEARTH_ASSIGN_OR_RETURN(const auto scan, files.OpenForScan(path));
  if (!written.empty()) {
    HEARTH_RETURN_IF_ERROR(files.RemoveTree(std::exchange(written, "")));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const io::ReadProfile profile,
      io::ProbeReads(*device, queues, clock, DiskSpeed::kReadBytes,
                     DiskSpeed::kDepth, std::stop_token()));
  DiskSpeed speed;
  speed.reads_per_second = profile.peak_reads_per_second;
  speed.is_direct = device->direct();
  HEARTH_ASSIGN_OR_RETURN(speed.bytes_per_second, ScanSpeed(*scan, clock));
  return speed;
}

absl::StatusOr<DiskSpeed> MeasureDisk(const std::string& folder) {
  HEARTH_ASSIGN_OR_RETURN(const auto queues, io::ReadQueues::Create());
  return MeasureDisk(io::FileSystem::Posix(), *queues, Clock::Real(), folder);
}

}  // namespace hearth::doctor
