#include "engine/strategy/diskgnn/packing/pack_files.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/pipeline/pipeline.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"

namespace hearth::strategy {

namespace {

constexpr const char* kDataFiles[] = {kPacksFile, kDiskCacheFile,
                                      kDiskChecksumsFile, kGpuCacheFile,
                                      kCpuCacheFile};

}  // namespace

PackFiles::PackFiles(io::FileSystem& files, std::string folder)
    : files_(files), folder_(std::move(folder)) {}

PackFiles::~PackFiles() {
  // The error that led here was reported.
  if (!committed_) RemoveAll().IgnoreError();
}

absl::Status PackFiles::Begin() {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return RemoveAll();
}

absl::Status PackFiles::RemoveAll() {
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, kIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(kIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(name)));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return RemoveScratch();
}

absl::Status PackFiles::RemoveScratch() {
  for (const char* name : {kDispatchFile, kDiskOrderFile, kDiskRowsFile}) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

std::string PackFiles::Temporary(const char* name) const {
  return absl::StrCat(io::JoinPath(folder_, name), io::kTemporarySuffix);
}

absl::Status PackFiles::Commit(const PackedLayout& layout) {
  // Scratch files go first: after a kill behind the index they would stay as
  // long as the plan.
  HEARTH_RETURN_IF_ERROR(RemoveScratch());
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(
        files_.Rename(Temporary(name), io::JoinPath(folder_, name)));
  }
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  HEARTH_RETURN_IF_ERROR(WriteLayoutIndex(files_, folder_, layout));
  committed_ = true;
  return absl::OkStatus();
}

namespace {

constexpr uint64_t kReadBytes = 8 << 20;

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
              return Read(stop, static_cast<ReadPartition&>(item).partition);
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

absl::Status FeatureScan::Read(const std::stop_token& stop,
                               Partition& partition) {
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
  partition.rows = slice.data() + (first_byte - begin);
  return absl::OkStatus();
}

RegionWriter::RegionWriter(io::WritableFile& file,
                           std::vector<FileRange> regions,
                           io::AlignedMemory carries, io::AlignedMemory staging)
    : file_(&file),
      regions_(std::move(regions)),
      states_(regions_.size()),
      carries_(std::move(carries)),
      staging_(std::move(staging)) {}

absl::StatusOr<RegionWriter> RegionWriter::Make(io::WritableFile& file,
                                                std::vector<FileRange> regions,
                                                int workers) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory carries,
      io::AlignedMemory::Allocate(regions.size() * kPageBytes));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory staging,
                          io::AlignedMemory::Allocate(
                              static_cast<uint64_t>(workers) * kStagingBytes));
  return RegionWriter(file, std::move(regions), std::move(carries),
                      std::move(staging));
}

absl::Span<std::byte> RegionWriter::Begin(int64_t region, uint64_t bytes,
                                          int worker) {
  const State& state = states_[region];
  const uint64_t carried = state.filled % kPageBytes;
  const absl::Span<std::byte> staging = Staging(worker);
  std::memcpy(staging.data(), Carry(region), carried);
  return staging.subspan(carried,
                         std::min({bytes, kStagingBytes - carried,
                                   regions_[region].bytes - state.filled}));
}

absl::Status RegionWriter::Commit(int64_t region, uint64_t count, int worker) {
  State& state = states_[region];
  const FileRange& range = regions_[region];
  const uint64_t carried = state.filled % kPageBytes;
  std::byte* const staged = Staging(worker).data();
  state.crc = Crc32c({staged + carried, count}, state.crc);
  const uint64_t offset = range.offset + state.filled - carried;
  state.filled += count;
  uint64_t whole = carried + count;
  const uint64_t left = whole % kPageBytes;
  whole -= left;
  if (left > 0 && state.filled == range.bytes) {
    std::memset(staged + whole + left, 0, kPageBytes - left);
    whole += kPageBytes;
  } else if (left > 0) {
    std::memcpy(Carry(region), staged + whole, left);
  }
  if (whole == 0) return absl::OkStatus();
  return file_->Write(offset, {staged, whole});
}

absl::Status RegionWriter::CheckFull() const {
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (states_[i].filled == regions_[i].bytes) continue;
    return absl::DataLossError(absl::StrCat(
        "packing region ", i, " at byte ", regions_[i].offset, ": ",
        states_[i].filled, " bytes of ", regions_[i].bytes,
        " were found; the trace has changed since it was measured"));
  }
  return absl::OkStatus();
}

}  // namespace hearth::strategy
