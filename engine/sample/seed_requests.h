#ifndef HEARTH_ENGINE_SAMPLE_SEED_REQUESTS_H_
#define HEARTH_ENGINE_SAMPLE_SEED_REQUESTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/store/topology.h"

namespace hearth::sample {

/// Seeds of the batches of a pass that somebody asks for one by one, while the
/// pass runs. Thread-safe.
class SeedRequests {
 public:
  virtual ~SeedRequests() = default;

  /// Waits for the seeds of batch `number`; absent: the pass ends before it.
  /// Each number is asked for at most once, maybe by several threads at a time.
  virtual std::optional<std::vector<store::NodeId>> Await(int64_t number) = 0;

  /// Ends all waits, those to come included.
  virtual void Interrupt() = 0;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SEED_REQUESTS_H_
