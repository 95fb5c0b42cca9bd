#include "engine/sample/cache_split.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace hearth::sample {
namespace {

constexpr int kShares = 100;

// The sums of the largest values, up to any number of them.
class LargestSums {
 public:
  explicit LargestSums(std::vector<float> values) : values_(std::move(values)) {
    std::sort(values_.begin(), values_.end(), std::greater<>());
  }

  // The sum of the `count` largest. REQUIRES: not fewer than the last time.
  double Of(int64_t count) {
    const auto end = std::min(static_cast<size_t>(count), values_.size());
    for (; added_ < end; ++added_) sum_ += double{values_[added_]};
    return sum_;
  }

 private:
  std::vector<float> values_;
  size_t added_ = 0;
  double sum_ = 0;
};

std::vector<float> SavedByHistories(const EpochProfile& profile, double beta) {
  std::vector<float> saved(static_cast<size_t>(profile.num_nodes()));
  for (size_t node = 0; node < saved.size(); ++node) {
    saved[node] = static_cast<float>(
        profile.SavedByHistory(static_cast<store::NodeId>(node), beta));
  }
  return saved;
}

CacheSplit SplitAt(double share, int64_t num_nodes, const SharedCache& cache) {
  CacheSplit split;
  split.share = share;
  split.embedding_bytes =
      std::min(cache.bytes,
               static_cast<uint64_t>(static_cast<double>(cache.bytes) * share));
  split.row_bytes = cache.bytes - split.embedding_bytes;
  split.embeddings = std::clamp<int64_t>(
      cache.embeddings_within(split.embedding_bytes), 0, num_nodes);
  return split;
}

}  // namespace

CacheSplit SplitCache(const EpochProfile& profile, double beta,
                      const SharedCache& cache, std::optional<double> share) {
  const int64_t nodes = profile.num_nodes();
  std::vector<CacheSplit> splits;
  if (share.has_value()) {
    splits.push_back(SplitAt(*share, nodes, cache));
  } else {
    for (int i = 0; i <= kShares; ++i) {
      splits.push_back(SplitAt(static_cast<double>(i) / kShares, nodes, cache));
    }
  }
  // Sums are taken from few values to many: embeddings as shares rise, rows as
  // they fall.
  {
    LargestSums embeddings(SavedByHistories(profile, beta));
    for (CacheSplit& split : splits) {
      split.saved_rows = embeddings.Of(split.embeddings);
    }
  }
  LargestSums rows(profile.features);
  for (auto split = splits.rbegin(); split != splits.rend(); ++split) {
    split->saved_rows +=
        rows.Of(std::max<int64_t>(cache.rows_within(split->row_bytes), 0));
  }
  return *std::max_element(splits.begin(), splits.end(),
                           [](const CacheSplit& a, const CacheSplit& b) {
                             return a.saved_rows < b.saved_rows;
                           });
}

}  // namespace hearth::sample
