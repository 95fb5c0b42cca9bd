#include "engine/strategy/packing/region_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/strategy/packing/file_range.h"

namespace hearth::strategy {

RegionWriter::RegionWriter(io::WritableFile& file,
                           std::vector<FileRange> regions, uint64_t block_bytes,
                           int workers, io::AlignedMemory carries,
                           io::AlignedMemory staging)
    : file_(&file),
      regions_(std::move(regions)),
      states_(regions_.size()),
      block_bytes_(block_bytes),
      begun_(static_cast<size_t>(workers)),
      carries_(std::move(carries)),
      staging_(std::move(staging)) {}

absl::StatusOr<RegionWriter> RegionWriter::Make(io::WritableFile& file,
                                                std::vector<FileRange> regions,
                                                int workers,
                                                uint64_t block_bytes) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory carries,
      io::AlignedMemory::Allocate(regions.size() * block_bytes));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory staging,
                          io::AlignedMemory::Allocate(
                              static_cast<uint64_t>(workers) * kStagingBytes));
  return RegionWriter(file, std::move(regions), block_bytes, workers,
                      std::move(carries), std::move(staging));
}

absl::Span<std::byte> RegionWriter::Begin(int64_t region, uint64_t bytes,
                                          int worker) {
  const State& state = states_[region];
  const uint64_t carried = state.filled % block_bytes_;
  const uint64_t count = std::min(
      {bytes, kStagingBytes - carried, regions_[region].bytes - state.filled});
  std::byte*& begun = begun_[static_cast<size_t>(worker)];
  begun = Carry(region);
  if (carried + count >= block_bytes_) {
    begun = Staging(worker).data();
    std::memcpy(begun, Carry(region), carried);
  }
  return {begun + carried, count};
}

absl::Status RegionWriter::Commit(int64_t region, uint64_t count, int worker) {
  State& state = states_[region];
  const FileRange& range = regions_[region];
  std::byte* const begun = begun_[static_cast<size_t>(worker)];
  const uint64_t carried = state.filled % block_bytes_;
  state.crc = Crc32c({begun + carried, count}, state.crc);
  const uint64_t offset = range.offset + state.filled - carried;
  state.filled += count;
  const uint64_t held = carried + count;
  uint64_t written = held / block_bytes_ * block_bytes_;
  if (state.filled == range.bytes) {
    written = RoundUpToPage(held);
    std::memset(begun + held, 0, written - held);
  } else if (begun != Carry(region)) {
    std::memcpy(Carry(region), begun + written, held - written);
  }
  if (written == 0) return absl::OkStatus();
  return file_->Write(offset, {begun, written});
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
