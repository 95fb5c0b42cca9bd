#include "engine/base/process.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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

// The number in a file that holds nothing else ("max" is none).
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t limit = 0;
  return file >> limit ? limit : UINT64_MAX;
}

// The lowest limit of a cgroup and those above it.
uint64_t LowestLimit(const std::string& root, std::string group,
                     const char* name) {
  uint64_t lowest = UINT64_MAX;
  for (;;) {
    lowest = std::min(lowest, LimitIn(absl::StrCat(root, group, "/", name)));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return lowest;
    group.resize(slash);
  }
}

}  // namespace

uint64_t CgroupMemoryLimit(absl::string_view text, const std::string& mount) {
  uint64_t lowest = UINT64_MAX;
  // Lines of "number:controllers:path"; version 2 has number 0 and none.
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (parts[0] == "0" && parts[1].empty()) {
      lowest = std::min(lowest, LowestLimit(mount, parts[2], "memory.max"));
    } else if (std::find(controllers.begin(), controllers.end(), "memory") !=
               controllers.end()) {
      lowest = std::min(lowest, LowestLimit(absl::StrCat(mount, "/memory"),
                                            parts[2], "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

uint64_t MemoryCapacityBytes() {
  std::ifstream file("/proc/self/cgroup");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::min(NumberOf("/proc/meminfo", "MemTotal:") * 1024,
                  CgroupMemoryLimit(text, "/sys/fs/cgroup"));
}

uint64_t ProcessReadBytes() { return NumberOf("/proc/self/io", "read_bytes:"); }

uint64_t AvailableMemoryBytes() {
  return NumberOf("/proc/meminfo", "MemAvailable:") * 1024;
}

}  // namespace hearth
