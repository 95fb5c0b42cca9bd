#include "engine/ingest/inspect/feature_scan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/memory/memory.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"

namespace hearth::ingest {

namespace {

constexpr size_t kLanes = 8;
constexpr float kMaxWholeNumber = 1e6f;
constexpr absl::string_view kNpyMagic = "\x93NUMPY";

bool IsFinite(float value) {
  return (std::bit_cast<uint32_t>(value) & 0x7F800000) != 0x7F800000;
}

/// Independent sums, which the compiler can vectorize.
struct Lanes {
  Lanes() {
    min.fill(std::numeric_limits<float>::infinity());
    max.fill(-std::numeric_limits<float>::infinity());
  }

  void Add(const float* values, size_t count, float origin) {
    for (size_t i = 0; i < count; ++i) {
      const bool finite = IsFinite(values[i]);
      // A value that is not finite counts as the origin: a difference of 0.
      const float value = finite ? values[i] : origin;
      const double deviation = double{value} - double{origin};
      const float low = finite ? values[i] : min[i];
      const float high = finite ? values[i] : max[i];
      sum[i] += deviation;
      squares[i] += deviation * deviation;
      min[i] = low < min[i] ? low : min[i];
      max[i] = high > max[i] ? high : max[i];
      zeros[i] += values[i] == 0 ? 1 : 0;
      non_finite[i] += finite ? 0 : 1;
    }
  }

  std::array<double, kLanes> sum = {};
  std::array<double, kLanes> squares = {};
  std::array<float, kLanes> min;
  std::array<float, kLanes> max;
  std::array<uint32_t, kLanes> zeros = {};
  std::array<uint32_t, kLanes> non_finite = {};
};

template <typename T>
T SumOf(const std::array<T, kLanes>& lanes) {
  return std::accumulate(lanes.begin(), lanes.end(), T{0});
}

}  // namespace

FeatureScan::FeatureScan(store::DType dtype, int64_t num_columns)
    : dtype_(dtype),
      num_columns_(num_columns),
      constant_columns_(static_cast<size_t>(num_columns)) {
  std::iota(constant_columns_.begin(), constant_columns_.end(), 0);
  suspects_ = {constant_columns_, constant_columns_, constant_columns_};
}

bool FeatureScan::WantsLabels() const { return !suspects_.labels.empty(); }

void FeatureScan::Add(absl::Span<const std::byte> rows,
                      absl::Span<const int32_t> labels) {
  if (labels.empty()) suspects_.labels.clear();
  absl::Span<const float> values = ToFloats(rows);
  if (values.empty()) return;
  const auto columns = static_cast<size_t>(num_columns_);
  if (num_rows_ == 0) {
    first_row_.assign(values.begin(), values.begin() + num_columns_);
    begins_like_npy_ =
        rows.size() >= kNpyMagic.size() &&
        std::memcmp(rows.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
  }
  AddValues(values);
  for (size_t row = 0; row * columns < values.size(); ++row) {
    NarrowSuspects(values.subspan(row * columns, columns),
                   labels.empty() ? nullptr : &labels[row]);
    ++num_rows_;
  }
}

absl::Span<const float> FeatureScan::ToFloats(
    absl::Span<const std::byte> rows) {
  if (dtype_ == store::DType::kFloat32) {
    return absl::MakeConstSpan(reinterpret_cast<const float*>(rows.data()),
                               rows.size() / sizeof(float));
  }
  const auto* bits = reinterpret_cast<const uint16_t*>(rows.data());
  converted_.resize(rows.size() / sizeof(uint16_t));
  if (dtype_ == store::DType::kBFloat16) {
    for (size_t i = 0; i < converted_.size(); ++i) {
      converted_[i] = store::BFloat16ToFloat(bits[i]);
    }
  } else {
    for (size_t i = 0; i < converted_.size(); ++i) {
      converted_[i] = store::Float16ToFloat(bits[i]);
    }
  }
  return converted_;
}

void FeatureScan::AddValues(absl::Span<const float> values) {
  if (!has_finite_) {
    const auto finite = std::find_if(values.begin(), values.end(), IsFinite);
    if (finite == values.end()) {
      num_non_finite_ += values.size();
      return;
    }
    has_finite_ = true;
    origin_ = min_ = max_ = *finite;
  }
  Lanes lanes;
  size_t done = 0;
  for (; done + kLanes <= values.size(); done += kLanes) {
    lanes.Add(values.data() + done, kLanes, origin_);
  }
  lanes.Add(values.data() + done, values.size() - done, origin_);
  sum_ += SumOf(lanes.sum);
  sum_of_squares_ += SumOf(lanes.squares);
  min_ = std::min(min_, *std::min_element(lanes.min.begin(), lanes.min.end()));
  max_ = std::max(max_, *std::max_element(lanes.max.begin(), lanes.max.end()));
  const uint64_t zeros = SumOf(lanes.zeros);
  num_zeros_ += zeros;
  num_non_finite_ += SumOf(lanes.non_finite);
  // Rows with that many zeros are rare.
  if (zeros >= static_cast<uint64_t>(num_columns_)) AddZeroRows(values);
}

void FeatureScan::AddZeroRows(absl::Span<const float> values) {
  for (size_t at = 0; at < values.size();
       at += static_cast<size_t>(num_columns_)) {
    const float* row = values.data() + at;
    const bool zero = std::all_of(row, row + num_columns_,
                                  [](float value) { return value == 0; });
    num_zero_rows_ += zero ? 1 : 0;
  }
}

void FeatureScan::NarrowSuspects(absl::Span<const float> row,
                                 const int32_t* label) {
  std::erase_if(constant_columns_, [&](uint32_t column) {
    return std::bit_cast<uint32_t>(row[column]) !=
           std::bit_cast<uint32_t>(first_row_[column]);
  });
  std::erase_if(suspects_.row_numbers, [&](uint32_t column) {
    return row[column] != static_cast<float>(num_rows_);
  });
  std::erase_if(suspects_.whole_numbers, [&](uint32_t column) {
    const float value = row[column];
    return !(value >= 0 && value <= kMaxWholeNumber &&
             value == std::floor(value));
  });
  if (label == nullptr || *label < 0) return;
  saw_label_ = true;
  std::erase_if(suspects_.labels, [&](uint32_t column) {
    return row[column] != static_cast<float>(*label);
  });
}

ScannedFeatures FeatureScan::Result() const {
  return {Statistics(), Suspects(), begins_like_npy_};
}

SuspectColumns FeatureScan::Suspects() const {
  SuspectColumns suspects = suspects_;
  if (!saw_label_) suspects.labels.clear();
  return suspects;
}

FeatureStatistics FeatureScan::Statistics() const {
  FeatureStatistics statistics;
  const auto total = static_cast<uint64_t>(num_rows_ * num_columns_);
  const uint64_t finite = total - num_non_finite_;
  if (finite > 0) {
    const double deviation = sum_ / static_cast<double>(finite);
    const double variance =
        sum_of_squares_ / static_cast<double>(finite) - deviation * deviation;
    statistics.min = min_;
    statistics.max = max_;
    statistics.mean = double{origin_} + deviation;
    statistics.standard_deviation = std::sqrt(std::max(0.0, variance));
  }
  statistics.num_non_finite = num_non_finite_;
  statistics.num_zeros = num_zeros_;
  statistics.num_zero_rows = num_zero_rows_;
  statistics.constant_columns = constant_columns_;
  if (statistics.constant_columns.size() > kMaxListedStatistics) {
    statistics.constant_columns.resize(kMaxListedStatistics);
  }
  return statistics;
}

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
