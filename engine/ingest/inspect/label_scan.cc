#include "engine/ingest/inspect/label_scan.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/inspect/id_stream.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/label_kind.h"
#include "engine/store/labels.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kMaxBlockBytes = 4 << 20;
// Its count, and whether a training node has it.
constexpr uint64_t kBytesPerClass = 2 * sizeof(uint64_t);

/// Rows of labels as they are stored.
store::LabelsView ViewOf(const store::NodeTypeEntry& nodes, int64_t num_rows,
                         absl::Span<const std::byte> bytes) {
  store::LabelsView view;
  view.kind = nodes.label_kind;
  view.num_rows = num_rows;
  view.width = nodes.label_width;
  view.partial = store::HasPartialLabels(nodes);
  switch (nodes.label_kind) {
    case store::LabelKind::kClasses:
      view.classes = {reinterpret_cast<const int32_t*>(bytes.data()),
                      bytes.size() / sizeof(int32_t)};
      break;
    case store::LabelKind::kMultiLabel:
      view.bits = {reinterpret_cast<const uint8_t*>(bytes.data()),
                   bytes.size()};
      break;
    case store::LabelKind::kTargets:
      view.targets = {reinterpret_cast<const float*>(bytes.data()),
                      bytes.size() / sizeof(float)};
      break;
  }
  return view;
}

uint64_t Count(int64_t count) { return static_cast<uint64_t>(count); }

/// Whether a labeled row of several labels has one of them.
bool HasOneLabel(const store::LabelsView& labels, int64_t row) {
  const uint8_t* bits = labels.BitRow(row);
  int count = 0;
  for (int64_t i = 0; i < store::MultiLabelRowBytes(labels.width); ++i) {
    count += std::popcount(bits[i]);
  }
  // One more bit tells that it is labeled.
  return count == 2;
}

class LabelScan {
 public:
  LabelScan(ImportContext& context, const store::NodeTypeEntry& nodes)
      : context_(context), nodes_(nodes) {
    if (nodes.label_kind == store::LabelKind::kTargets) return;
    const auto width = static_cast<uint64_t>(nodes.label_width);
    const uint64_t fitting = context.memory_limit_bytes() / 4 / kBytesPerClass;
    counts_.resize(std::min(width, fitting));
    trained_.resize(counts_.size());
  }

  absl::Status Run(const std::string& folder) {
    const std::string path = io::JoinPath(folder, nodes_.labels.path);
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> labels,
                            ArrayReader::OpenNpy(context_.files(), path));
    std::optional<IdStream> train;
    if (!nodes_.train.path.empty()) {
      HEARTH_ASSIGN_OR_RETURN(
          train, IdStream::Open(context_.files(),
                                io::JoinPath(folder, nodes_.train.path)));
    }
    const uint64_t row_bytes =
        LabelBytesToScan(nodes_) / static_cast<uint64_t>(nodes_.num_nodes);
    const uint64_t block_bytes =
        std::min(kMaxBlockBytes, context_.memory_limit_bytes() / 8);
    const auto block_rows =
        static_cast<int64_t>(std::max<uint64_t>(1, block_bytes / row_bytes));
    const int64_t row_items = labels->header().NumElements() / nodes_.num_nodes;
    std::vector<std::byte> bytes;
    for (int64_t first = 0; first < nodes_.num_nodes; first += block_rows) {
      const int64_t rows = std::min(block_rows, nodes_.num_nodes - first);
      bytes.resize(static_cast<uint64_t>(rows) * row_bytes);
      HEARTH_RETURN_IF_ERROR(
          labels->ReadBytes(first * row_items, absl::MakeSpan(bytes)));
      const store::LabelsView view = ViewOf(nodes_, rows, bytes);
      for (int64_t row = 0; row < rows; ++row) Add(view, row);
      while (train && !train->AtEnd() && train->id() < first + rows) {
        AddTrain(view, train->id() - first);
        HEARTH_RETURN_IF_ERROR(train->Next());
      }
      HEARTH_RETURN_IF_ERROR(context_.Advance(bytes.size()));
    }
    return absl::OkStatus();
  }

  void Report(NodeStatistics& statistics, NodeProbes& probes) const {
    statistics.num_unlabeled = num_unlabeled_;
    statistics.class_counts.assign(
        counts_.begin(),
        counts_.begin() + std::min(counts_.size(), kMaxListedStatistics));
    probes.num_train_unlabeled = num_train_unlabeled_;
    probes.one_label_each =
        nodes_.label_kind == store::LabelKind::kMultiLabel &&
        nodes_.label_width > 1 && num_with_one_label_ > 0 &&
        num_with_one_label_ + num_unlabeled_ == Count(nodes_.num_nodes);
    if (nodes_.label_kind != store::LabelKind::kClasses) return;
    const bool counted_all = counts_.size() == Count(nodes_.label_width);
    for (size_t i = counts_.size(); i-- > 0;) {
      if (counts_[i] == 0 && counted_all) {
        ++probes.num_empty_classes;
        probes.first_empty_class = static_cast<int64_t>(i);
      }
      if (counts_[i] == 0 || trained_[i]) continue;
      ++probes.num_untrained_classes;
      probes.first_untrained_class = static_cast<int64_t>(i);
    }
    const auto labeled = static_cast<double>(nodes_.num_nodes) -
                         static_cast<double>(num_unlabeled_);
    if (labeled == 0 || !counted_all) return;
    double chance = 0;
    for (const uint64_t count : counts_) {
      const double share = static_cast<double>(count) / labeled;
      chance += share * share;
    }
    probes.chance_homophily = chance;
  }

 private:
  void Add(const store::LabelsView& labels, int64_t row) {
    if (!labels.IsLabeled(row)) {
      ++num_unlabeled_;
    } else if (labels.kind == store::LabelKind::kClasses) {
      const auto label = static_cast<size_t>(labels.classes[row]);
      if (label < counts_.size()) ++counts_[label];
    } else if (labels.kind == store::LabelKind::kMultiLabel) {
      num_with_one_label_ += HasOneLabel(labels, row);
      const size_t listed = std::min(counts_.size(), kMaxListedStatistics);
      for (size_t i = 0; i < listed; ++i) {
        counts_[i] +=
            store::HasBit(labels.BitRow(row), static_cast<int64_t>(i));
      }
    }
  }

  void AddTrain(const store::LabelsView& labels, int64_t row) {
    if (!labels.IsLabeled(row)) {
      ++num_train_unlabeled_;
    } else if (labels.kind == store::LabelKind::kClasses) {
      const auto label = static_cast<size_t>(labels.classes[row]);
      if (label < trained_.size()) trained_[label] = true;
    }
  }

  ImportContext& context_;
  const store::NodeTypeEntry& nodes_;
  /// Nodes of each class or label.
  std::vector<uint64_t> counts_;
  std::vector<bool> trained_;
  uint64_t num_unlabeled_ = 0;
  uint64_t num_with_one_label_ = 0;
  uint64_t num_train_unlabeled_ = 0;
};

}  // namespace

absl::Status ScanLabels(ImportContext& context, const std::string& folder,
                        const store::NodeTypeEntry& nodes,
                        NodeStatistics& statistics, NodeProbes& probes) {
  if (nodes.labels.path.empty()) {
    statistics.num_unlabeled = static_cast<uint64_t>(nodes.num_nodes);
    return absl::OkStatus();
  }
  LabelScan scan(context, nodes);
  HEARTH_RETURN_IF_ERROR(scan.Run(folder));
  scan.Report(statistics, probes);
  return absl::OkStatus();
}

uint64_t LabelBytesToScan(const store::NodeTypeEntry& nodes) {
  if (nodes.labels.path.empty()) return 0;
  return nodes.labels.file_size_bytes - nodes.labels.data_offset;
}

}  // namespace hearth::ingest
