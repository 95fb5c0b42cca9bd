#include "engine/strategy/sampled_batch.h"

#include "engine/base/status_macros.h"

namespace hearth::strategy {

absl::StatusOr<float*> SampledBatch::TakeInputs(int64_t feature_dim,
                                                BufferPool& pool) {
  feature_dim_ = feature_dim;
  inputs_ = pool.Take();
  HEARTH_RETURN_IF_ERROR(inputs_.buffer().Resize(
      static_cast<uint64_t>(num_rows()) * static_cast<uint64_t>(feature_dim) *
      sizeof(float)));
  return reinterpret_cast<float*>(inputs_.buffer().data());
}

train::BatchView SampledBatch::view() const {
  return {.sample = sample_,
          .inputs = reinterpret_cast<const float*>(inputs_.buffer().data()),
          .feature_dim = feature_dim_,
          .labels = labels_.view(),
          .top_rows = {},
          .device_rows = device_rows_};
}

}  // namespace hearth::strategy
