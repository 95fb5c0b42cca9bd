#ifndef HEARTH_ENGINE_JOB_MEMORY_SAMPLER_H_
#define HEARTH_ENGINE_JOB_MEMORY_SAMPLER_H_

#include <cstdint>
#include <memory>

namespace hearth::job {

/// Samples the process's memory (RssAnon + RssShmem: what it owns; file pages
/// of mappings do not count) twenty times a second on a thread of its own, from
/// construction to destruction, and keeps the highest. Thread-safe.
class MemorySampler {
 public:
  virtual ~MemorySampler() = default;

  /// The highest so far, in bytes, the present moment included.
  virtual uint64_t PeakBytes() = 0;
};

std::unique_ptr<MemorySampler> NewMemorySampler();

/// RssAnon + RssShmem of this process now, in bytes; 0 where /proc is not.
uint64_t ProcessMemoryBytes();

/// Bytes that this process has made the kernel read from storage so far
/// (read_bytes of /proc/self/io); 0 where /proc is not.
uint64_t ProcessReadBytes();

/// MemAvailable of this machine, in bytes; 0 where /proc is not.
uint64_t AvailableMemoryBytes();

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_SAMPLER_H_
