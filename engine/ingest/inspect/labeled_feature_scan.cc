#include "engine/ingest/inspect/labeled_feature_scan.h"

#include <cstddef>

#include "absl/memory/memory.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {

absl::StatusOr<std::unique_ptr<LabeledFeatureScan>> LabeledFeatureScan::Create(
    io::FileSystem& files, const std::string& folder,
    const store::NodeTypeEntry& nodes, store::DType dtype,
    int64_t num_columns) {
  auto scan = absl::WrapUnique(new LabeledFeatureScan(dtype, num_columns));
  if (!nodes.labels.path.empty() &&
      nodes.label_kind == store::LabelKind::kClasses) {
    HEARTH_ASSIGN_OR_RETURN(
        scan->classes_,
        ArrayReader::OpenNpy(files, io::JoinPath(folder, nodes.labels.path)));
  }
  return scan;
}

absl::Status LabeledFeatureScan::Add(const RowBlock& rows) {
  labels_.clear();
  if (classes_ != nullptr && scan_.WantsLabels()) {
    labels_.resize(static_cast<size_t>(rows.num_rows));
    HEARTH_RETURN_IF_ERROR(classes_->ReadBytes(
        rows.first_row, {reinterpret_cast<std::byte*>(labels_.data()),
                         labels_.size() * sizeof(int32_t)}));
  }
  scan_.Add(rows.bytes, labels_);
  return absl::OkStatus();
}

}  // namespace hearth::ingest
