#ifndef HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_
#define HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/store/topology.h"

namespace hearth::plan {

/// The rows that a sequence of batches will need, from which a plan is made. It
/// is walked more than once, batch after batch, so that it can stay on disk.
/// Single-owner.
class AccessTrace {
 public:
  virtual ~AccessTrace() = default;

  virtual int64_t num_batches() const = 0;

  /// The distinct nodes of batch `batch`, the same at every call. Valid until
  /// the next call.
  virtual absl::StatusOr<absl::Span<const store::NodeId>> Load(
      int64_t batch) = 0;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_ACCESS_TRACE_H_
