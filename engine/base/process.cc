#include "engine/base/process.h"

#include <fstream>
#include <string>

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

}  // namespace

uint64_t ProcessReadBytes() { return NumberOf("/proc/self/io", "read_bytes:"); }

uint64_t AvailableMemoryBytes() {
  return NumberOf("/proc/meminfo", "MemAvailable:") * 1024;
}

}  // namespace hearth
