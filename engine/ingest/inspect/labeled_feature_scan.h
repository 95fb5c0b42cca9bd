#ifndef HEARTH_ENGINE_INGEST_INSPECT_LABELED_FEATURE_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_LABELED_FEATURE_SCAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/row_source.h"
#include "engine/io/file_system.h"
#include "engine/store/dtype.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// A FeatureScan that reads the labels of its rows. Single-owner.
class LabeledFeatureScan {
 public:
  /// Scans rows of `num_columns` features of type `dtype`, those of `nodes`,
  /// whose labels are in `folder` already.
  static absl::StatusOr<std::unique_ptr<LabeledFeatureScan>> Create(
      io::FileSystem& files, const std::string& folder,
      const store::NodeTypeEntry& nodes, store::DType dtype,
      int64_t num_columns);

  /// The next rows, as they are stored.
  absl::Status Add(const RowBlock& rows);

  const FeatureScan& scan() const { return scan_; }

 private:
  LabeledFeatureScan(store::DType dtype, int64_t num_columns)
      : scan_(dtype, num_columns) {}

  FeatureScan scan_;
  /// Null without classes.
  std::unique_ptr<ArrayReader> classes_;
  std::vector<int32_t> labels_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_LABELED_FEATURE_SCAN_H_
