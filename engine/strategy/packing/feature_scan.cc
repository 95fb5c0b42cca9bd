#include "engine/strategy/packing/feature_scan.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/pipeline/pipeline.h"
#include "engine/strategy/packing/file_range.h"

namespace hearth::strategy {
namespace {

constexpr uint64_t kReadBytes = 8 << 20;
constexpr uint64_t kTellingBytes = uint64_t{256} << 20;

// Bytes of memory of one partition: whole pages, wherever its rows begin.
uint64_t SliceBytes(int64_t partition_nodes, int64_t row_bytes) {
  return RoundUpToPage(static_cast<uint64_t>(partition_nodes) *
                       static_cast<uint64_t>(row_bytes)) +
         kPageBytes;
}

class ReadPartition final : public pipeline::Item {
 public:
  explicit ReadPartition(int64_t index) { partition.index = index; }
  FeatureScan::Partition partition;
};

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
  const int64_t partitions =
      (rows.num_rows + partition_nodes - 1) / partition_nodes;
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(
          static_cast<uint64_t>(std::min(partitions, kPartitionsHeld)) *
          SliceBytes(partition_nodes, rows.row_bytes)));
  return FeatureScan(features, rows, partition_nodes, info.size_bytes,
                     std::move(memory));
}

absl::Status FeatureScan::Run(
    const std::function<absl::Status(const Partition&)>& use,
    const Clock& clock, const std::stop_token& stop) {
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {{.name = "read",
        .queue_capacity = kPartitionsHeld - 2,
        .work =
            [&](int /*thread*/, pipeline::Item& item) {
              return Read(clock, stop,
                          static_cast<ReadPartition&>(item).partition);
            }}},
      "use", clock);
  return pipeline->Run(
      (rows_.num_rows + partition_nodes_ - 1) / partition_nodes_,
      [](int64_t index) { return std::make_unique<ReadPartition>(index); },
      [&](std::unique_ptr<pipeline::Item> item) {
        return use(static_cast<ReadPartition&>(*item).partition);
      },
      stop);
}

std::optional<double> FeatureScan::TellingRate() const {
  if (read_bytes_ < kTellingBytes || read_seconds_ <= 0) return std::nullopt;
  return static_cast<double>(read_bytes_) / read_seconds_;
}

absl::Status FeatureScan::Read(const Clock& clock, const std::stop_token& stop,
                               Partition& partition) {
  const double start = clock.SteadySeconds();
  partition.first = partition.index * partition_nodes_;
  partition.num_rows =
      std::min(partition_nodes_, rows_.num_rows - partition.first);
  const absl::Span<std::byte> slice = memory_.bytes().subspan(
      static_cast<uint64_t>(partition.index % kPartitionsHeld) *
      SliceBytes(partition_nodes_, rows_.row_bytes));
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
        features_->Read(at, slice.subspan(at - begin, count)));
    at += count;
  }
  read_bytes_ += end - begin;
  read_seconds_ += clock.SteadySeconds() - start;
  partition.rows = slice.data() + (first_byte - begin);
  return absl::OkStatus();
}

}  // namespace hearth::strategy
