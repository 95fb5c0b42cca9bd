#include "client/doctor/checks.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/byte_size.h"
#include "engine/base/version.h"

namespace hearth::doctor {

namespace {

// Open files that few jobs need, and that a job with 64 connections needs.
constexpr uint64_t kFewFiles = 1024;
constexpr uint64_t kEnoughFiles = 4096;
// Bytes of registered memory: the staging of one or two jobs.
constexpr uint64_t kEnoughLocked = uint64_t{256} << 20;
// Bytes of an io_uring for each read in flight, and of the rings of jobs with
// the most reads in flight.
constexpr uint64_t kRingEntryBytes = 100;
constexpr uint64_t kEnoughForRings = uint64_t{8} << 20;
constexpr uint64_t kLittleMemory = uint64_t{2} << 30;
constexpr uint64_t kNoSpace = uint64_t{1} << 30;
constexpr double kLittleSpace = 0.05;
constexpr uint64_t kMuchReadAheadKib = 512;
// Reads and bytes a second that every NVMe disk exceeds.
constexpr double kFewReads = 20'000;
constexpr double kSlowScan = 300e6;
constexpr double kStepSeconds = 0.05;
constexpr absl::Duration kSkewNote = absl::Seconds(2);
constexpr absl::Duration kSkewProblem = absl::Minutes(5);

Finding CheckIoUring(const MachineFacts& facts) {
  Finding finding = {.check = "io_uring"};
  if (facts.io_uring_error == 0) {
    finding.value = absl::StrCat("works (Linux ", facts.kernel, ")");
    return finding;
  }
  finding.severity = Severity::kNote;
  constexpr char kCost[] =
      "; rows are read by threads, with fewer reads a second";
  if (facts.io_uring_error == ENOSYS && !facts.has_seccomp_filter) {
    finding.value = absl::StrCat("Linux ", facts.kernel, " has none", kCost);
    finding.remedy = "use Linux 5.19 or newer";
  } else if (facts.io_uring_disabled == 2) {
    finding.value = absl::StrCat("forbidden to all users", kCost);
    finding.remedy = "sysctl -w kernel.io_uring_disabled=0";
  } else if (facts.io_uring_disabled == 1 && facts.io_uring_error == EPERM) {
    finding.value = absl::StrCat("forbidden to this user", kCost);
    finding.remedy =
        "sysctl -w kernel.io_uring_group=GID of a group of the daemon's user, "
        "or kernel.io_uring_disabled=0";
  } else if (facts.has_seccomp_filter) {
    finding.value =
        absl::StrCat("forbidden by a seccomp filter (",
                     std::strerror(facts.io_uring_error), ")", kCost);
    finding.remedy =
        "start the container with --security-opt "
        "seccomp=deploy/docker/seccomp.json";
  } else if (facts.io_uring_error == ENOMEM) {
    finding.value = absl::StrCat("not enough memory may be locked", kCost);
    finding.remedy =
        "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit";
  } else {
    finding.value = absl::StrCat(std::strerror(facts.io_uring_error), kCost);
  }
  return finding;
}

std::string Bytes(uint64_t bytes) {
  return bytes == UINT64_MAX ? "unlimited" : FormatByteSize(bytes);
}

// The hard limit counts: hearthd raises its soft limit to it.
Finding CheckOpenFiles(const MachineFacts& facts, const std::string& whose) {
  const uint64_t limit = facts.open_files.hard;
  Finding finding = {
      .check = "open files",
      .value = absl::StrCat(
          whose, " may have ",
          limit == UINT64_MAX ? "any number" : absl::StrCat(limit))};
  if (limit >= kEnoughFiles) return finding;
  finding.severity = limit < kFewFiles ? Severity::kProblem : Severity::kNote;
  finding.remedy = "ulimit -Hn 65536, or LimitNOFILE=65536 in the unit";
  return finding;
}

Finding CheckLockedMemory(const MachineFacts& facts, const std::string& whose) {
  const uint64_t limit = facts.locked_memory.soft;
  Finding finding = {.check = "locked memory",
                     .value = absl::StrCat(whose, " may lock ", Bytes(limit))};
  if (facts.may_lock_any) {
    finding.value = absl::StrCat(whose, " may lock all memory");
    return finding;
  }
  if (limit >= kEnoughLocked) return finding;
  finding.severity = Severity::kNote;
  absl::StrAppend(&finding.value,
                  ": memory of reads may not be registered, which costs some "
                  "processor time");
  if (limit < kEnoughForRings) {
    absl::StrAppend(
        &finding.value, "; io_uring has room for about ",
        limit / kRingEntryBytes,
        " reads at once, of all its user's processes: jobs with more "
        "(--io-depth "
        "times threads; gids: a thousand) get fewer at once, or threads that "
        "read, with fewer reads a second");
  }
  finding.remedy =
      "ulimit -l unlimited, LimitMEMLOCK=infinity in the unit, or docker run "
      "--ulimit memlock=-1";
  return finding;
}

Finding CheckMemory(const MachineFacts& facts) {
  Finding finding = {.check = "memory"};
  if (facts.memory_bytes == 0) {
    finding.severity = Severity::kNote;
    finding.value = "not known";
    return finding;
  }
  finding.value = absl::StrCat(Bytes(facts.memory_bytes), ", ",
                               Bytes(facts.memory_available_bytes), " free");
  if (facts.memory_capacity_bytes < facts.memory_bytes) {
    absl::StrAppend(&finding.value, "; the container's limit is ",
                    Bytes(facts.memory_capacity_bytes));
  }
  if (facts.memory_capacity_bytes < kLittleMemory) {
    finding.severity = Severity::kNote;
    finding.remedy = "give the machine or the container 2 GiB or more";
  } else if (facts.memory_available_bytes < facts.memory_bytes / 10) {
    finding.severity = Severity::kNote;
    finding.remedy =
        "other programs hold most of it: jobs wait, unless hearthd "
        "--memory-limit is lowered to the free memory";
  }
  return finding;
}

Finding CheckProcessor(const MachineFacts& facts) {
  Finding finding = {.check = "processor"};
  std::vector<std::string> found;
  for (const char* feature :
       {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve", "bf16"}) {
    if (facts.cpu_features.contains(feature)) found.push_back(feature);
  }
  finding.value =
      found.empty() ? "neither avx2 nor asimd" : absl::StrJoin(found, ", ");
  if (!facts.cpu_features.contains("avx2") &&
      !facts.cpu_features.contains("asimd")) {
    finding.severity = Severity::kNote;
    finding.remedy =
        "training is several times slower: use another processor, or let the "
        "virtual machine have the host's (-cpu host)";
  }
  return finding;
}

// Oldest driver that LibTorch for GPUs works with.
constexpr int kLeastDriver = 580;

// Whether a version such as "535.1" is known to be older than kLeastDriver.
bool IsOldDriver(const std::string& version) {
  int major = 0;
  return absl::SimpleAtoi(version.substr(0, version.find('.')), &major) &&
         major < kLeastDriver;
}

Finding CheckGpu(const MachineFacts& facts) {
  Finding finding = {.check = "gpu"};
  if (facts.gpu_driver.empty()) {
    finding.value = "no driver; jobs use the processor";
    return finding;
  }
  finding.value = absl::StrCat("driver ", facts.gpu_driver);
  if (!facts.has_gpu_device) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, ", but no device /dev/nvidia0");
    finding.remedy =
        "docker run --gpus all, or DeviceAllow=/dev/nvidia0 rw and "
        "PrivateDevices=no in the unit";
  } else if (IsOldDriver(facts.gpu_driver)) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, ", on which no model is trained");
    finding.remedy =
        absl::StrCat("install a driver of version ", kLeastDriver, " or later");
  }
  return finding;
}

Finding CheckPermissions(const FolderFacts& facts, uid_t user) {
  Finding finding = {.check = "data directory", .value = facts.path};
  if (!facts.exists) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, " is not there; hearthd makes it");
  } else if (!facts.is_folder) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value, " is not a folder");
    finding.remedy = "hearthd --data-dir DIR";
  } else if (facts.owner != user) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value, " belongs to user ", facts.owner,
                    ", not to ", user);
    finding.remedy = absl::StrCat("chown -R ", user, " ", facts.path);
  } else if ((facts.mode & 0067) != 0) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value, " has mode ",
                    absl::StrFormat("%04o", facts.mode),
                    ": others may read or change it");
    finding.remedy = absl::StrCat("chmod 0700 ", facts.path);
  } else {
    absl::StrAppend(&finding.value, ", mode ",
                    absl::StrFormat("%04o", facts.mode));
  }
  return finding;
}

Finding CheckFileSystem(const FolderFacts& facts) {
  Finding finding = {.check = "file system", .value = facts.file_system};
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::find(names.begin(), names.end(), facts.file_system) !=
           names.end();
  };
  if (is({"nfs", "cifs", "9p", "lustre", "ceph", "fuse"})) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value,
                    ": on the network, or another program's; neither the "
                    "daemon's lock nor its speed can be relied on");
    finding.remedy = "hearthd --data-dir DIR, on a disk of this machine";
  } else if (is({"tmpfs"})) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, ": memory, which a restart empties");
    finding.remedy = "hearthd --data-dir DIR, on a disk";
  } else if (is({"overlay"})) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, ": the container's, which goes with it");
    finding.remedy = "docker run -v /nvme/hearth:/var/lib/hearth";
  } else if (facts.file_system.empty()) {
    finding.severity = Severity::kNote;
    finding.value = "not known";
  }
  return finding;
}

Finding CheckSpace(const FolderFacts& facts) {
  Finding finding = {.check = "free space",
                     .value = absl::StrCat(Bytes(facts.free_bytes), " of ",
                                           Bytes(facts.total_bytes))};
  if (facts.free_bytes < kNoSpace) {
    finding.severity = Severity::kProblem;
  } else if (static_cast<double>(facts.free_bytes) <
             kLittleSpace * static_cast<double>(facts.total_bytes)) {
    finding.severity = Severity::kNote;
  }
  if (finding.severity != Severity::kOk) {
    finding.remedy =
        "hearth plan delete, hearth job delete, hearth dataset delete; or "
        "hearthd --plan-space";
  }
  return finding;
}

Finding CheckReadAhead(const FolderFacts& facts) {
  Finding finding = {.check = "disk"};
  if (!facts.read_ahead_kib.has_value()) {
    finding.severity = Severity::kNote;
    finding.value = "which it is, the system does not tell";
    return finding;
  }
  finding.value =
      absl::StrCat(facts.disk, ", read-ahead ", *facts.read_ahead_kib, " KiB");
  if (facts.rotates.value_or(false)) {
    // Virtual disks say so, too, whatever is behind them.
    absl::StrAppend(&finding.value, ", says that it rotates");
  }
  if (*facts.read_ahead_kib > kMuchReadAheadKib) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value,
                    ": --strategy mmap reads far more than it needs");
    finding.remedy = absl::StrCat("blockdev --setra 256 /dev/", facts.disk);
  }
  return finding;
}

Finding CheckSkew(const DaemonAnswer& answer) {
  Finding finding = {.check = "daemon's clock"};
  const absl::Time theirs =
      absl::FromUnixSeconds(answer.status.time().seconds()) +
      absl::Nanoseconds(answer.status.time().nanos());
  if (!answer.status.has_time()) {
    finding.severity = Severity::kNote;
    finding.value = "not told by a daemon of this version";
    return finding;
  }
  // The daemon read its clock between the question and the answer.
  absl::Duration skew = absl::ZeroDuration();
  if (theirs < answer.asked) skew = theirs - answer.asked;
  if (theirs > answer.answered) skew = theirs - answer.answered;
  const absl::Duration size = absl::AbsDuration(skew);
  if (size < kSkewNote) {
    finding.value = "the same as here";
    return finding;
  }
  finding.severity = size < kSkewProblem ? Severity::kNote : Severity::kProblem;
  finding.value =
      absl::StrCat(absl::FormatDuration(absl::Trunc(size, absl::Seconds(1))),
                   skew > absl::ZeroDuration() ? " ahead" : " behind",
                   ": certificates and tokens expire by it");
  finding.remedy = "timedatectl set-ntp true, on both machines";
  return finding;
}

Finding CheckDaemonsGpu(const v1::Status& status, const MachineFacts& facts) {
  Finding finding = {.check = "daemon's devices",
                     .value = absl::StrJoin(status.devices(), ", ")};
  const bool has_gpu =
      std::any_of(status.devices().begin(), status.devices().end(),
                  [](const std::string& device) {
                    return absl::StartsWith(device, "cuda");
                  });
  if (!has_gpu && !facts.gpu_driver.empty() && facts.has_gpu_device) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, ", though there is a GPU");
    finding.remedy =
        "put libhearth_cuda.so into the folder of hearthd, or set "
        "HEARTH_CUDA_PLUGIN to its path; the daemon's log tells why it is not "
        "used";
  } else if (has_gpu && absl::StrContains(finding.value, "rows only")) {
    finding.severity = Severity::kNote;
    finding.remedy =
        "for --device cuda, name libtorch_cuda.so by HEARTH_TORCH_CUDA, as "
        "deploy/quickstart.sh does; the daemon's log tells why it does not use "
        "it";
  }
  return finding;
}

}  // namespace

std::vector<Finding> CheckMachine(const MachineFacts& facts,
                                  const std::string& whose) {
  return {CheckIoUring(facts),
          CheckOpenFiles(facts, whose),
          CheckLockedMemory(facts, whose),
          CheckMemory(facts),
          CheckProcessor(facts),
          CheckGpu(facts)};
}

std::vector<Finding> CheckFolder(const FolderFacts& facts, uid_t user) {
  return {CheckPermissions(facts, user), CheckFileSystem(facts),
          CheckSpace(facts), CheckReadAhead(facts)};
}

Finding CheckSocket(const SocketFacts& facts, bool is_served) {
  Finding finding = {.check = "socket", .value = facts.path};
  if (!facts.exists) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, " is not there: no daemon runs on it");
    finding.remedy = "hearthd --data-dir DIR";
  } else if (!facts.is_socket) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value, " is no socket");
    finding.remedy = absl::StrCat("rm ", facts.path, ", and start hearthd");
  } else if ((facts.mode & 0007) != 0) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value, " has mode ",
                    absl::StrFormat("%04o", facts.mode),
                    ": anyone may use the daemon");
    finding.remedy =
        "restart hearthd, which gives it mode 0600, or 0660 with "
        "--socket-group";
  } else if (!facts.is_open_to_us) {
    finding.severity = Severity::kProblem;
    absl::StrAppend(&finding.value, " is not open to this user");
    finding.remedy =
        (facts.mode & 0060) == 0060
            ? absl::StrCat("usermod -aG ", facts.group, " USER")
            : "hearthd --socket-group GROUP, with a group of this user";
  } else if (!is_served) {
    finding.severity = Severity::kNote;
    absl::StrAppend(&finding.value, ": no daemon answers by it");
    finding.remedy = "hearthd --data-dir DIR";
  } else {
    absl::StrAppend(&finding.value, ", mode ",
                    absl::StrFormat("%04o", facts.mode));
  }
  return finding;
}

std::vector<Finding> CheckDisk(const absl::StatusOr<DiskSpeed>& speed) {
  if (!speed.ok()) {
    const bool fails =
        absl::IsUnavailable(speed.status()) || absl::IsDataLoss(speed.status());
    return {{.severity = fails ? Severity::kProblem : Severity::kNote,
             .check = "disk speed",
             .value = absl::StrCat("not measured: ",
                                   std::string(speed.status().message())),
             .remedy = fails ? "look at dmesg: the disk fails" : ""}};
  }
  Finding random = {.check = "random reads",
                    .value = absl::StrFormat("%.0f a second of 4 KiB",
                                             speed->reads_per_second)};
  Finding scan = {
      .check = "sequential reads",
      .value = absl::StrFormat("%.2f GB/s", speed->bytes_per_second / 1e9)};
  if (!speed->is_direct) {
    random.severity = Severity::kNote;
    absl::StrAppend(
        &random.value,
        ", through the page cache: the file system has no O_DIRECT");
    random.remedy = "hearthd --data-dir DIR, on ext4 or xfs";
  } else if (speed->reads_per_second < kFewReads) {
    random.severity = Severity::kNote;
    random.remedy =
        "a local NVMe disk gives many times as many; --strategy diskgnn needs "
        "the fewest";
  }
  if (speed->bytes_per_second < kSlowScan) {
    scan.severity = Severity::kNote;
    scan.remedy = "use a local NVMe disk";
  }
  return {random, scan};
}

Finding CheckClock(const MachineFacts& facts, const ClockReadings& readings) {
  const double step =
      absl::ToDoubleSeconds(readings.last_wall - readings.first_wall) -
      (readings.last_steady - readings.first_steady);
  Finding finding = {.check = "clock"};
  if (std::abs(step) > kStepSeconds) {
    finding.severity = Severity::kProblem;
    finding.value =
        absl::StrFormat("the wall clock was set by %+.1f s meanwhile", step);
    finding.remedy =
        "one program alone should keep it: timedatectl set-ntp true";
  } else if (facts.clock_is_synchronized == false) {
    finding.severity = Severity::kNote;
    finding.value = "steady, but the kernel does not know that it is right";
    finding.remedy = "timedatectl set-ntp true";
  } else {
    finding.value = facts.clock_is_synchronized.has_value()
                        ? "steady, synchronized"
                        : "steady";
  }
  return finding;
}

std::vector<Finding> CheckDaemon(const DaemonAnswer& answer,
                                 const MachineFacts* facts) {
  const v1::Status& status = answer.status;
  std::vector<Finding> findings;
  Finding version = {.check = "versions",
                     .value = absl::StrCat("hearth ", kVersion, ", hearthd ",
                                           status.version())};
  if (status.version() != kVersion) {
    version.severity = CheckVersions(kVersion, status.version()).ok()
                           ? Severity::kNote
                           : Severity::kProblem;
    version.remedy = "install the same version of both";
  }
  findings.push_back(version);
  findings.push_back(CheckSkew(answer));
  Finding reads = {.check = "daemon reads by", .value = status.read_queues()};
  if (status.read_queues() != "io_uring") {
    reads.severity = Severity::kNote;
    reads.remedy = "see io_uring; the daemon looks once, at its start";
  }
  findings.push_back(reads);
  if (facts != nullptr) {
    findings.push_back(CheckDaemonsGpu(status, *facts));
    Finding limit = {
        .check = "memory of jobs",
        .value = absl::StrCat("at most ", Bytes(status.memory_limit_bytes()))};
    if (status.memory_limit_bytes() > facts->memory_capacity_bytes) {
      limit.severity = Severity::kProblem;
      absl::StrAppend(&limit.value, ", more than there is (",
                      Bytes(facts->memory_capacity_bytes), ")");
      limit.remedy = "hearthd --memory-limit SIZE";
    }
    findings.push_back(limit);
  }
  if (status.draining()) {
    findings.push_back({.severity = Severity::kNote,
                        .check = "drain",
                        .value = "the daemon takes no new jobs",
                        .remedy = "hearth admin drain --off"});
  }
  for (const std::string& warning : status.warnings()) {
    findings.push_back({.severity = Severity::kNote,
                        .check = "daemon warns",
                        .value = warning,
                        .remedy = ""});
  }
  return findings;
}

}  // namespace hearth::doctor
