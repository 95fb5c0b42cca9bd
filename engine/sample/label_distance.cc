#include "engine/sample/label_distance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/status.h"

namespace hearth::sample {
namespace {

constexpr int64_t kLeastBatches = 1024;
constexpr double kMostRatio = 1.1;

// Number of nodes with each class or label.
class LabelCounts {
 public:
  explicit LabelCounts(const store::LabelsView& labels)
      : labels_(labels), counts_(static_cast<size_t>(labels.width)) {}

  void Add(int64_t row) {
    ++num_rows_;
    if (labels_.kind == store::LabelKind::kClasses) {
      ++counts_[static_cast<size_t>(labels_.classes[row])];
      return;
    }
    const uint8_t* bits = labels_.BitRow(row);
    for (size_t c = 0; c < counts_.size(); ++c) {
      counts_[c] += store::HasBit(bits, static_cast<int64_t>(c)) ? 1 : 0;
    }
  }

  void Clear() {
    std::fill(counts_.begin(), counts_.end(), 0);
    num_rows_ = 0;
  }

  double DistanceTo(const LabelCounts& other) const {
    double sum = 0;
    for (size_t c = 0; c < counts_.size(); ++c) {
      sum += std::abs(Share(c) - other.Share(c));
    }
    return sum / 2;
  }

 private:
  double Share(size_t c) const {
    return static_cast<double>(counts_[c]) / static_cast<double>(num_rows_);
  }

  const store::LabelsView labels_;
  std::vector<int64_t> counts_;
  int64_t num_rows_ = 0;
};

}  // namespace

double LabelDistance(const SeedOrder& order, const store::LabelsView& labels,
                     int64_t batch_size) {
  LabelCounts all(labels);
  for (int64_t row = 0; row < order.size(); ++row) all.Add(row);
  LabelCounts batch(labels);
  double sum = 0;
  int64_t batches = 0;
  for (uint64_t key = 0; batches < kLeastBatches; ++key) {
    const std::vector<int64_t> places = order.Places(key);
    int64_t left = order.size();
    for (const int64_t place : places) {
      batch.Add(place);
      --left;
      if (left > 0 && (order.size() - left) % batch_size > 0) continue;
      sum += batch.DistanceTo(all);
      batch.Clear();
      ++batches;
    }
  }
  return sum / static_cast<double>(batches);
}

absl::StatusOr<MacroBatchChoice> ChooseMacroBatch(
    absl::Span<const store::NodeId> nodes, PartitionOrderOptions options,
    const store::LabelsView& labels, int64_t batch_size,
    const std::stop_token& stop) {
  const auto all_parts = static_cast<int>(
      std::set<uint16_t>(options.parts.begin(), options.parts.end()).size());
  const double shuffled = LabelDistance(
      *NewShuffledOrder({nodes.begin(), nodes.end()}, options.data_seed),
      labels, batch_size);
  MacroBatchChoice choice;
  // Whether this many parts are enough; makes them the choice if they are.
  const auto try_parts = [&](int parts) -> absl::StatusOr<bool> {
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    options.parts_per_macro_batch = parts;
    const double distance =
        LabelDistance(*NewPartitionOrder(nodes, options), labels, batch_size);
    if (parts < all_parts && distance > kMostRatio * shuffled) return false;
    choice = {.parts_per_macro_batch = parts,
              .label_distance = distance,
              .shuffled_label_distance = shuffled};
    return true;
  };
  int too_few = 0;
  int tried = 1;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool enough, try_parts(tried));
    if (enough) break;
    too_few = tried;
    tried = std::min(2 * tried, all_parts);
  }
  int enough = tried;
  while (enough - too_few > 1) {
    const int between = too_few + (enough - too_few) / 2;
    HEARTH_ASSIGN_OR_RETURN(const bool is_enough, try_parts(between));
    (is_enough ? enough : too_few) = between;
  }
  return choice;
}

}  // namespace hearth::sample
