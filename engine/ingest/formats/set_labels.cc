#include "engine/ingest/formats/set_labels.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/scratch_array.h"
#include "engine/ingest/import/split_import.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 32 << 10;
constexpr int32_t kUnlabeled = -1;
// The label of nodes that no set has.
constexpr int32_t kUnset = -2;

/// Consecutive nodes whose labels are in memory.
class NodeWindow {
 public:
  NodeWindow(int64_t num_nodes, int64_t first, int64_t count)
      : num_nodes_(num_nodes),
        first_(first),
        labels_(static_cast<size_t>(count), kUnset) {}

  /// Takes the labels of the nodes that are in the window.
  absl::Status Read(ImportContext& context, const SetLabels& set) {
    const int64_t count = set.seeds->header().shape[0];
    for (int64_t first = 0; first < count; first += kBlockElements) {
      const auto size =
          static_cast<size_t>(std::min(kBlockElements, count - first));
      seeds_.resize(size);
      values_.resize(size);
      HEARTH_RETURN_IF_ERROR(
          set.seeds->ReadInts(first, absl::MakeSpan(seeds_)));
      HEARTH_RETURN_IF_ERROR(ReadValues(*set.labels, first));
      for (size_t i = 0; i < size; ++i) {
        HEARTH_RETURN_IF_ERROR(Set(set, first + static_cast<int64_t>(i), i));
      }
      HEARTH_RETURN_IF_ERROR(context.Advance(size));
    }
    return absl::OkStatus();
  }

  /// The labels, in the order of the nodes. To be called once.
  absl::Span<const int32_t> Finish() {
    std::replace(labels_.begin(), labels_.end(), kUnset, kUnlabeled);
    return labels_;
  }

 private:
  absl::Status ReadValues(ArrayReader& labels, int64_t first) {
    if (labels.header().type.IsFloat()) {
      return labels.ReadFloats(first, absl::MakeSpan(values_));
    }
    ints_.resize(values_.size());
    HEARTH_RETURN_IF_ERROR(labels.ReadInts(first, absl::MakeSpan(ints_)));
    std::copy(ints_.begin(), ints_.end(), values_.begin());
    return absl::OkStatus();
  }

  absl::Status Set(const SetLabels& set, int64_t position, size_t i) {
    const int64_t node = seeds_[i];
    if (node < 0 || node >= num_nodes_) {
      return set.seeds->ErrorAt(
          position,
          absl::StrCat("is ", node, "; node ids are 0 .. ", num_nodes_ - 1));
    }
    const double value = std::isnan(values_[i]) ? kUnlabeled : values_[i];
    if (!(value >= kUnlabeled && value < static_cast<double>(kMaxClasses)) ||
        value != std::floor(value)) {
      return set.labels->ErrorAt(
          position, absl::StrCat("is ", value, "; labels are 0 .. ",
                                 kMaxClasses - 1, ", or -1 for none"));
    }
    const auto at = static_cast<uint64_t>(node - first_);
    if (node < first_ || at >= labels_.size()) return absl::OkStatus();
    const auto label = static_cast<int32_t>(value);
    int32_t& there = labels_[at];
    if (there != kUnset && there != label) {
      return set.labels->ErrorAt(
          position, absl::StrCat("is ", label, ", but node ", node,
                                 " has the label ", there, " already"));
    }
    there = label;
    return absl::OkStatus();
  }

  const int64_t num_nodes_;
  const int64_t first_;
  std::vector<int32_t> labels_;
  std::vector<int64_t> seeds_;
  std::vector<int64_t> ints_;
  std::vector<double> values_;
};

absl::Status CheckSet(const SetLabels& set, int64_t num_nodes) {
  HEARTH_RETURN_IF_ERROR(CheckSplitHeader(*set.seeds, num_nodes));
  return CheckLabelHeader(*set.labels, set.seeds->header().shape[0],
                          store::LabelKind::kClasses);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayReader>> JoinSetLabels(
    ImportContext& context, int64_t num_nodes, const std::string& name,
    const std::vector<SetLabels>& sets) {
  uint64_t elements = 0;
  for (const SetLabels& set : sets) {
    HEARTH_RETURN_IF_ERROR(CheckSet(set, num_nodes));
    elements += static_cast<uint64_t>(set.seeds->header().shape[0]);
  }
  const auto window =
      static_cast<int64_t>(context.memory_limit_bytes() / 4 / sizeof(int32_t));
  const int64_t passes = (num_nodes - 1) / window + 1;
  HEARTH_RETURN_IF_ERROR(
      context.CheckSpace(static_cast<uint64_t>(num_nodes) * sizeof(int32_t),
                         "joining the labels"));
  context.Begin("unpacking", elements * static_cast<uint64_t>(passes));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchArray> joined,
      ScratchArray::Create(
          context, {store::ElementType::Kind::kInt, sizeof(int32_t)}, name));
  for (int64_t first = 0; first < num_nodes; first += window) {
    NodeWindow nodes(num_nodes, first, std::min(window, num_nodes - first));
    for (const SetLabels& set : sets) {
      HEARTH_RETURN_IF_ERROR(nodes.Read(context, set));
    }
    // In pieces: what is appended is buffered.
    absl::Span<const int32_t> labels = nodes.Finish();
    while (!labels.empty()) {
      const size_t count =
          std::min<size_t>(labels.size(), static_cast<size_t>(kBlockElements));
      HEARTH_RETURN_IF_ERROR(joined->AppendValues(labels.first(count)));
      labels.remove_prefix(count);
    }
  }
  return joined->Finish({num_nodes});
}

}  // namespace hearth::ingest
