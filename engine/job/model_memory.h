#ifndef HEARTH_ENGINE_JOB_MODEL_MEMORY_H_
#define HEARTH_ENGINE_JOB_MODEL_MEMORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/job/memory_ledger.h"

namespace hearth::job {

/// For an error about a model of these bytes (ModelMemory::Model): the numbers,
/// and what needs less.
std::string DescribeModel(uint64_t parameter_bytes, uint64_t kept_bytes);

/// The memory of models that are trained on the same batches, of which only
/// some make a step at a time: what each keeps between steps, and the largest
/// of the steps. The first model's memory is reserved with the strategy's; here
/// is what the others need beside it. Thread-compatible.
class ModelMemory {
 public:
  /// The memory of one model, in bytes.
  struct Model {
    /// In all, while it makes a step.
    uint64_t bytes = 0;
    /// The part of these that stays between steps.
    uint64_t kept_bytes = 0;
    /// The part of these that is one copy of the parameters.
    uint64_t parameter_bytes = 0;
  };

  /// At most `max_steps` models make a step at a time. `ledger` outlives this.
  ModelMemory(MemoryLedger& ledger, int max_steps)
      : ledger_(ledger), max_steps_(max_steps) {}
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  /// Adds the model of `owner`, with a reservation of what it needs more than
  /// is reserved. Errors as MemoryLedger::Reserve; then it is not added.
  absl::Status Add(const void* owner, const Model& model);

  /// Removes it, if it is there, and gives back what the others do not need.
  void Remove(const void* owner);

  /// The most bytes that were reserved at a time beside the first model's.
  uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  // Bytes that all of them need beside the first one's reservation.
  uint64_t NeededBytes() const;

  MemoryLedger& ledger_;
  const int max_steps_;
  // The bytes of the first one; reserved with the strategy as long as that is.
  uint64_t first_bytes_ = 0;
  std::map<const void*, Model> models_;
  std::vector<MemoryLedger::Reservation> reservations_;
  uint64_t reserved_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_MODEL_MEMORY_H_
