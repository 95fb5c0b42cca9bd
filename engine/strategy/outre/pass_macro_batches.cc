#include "engine/strategy/outre/pass_macro_batches.h"

#include <algorithm>

namespace hearth::strategy {

PassMacroBatches::PassMacroBatches(const Pass& pass)
    : batch_size_(pass.batch_size),
      all_(pass.order->MacroBatches(pass.epoch_key)) {
  int64_t end = 0;
  for (const sample::MacroBatch& macro_batch : all_) {
    end += macro_batch.num_seeds;
    ends_.push_back(end);
  }
}

int64_t PassMacroBatches::num_batches() const {
  return all_.empty() ? 0 : NumBatches(ends_.back(), batch_size_);
}

MacroBatchRange PassMacroBatches::Of(int64_t batch) const {
  if (all_.empty()) return {};
  const int64_t first_seed = batch * batch_size_;
  const int64_t last_seed =
      std::min(first_seed + batch_size_, ends_.back()) - 1;
  const auto holding = [&](int64_t seed) {
    return std::upper_bound(ends_.begin(), ends_.end(), seed) - ends_.begin();
  };
  return {.first = holding(first_seed), .end = holding(last_seed) + 1};
}

}  // namespace hearth::strategy
