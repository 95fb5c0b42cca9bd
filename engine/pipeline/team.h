#ifndef HEARTH_ENGINE_PIPELINE_TEAM_H_
#define HEARTH_ENGINE_PIPELINE_TEAM_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace hearth::pipeline {

/// Threads that do one piece of work together, for a stage of one thread whose
/// items are large. Belongs to that thread. Generic: knows no item.
class Team {
 public:
  /// With so many threads, the caller's included, at least one. The others wait
  /// until there is work. RESOURCE_EXHAUSTED if the system gives no thread.
  static absl::StatusOr<std::unique_ptr<Team>> Create(int threads);

  /// Ends its threads.
  virtual ~Team() = default;

  /// Calls work(0) .. work(parts - 1), each once, by any of the threads and in
  /// any order. Returns when all have returned; what they wrote is seen then.
  /// REQUIRES: `work` throws nothing.
  virtual void Run(int64_t parts,
                   absl::FunctionRef<void(int64_t part)> work) = 0;

  /// The same for 0 .. count - 1 in parts of up to `part` numbers: calls
  /// work(first, count of them).
  void RunRanges(int64_t count, int64_t part,
                 absl::FunctionRef<void(int64_t first, int64_t count)> work);
};

}  // namespace hearth::pipeline

#endif  // HEARTH_ENGINE_PIPELINE_TEAM_H_
