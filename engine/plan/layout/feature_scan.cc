#include "engine/plan/layout/feature_scan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/plan/layout/packed_layout.h"

namespace hearth::plan {
namespace {

constexpr uint64_t kReadBytes = 8 << 20;

}  // namespace

FeatureScan::FeatureScan(io::ReadableFile& features, const io::RowLayout& rows,
                         int64_t partition_nodes, uint64_t file_bytes,
                         io::AlignedMemory memory)
    : features_(&features),
      rows_(rows),
      partition_nodes_(partition_nodes),
      file_bytes_(file_bytes),
      memory_(std::move(memory)) {}

absl::StatusOr<FeatureScan> FeatureScan::Make(io::ReadableFile& features,
                                              const io::RowLayout& rows,
                                              int64_t partition_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, features.Info());
  if (info.size_bytes < rows.RowOffset(rows.num_rows)) {
    return absl::DataLossError(absl::StrCat(
        features.path(), ": ends at byte ", info.size_bytes, ", before row ",
        rows.num_rows - 1, " does at byte ", rows.RowOffset(rows.num_rows)));
  }
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(
          RoundUpToPage(static_cast<uint64_t>(partition_nodes) *
                        rows.row_bytes) +
          kPageBytes));
  return FeatureScan(features, rows, partition_nodes, info.size_bytes,
                     std::move(memory));
}

absl::StatusOr<FeatureScan::Partition> FeatureScan::Read(
    int64_t index, const std::stop_token& stop, const Progress& progress) {
  Partition partition;
  partition.first = index * partition_nodes_;
  partition.num_rows =
      std::min(partition_nodes_, rows_.num_rows - partition.first);
  const uint64_t first_byte = rows_.RowOffset(partition.first);
  const uint64_t begin = first_byte / kPageBytes * kPageBytes;
  const uint64_t end = std::min(
      RoundUpToPage(rows_.RowOffset(partition.first + partition.num_rows)),
      file_bytes_);
  for (uint64_t at = begin; at < end;) {
    if (stop.stop_requested()) {
      return absl::CancelledError("scanning the features: stopped on request");
    }
    const uint64_t count = std::min(kReadBytes, end - at);
    HEARTH_RETURN_IF_ERROR(
        features_->Read(at, memory_.bytes().subspan(at - begin, count)));
    at += count;
    if (progress) {
      const uint64_t last = rows_.RowOffset(rows_.num_rows);
      progress(std::min(at, last) - std::min(rows_.first_offset, at),
               last - rows_.first_offset);
    }
  }
  partition.rows = memory_.bytes().data() + (first_byte - begin);
  return partition;
}

}  // namespace hearth::plan
