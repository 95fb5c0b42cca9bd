#include "engine/base/process.h"

#include <fstream>
#include <initializer_list>
#include <string>

namespace hearth {
namespace {

// Sum of the numbers after the given keys in a file of "key: number" lines.
uint64_t SumOfKeys(const char* path, std::initializer_list<const char*> keys) {
  std::ifstream file(path);
  uint64_t sum = 0;
  std::string line;
  while (std::getline(file, line)) {
    for (const std::string key : keys) {
      if (line.starts_with(key)) sum += std::stoull(line.substr(key.size()));
    }
  }
  return sum;
}

}  // namespace

uint64_t ProcessMemoryBytes() {
  return SumOfKeys("/proc/self/status", {"RssAnon:", "RssShmem:"}) * 1024;
}

uint64_t ProcessReadBytes() {
  return SumOfKeys("/proc/self/io", {"read_bytes:"});
}

uint64_t AvailableMemoryBytes() {
  return SumOfKeys("/proc/meminfo", {"MemAvailable:"}) * 1024;
}

}  // namespace hearth
