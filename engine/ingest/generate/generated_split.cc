#include "engine/ingest/generate/generated_split.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/ingest/generate/generator_key.h"
#include "engine/ingest/generate/node_permutation.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kNodesPerCount = 64 << 10;
constexpr size_t kNumParts = 3;

/// Places first .. last - 1 of the permutation.
struct PlaceRange {
  int64_t first = 0;
  int64_t last = 0;

  bool Contains(int64_t place) const { return place >= first && place < last; }
};

std::array<PlaceRange, kNumParts> MakeRanges(const GenerateOptions& options) {
  std::array<PlaceRange, kNumParts> ranges;
  const std::array<double, kNumParts> shares = {
      options.train_share, options.valid_share, options.test_share};
  int64_t first = 0;
  for (size_t i = 0; i < kNumParts; ++i) {
    const auto size = static_cast<int64_t>(
        shares[i] * static_cast<double>(options.num_nodes));
    ranges[i] = {first, std::min(first + size, options.num_nodes)};
    first = ranges[i].last;
  }
  return ranges;
}

/// The members of one part.
class Part : public ComputedItems {
 public:
  /// `before`[i] members are among the nodes before i * kNodesPerCount.
  Part(const NodePermutation& places, const PlaceRange& range,
       std::vector<int64_t> before)
      : places_(places), range_(range), before_(std::move(before)) {}

  int64_t num_items() const override { return range_.last - range_.first; }
  int64_t item_bytes() const override { return sizeof(int64_t); }

  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    const auto next = std::upper_bound(before_.begin(), before_.end(), first);
    const int64_t block = next - before_.begin() - 1;
    int64_t skipped = first - before_[static_cast<size_t>(block)];
    for (int64_t node = block * kNodesPerCount; !out.empty(); ++node) {
      if (!range_.Contains(places_.Apply(node))) continue;
      if (skipped-- > 0) continue;
      std::memcpy(out.data(), &node, sizeof(node));
      out.remove_prefix(sizeof(node));
    }
  }

 private:
  const NodePermutation places_;
  const PlaceRange range_;
  const std::vector<int64_t> before_;
};

}  // namespace

absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> NewGeneratedSplit(
    ImportContext& context, const GenerateOptions& options) {
  const NodePermutation places(
      GeneratorKey(options.seed, GeneratorPart::kSplit), options.num_nodes);
  const std::array<PlaceRange, kNumParts> ranges = MakeRanges(options);
  std::array<std::vector<int64_t>, kNumParts> before;
  std::array<int64_t, kNumParts> counts = {};
  context.Begin("split",
                static_cast<uint64_t>(options.num_nodes) * sizeof(int64_t));
  for (int64_t first = 0; first < options.num_nodes; first += kNodesPerCount) {
    const int64_t last = std::min(first + kNodesPerCount, options.num_nodes);
    for (size_t i = 0; i < kNumParts; ++i) before[i].push_back(counts[i]);
    for (int64_t node = first; node < last; ++node) {
      const int64_t place = places.Apply(node);
      for (size_t i = 0; i < kNumParts; ++i) {
        counts[i] += ranges[i].Contains(place) ? 1 : 0;
      }
    }
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(last - first) * sizeof(int64_t)));
  }
  std::array<std::unique_ptr<ComputedItems>, kNumParts> parts;
  for (size_t i = 0; i < kNumParts; ++i) {
    parts[i] = std::make_unique<Part>(places, ranges[i], std::move(before[i]));
  }
  return parts;
}

}  // namespace hearth::ingest
