#include "engine/job/memory_sampler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

namespace hearth::job {
namespace {

// Sum of the numbers after the given keys in a "/proc" file of "key: number"
// lines.
uint64_t SumOfKeys(const char* path, std::initializer_list<const char*> keys) {
  std::ifstream file(path);
  uint64_t sum = 0;
  std::string line;
  while (std::getline(file, line)) {
    for (const char* key : keys) {
      if (line.rfind(key, 0) == 0) {
        sum += std::stoull(line.substr(std::char_traits<char>::length(key)));
      }
    }
  }
  return sum;
}

class MemorySamplerImpl final : public MemorySampler {
 public:
  MemorySamplerImpl()
      : thread_([this](std::stop_token stop) { Sample(std::move(stop)); }) {}

  uint64_t PeakBytes() override {
    const uint64_t now = ProcessMemoryBytes();
    std::lock_guard lock(mutex_);
    return peak_ = std::max(peak_, now);
  }

 private:
  static constexpr std::chrono::milliseconds kPeriod{50};

  void Sample(std::stop_token stop) {
    while (!stop.stop_requested()) {
      PeakBytes();
      std::unique_lock lock(mutex_);
      tick_.wait_for(lock, stop, kPeriod, [] { return false; });
    }
  }

  std::mutex mutex_;
  std::condition_variable_any tick_;
  uint64_t peak_ = 0;    // Guarded by mutex_.
  std::jthread thread_;  // Last: stops before the rest goes.
};

}  // namespace

std::unique_ptr<MemorySampler> NewMemorySampler() {
  return std::make_unique<MemorySamplerImpl>();
}

uint64_t ProcessMemoryBytes() {
  return SumOfKeys("/proc/self/status", {"RssAnon:", "RssShmem:"}) * 1024;
}

uint64_t ProcessReadBytes() {
  return SumOfKeys("/proc/self/io", {"read_bytes:"});
}

uint64_t AvailableMemoryBytes() {
  return SumOfKeys("/proc/meminfo", {"MemAvailable:"}) * 1024;
}

}  // namespace hearth::job
