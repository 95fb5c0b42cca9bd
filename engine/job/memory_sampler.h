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

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MEMORY_SAMPLER_H_
