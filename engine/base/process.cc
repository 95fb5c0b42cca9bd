#include "engine/base/process.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hearth {

namespace {

// The number after `key` in a file of "key: number" lines; 0 without it.
uint64_t NumberOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with(key)) return std::stoull(line.substr(key.size()));
  }
  return 0;
}

// The number that is the only text of a file; UINT64_MAX for "max".
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t limit = 0;
  return file >> limit ? limit : UINT64_MAX;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Processors that a time quota per period keeps busy; infinity without a quota
// or period.
double ProcessorsOf(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : kInfinity;
}

// Quota of a cgroup v2, whose cpu.max reads "QUOTA PERIOD" or "max PERIOD".
double ProcessorsOfV2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0;
  double period = 0;
  file >> quota >> period;
  return ProcessorsOf(quota, period);
}

// Quota of a cgroup v1, where -1 means no quota.
double ProcessorsOfV1(const std::string& folder) {
  double quota = 0;
  double period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return ProcessorsOf(quota, period);
}

// The lowest limit among a cgroup and its ancestors.
template <typename LimitOf>
auto LowestOnTheWayUp(const std::string& root, std::string group,
                      const LimitOf& limit_of) {
  auto lowest = limit_of(root + group);
  for (size_t slash = group.rfind('/'); slash != std::string::npos;
       slash = group.rfind('/')) {
    group.resize(slash);
    lowest = std::min(lowest, limit_of(root + group));
  }
  return lowest;
}

// The lowest limit of the cgroups that `text` names, with their ancestors.
// `of_v2` and `of_v1` read the limit of a cgroup's folder: of_v2 for version 2,
// of_v1 for `controller` of version 1. `none` without a limit.
template <typename Limit, typename OfV2, typename OfV1>
Limit LowestLimit(absl::string_view text, const std::string& mount,
                  absl::string_view controller, Limit none, const OfV2& of_v2,
                  const OfV1& of_v1) {
  Limit lowest = none;
  // Lines of "number:controllers:path"; version 2 has number 0 and none.
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(parts[1], ',');
    if (parts[0] == "0" && parts[1].empty()) {
      lowest = std::min(lowest, LowestOnTheWayUp(mount, parts[2], of_v2));
    } else if (std::find(controllers.begin(), controllers.end(), controller) !=
               controllers.end()) {
      lowest = std::min(lowest,
                        LowestOnTheWayUp(absl::StrCat(mount, "/", controller),
                                         parts[2], of_v1));
    }
  }
  return lowest;
}

std::string OwnCgroups() {
  std::ifstream file("/proc/self/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr char kMount[] = "/sys/fs/cgroup";

// Bytes of a line such as "RssAnon:\t    1234 kB"; 0 if it is another line.
uint64_t LineBytes(absl::string_view line, absl::string_view name) {
  uint64_t kibibytes = 0;
  if (!absl::ConsumePrefix(&line, name) || !absl::ConsumePrefix(&line, ":") ||
      !absl::ConsumeSuffix(&line, " kB") ||
      !absl::SimpleAtoi(line, &kibibytes)) {
    return 0;
  }
  return kibibytes * 1024;
}

}  // namespace

uint64_t CgroupMemoryLimit(absl::string_view text, const std::string& mount) {
  return LowestLimit(
      text, mount, "memory", UINT64_MAX,
      [](const std::string& folder) { return LimitIn(folder + "/memory.max"); },
      [](const std::string& folder) {
        return LimitIn(folder + "/memory.limit_in_bytes");
      });
}

uint64_t MemoryCapacityBytes() {
  return std::min(NumberOf("/proc/meminfo", "MemTotal:") * 1024,
                  CgroupMemoryLimit(OwnCgroups(), kMount));
}

double CgroupProcessorLimit(absl::string_view text, const std::string& mount) {
  return LowestLimit(text, mount, "cpu", kInfinity, ProcessorsOfV2,
                     ProcessorsOfV1);
}

void RaiseNice(int steps) {
  const auto thread = static_cast<id_t>(gettid());
  errno = 0;
  const int nice = getpriority(PRIO_PROCESS, thread);
  if (nice == -1 && errno != 0) return;
  setpriority(PRIO_PROCESS, thread, nice + steps);
}

int UsableProcessors() {
  const double there = std::thread::hardware_concurrency();
  const double allowed = CgroupProcessorLimit(OwnCgroups(), kMount);
  return std::max(1, static_cast<int>(std::ceil(std::min(there, allowed))));
}

uint64_t ProcessReadBytes() { return NumberOf("/proc/self/io", "read_bytes:"); }

uint64_t AvailableMemoryBytes() {
  return NumberOf("/proc/meminfo", "MemAvailable:") * 1024;
}

ProcessMemory ParseProcessStatus(absl::string_view status) {
  ProcessMemory memory;
  for (const absl::string_view line : absl::StrSplit(status, '\n')) {
    memory.anonymous_bytes += LineBytes(line, "RssAnon");
    memory.shared_bytes += LineBytes(line, "RssShmem");
  }
  return memory;
}

ProcessMemory ReadProcessMemory() {
  std::ifstream file("/proc/self/status");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return ParseProcessStatus(text);
}

// By default glibc gives threads heaps of their own, up to eight a core.
// malloc_trim leaves the free end of each such heap alone, up to 64 MiB once a
// large block was freed: after twelve training jobs a daemon held 528 MiB, with
// one heap 284 MiB. One heap has one lock, which costs nothing that could be
// measured on two cores: training an epoch took 1.007 of the processor time
// (the same program again: 1.014) and 0.84 of the page faults, sampling alone
// 0.98 and 0.61.
void ShareOneHeap() { mallopt(M_ARENA_MAX, 1); }

void ReleaseFreePages() { malloc_trim(0); }

std::string LibraryPath(const char* variable, absl::string_view name) {
  const char* named = std::getenv(variable);
  if (named != nullptr && *named != '\0') return named;
  char binary[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", binary, sizeof(binary));
  if (length <= 0) return std::string(name);
  const absl::string_view path(binary, static_cast<size_t>(length));
  return absl::StrCat(path.substr(0, path.rfind('/') + 1), name);
}

std::string LinkerError() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "cannot be loaded";
}

}  // namespace hearth
