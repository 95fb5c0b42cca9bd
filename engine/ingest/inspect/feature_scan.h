#ifndef HEARTH_ENGINE_INGEST_INSPECT_FEATURE_SCAN_H_
#define HEARTH_ENGINE_INGEST_INSPECT_FEATURE_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/manifest.h"

/// Statistics of features, computed from their rows while an import writes
/// them.

namespace hearth::ingest {

/// Columns of a feature matrix that look like something else, ascending.
struct SuspectColumns {
  /// Columns equal to the label in every labeled row.
  std::vector<uint32_t> labels;
  /// Columns equal to the row number in every row.
  std::vector<uint32_t> row_numbers;
  /// Columns with whole numbers from 0 to a million only.
  std::vector<uint32_t> whole_numbers;
};

/// Findings of the scan of a feature matrix.
struct ScannedFeatures {
  FeatureStatistics statistics;
  SuspectColumns suspects;
  /// Whether the first row looks like the beginning of an .npy file, whose
  /// header was then taken for values.
  bool begins_like_npy = false;
};

/// Computes statistics of a feature matrix from its rows, added in order: one
/// pass over all values, vectorized, and one over the few columns that still
/// look remarkable. Sums are in double and relative to the first finite value,
/// so that small deviations from a large mean survive. Single-owner.
class FeatureScan {
 public:
  /// REQUIRES: `dtype` is a float type, and `num_columns` > 0.
  FeatureScan(store::DType dtype, int64_t num_columns);

  /// Adds rows, row-major. `labels` has one label per row (-1 = unlabeled), or
  /// is empty if they are unknown or no longer wanted.
  void Add(absl::Span<const std::byte> rows, absl::Span<const int32_t> labels);

  /// Whether labels of further rows can still change the result.
  bool WantsLabels() const;

  /// Statistics of the rows so far.
  FeatureStatistics Statistics() const;
  SuspectColumns Suspects() const;
  bool begins_like_npy() const { return begins_like_npy_; }
  /// Statistics and suspect columns of the rows so far.
  ScannedFeatures Result() const;

 private:
  /// Rows as floats, converted if they have another type.
  absl::Span<const float> ToFloats(absl::Span<const std::byte> rows);
  void AddValues(absl::Span<const float> values);
  void AddZeroRows(absl::Span<const float> values);
  void NarrowSuspects(absl::Span<const float> row, const int32_t* label);

  const store::DType dtype_;
  const int64_t num_columns_;
  std::vector<float> converted_;
  int64_t num_rows_ = 0;
  bool has_finite_ = false;
  /// The first finite value.
  float origin_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
  float min_ = 0;
  float max_ = 0;
  uint64_t num_zeros_ = 0;
  uint64_t num_non_finite_ = 0;
  uint64_t num_zero_rows_ = 0;
  std::vector<float> first_row_;
  bool begins_like_npy_ = false;
  bool saw_label_ = false;
  std::vector<uint32_t> constant_columns_;
  SuspectColumns suspects_;
};

/// A FeatureScan that reads the labels of its rows itself. Single-owner.
class LabeledFeatureScan {
 public:
  /// Scans rows of `num_columns` features of type `dtype` that belong to
  /// `nodes`, whose labels are in `folder` already.
  static absl::StatusOr<std::unique_ptr<LabeledFeatureScan>> Create(
      io::FileSystem& files, const std::string& folder,
      const store::NodeTypeEntry& nodes, store::DType dtype,
      int64_t num_columns);

  /// Adds rows in stored form.
  absl::Status Add(const RowBlock& rows);

  const FeatureScan& scan() const { return scan_; }

 private:
  LabeledFeatureScan(store::DType dtype, int64_t num_columns)
      : scan_(dtype, num_columns) {}

  FeatureScan scan_;
  /// Null unless the labels are classes.
  std::unique_ptr<ArrayReader> classes_;
  std::vector<int32_t> labels_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_FEATURE_SCAN_H_
