#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_ENCODED_SAMPLES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_ENCODED_SAMPLES_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace hearth::strategy {

/// The graph samples of a trace's batches as bytes (EncodeBatch), to be put
/// into their chunks.
class EncodedSamples {
 public:
  virtual ~EncodedSamples() = default;

  /// [num_batches] bytes of each.
  virtual absl::Span<const uint64_t> sizes() const = 0;

  /// Fills `out`, which has the size of batch `batch`. Thread-safe.
  virtual absl::Status Read(int64_t batch, absl::Span<std::byte> out) = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_ENCODED_SAMPLES_H_
