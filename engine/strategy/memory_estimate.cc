#include "engine/strategy/memory_estimate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/store/dtype.h"

namespace hearth::strategy {
namespace {

uint64_t Times(uint64_t bytes, int count) {
  return bytes * static_cast<uint64_t>(count);
}

}  // namespace

void MemoryEstimate::Add(std::string owner, uint64_t bytes, bool kept) {
  shares.push_back({.owner = std::move(owner), .bytes = bytes, .kept = kept});
}

uint64_t MemoryEstimate::TotalBytes() const {
  uint64_t total = 0;
  for (const MemoryShare& share : shares) total += share.bytes;
  return total;
}

std::string FormatShares(const MemoryEstimate& estimate) {
  std::vector<MemoryShare> shares = estimate.shares;
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  for (const MemoryShare& share : shares) {
    if (share.bytes == 0) break;
    absl::StrAppend(&text, text.empty() ? "" : ", ", share.owner, " ",
                    FormatByteSize(share.bytes));
  }
  return text;
}

int64_t MemoryBasis::row_bytes() const {
  return feature_dim() * store::SizeOf(nodes().features.dtype);
}

void AddBatches(const MemoryBasis& basis, const BatchCounts& counts,
                MemoryEstimate& estimate) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  const auto rows = static_cast<uint64_t>(largest.num_inputs());
  // A buffer may be an eighth larger than its batch (cache::AlignedBuffer).
  const uint64_t inputs =
      rows * static_cast<uint64_t>(basis.feature_dim()) * sizeof(float);
  estimate.Add("labels", basis.nodes().labels.file_size_bytes, /*kept=*/true);
  estimate.Add("samplers", Times(largest.SamplerBytes(), counts.samplers));
  estimate.Add("batches", Times(largest.MemoryBytes(), counts.sampled) +
                              Times(inputs + inputs / 8, counts.assembled));
}

}  // namespace hearth::strategy
