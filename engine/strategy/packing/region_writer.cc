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
