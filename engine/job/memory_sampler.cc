#include "engine/job/memory_sampler.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "engine/base/process_memory.h"

namespace hearth::job {
namespace {

class MemorySamplerImpl final : public MemorySampler {
 public:
  MemorySamplerImpl()
      : thread_([this](std::stop_token stop) { Sample(std::move(stop)); }) {}

  uint64_t PeakBytes() override {
    const uint64_t now = ReadProcessMemory().total_bytes();
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

}  // namespace hearth::job
