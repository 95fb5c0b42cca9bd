#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_DECODE_TIMER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_DECODE_TIMER_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/sample/mini_batch.h"
#include "engine/strategy/diskgnn/layout/batch_code.h"

namespace hearth::strategy {

/// How long a graph loader takes to decode the graph samples of some batches.
class DecodeTimer {
 public:
  /// Batches that are enough to tell.
  static constexpr int64_t kBatches = 8;

  explicit DecodeTimer(const Clock& clock) : clock_(clock) {}

  /// Errors as DecodeBatch.
  absl::Status Add(absl::Span<const std::byte> encoded,
                   const sample::BatchKey& key) {
    const double start = clock_.SteadySeconds();
    HEARTH_RETURN_IF_ERROR(DecodeBatch(encoded, key).status());
    seconds_ += clock_.SteadySeconds() - start;
    bytes_ += static_cast<double>(encoded.size());
    return absl::OkStatus();
  }

  /// Seconds per byte that was added; 0 before that.
  double seconds_per_byte() const { return bytes_ > 0 ? seconds_ / bytes_ : 0; }

 private:
  const Clock& clock_;
  double seconds_ = 0;
  double bytes_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_DECODE_TIMER_H_
