#include "engine/strategy/foresight/row_loader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/read_plan.h"
#include "engine/store/remote_rows.h"
#include "engine/strategy/packing/feature_scan.h"

namespace hearth::strategy {

namespace {

// Bytes of a partition of a scan.
constexpr int64_t kPartitionBytes = int64_t{16} << 20;

int64_t PartitionRows(int64_t row_bytes, int64_t num_rows) {
  return std::clamp<int64_t>(kPartitionBytes / row_bytes, 1,
                             std::max<int64_t>(num_rows, 1));
}

}  // namespace

uint64_t RowLoader::MemoryBytes(int io_depth, int64_t row_bytes,
                                int64_t most_rows) {
  return io::QueuedReader::StagingBytes(io_depth,
                                        static_cast<uint64_t>(row_bytes)) +
         static_cast<uint64_t>(most_rows) *
             (sizeof(int64_t) + io::kPlanBytesPerRow);
}

absl::Status RowLoader::Read(absl::Span<const uint32_t> nodes, std::byte* to,
                             const std::stop_token& stop,
                             io::ReadTally& tally) {
  rows_.assign(nodes.begin(), nodes.end());
  const uint64_t row_bytes = source_.features.layout.row_bytes;
  return ReadEach(
      [&](size_t i, const std::byte* row) {
        std::memcpy(to + i * row_bytes, row, row_bytes);
      },
      stop, tally);
}

absl::Status RowLoader::ReadEach(
    absl::FunctionRef<void(size_t position, const std::byte* row)> take,
    const std::stop_token& stop, io::ReadTally& tally) {
  if (!reader_.has_value()) {
    if (source_.features.device == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat(source_.dataset.path(),
                       ": rows are to be read one by one, but not all are "
                       "here"));
    }
    HEARTH_ASSIGN_OR_RETURN(
        io::QueuedReader reader,
        io::QueuedReader::Open(
            source_.read_queues, source_.io_depth, *source_.features.device,
            source_.features.layout, source_.clock, source_.check));
    reader_.emplace(std::move(reader));
  }
  return reader_->reader().Read(rows_, take, stop, tally);
}

absl::Status RowLoader::Load(absl::Span<const RowSlots::Placed> rows,
                             RowSlots& slots, const FetchPrices& prices,
                             const std::stop_token& stop,
                             io::ReadTally& tally) {
  const io::RowLayout& layout = source_.features.layout;
  if (source_.dataset.manifest().is_sharded() ||
      prices.ScanIsCheaper(
          {.feature_bytes =
               static_cast<uint64_t>(layout.num_rows) * layout.row_bytes,
           .rows = std::ssize(rows),
           .row_bytes = layout.row_bytes})) {
    return Scan(rows, slots, stop, tally);
  }
  rows_.clear();
  for (const RowSlots::Placed& placed : rows) rows_.push_back(placed.node);
  absl::Status written;
  absl::Status status = ReadEach(
      [&](size_t i, const std::byte* row) {
        written.Update(slots.Write(rows[i].slot, row));
      },
      stop, tally);
  status.Update(written);
  return status;
}

absl::Status RowLoader::Scan(absl::Span<const RowSlots::Placed> rows,
                             RowSlots& slots, const std::stop_token& stop,
                             io::ReadTally& tally) {
  store::RowSet wanted(source_.features.layout.num_rows);
  for (const RowSlots::Placed& placed : rows) wanted.Add(placed.node);
  HEARTH_ASSIGN_OR_RETURN(const store::ScannedFeatures features,
                          source_.dataset.ScanRows(wanted, stop));
  const int64_t row_bytes = features.rows.row_bytes;
  HEARTH_ASSIGN_OR_RETURN(
      FeatureScan scan,
      FeatureScan::Make(*features.file, features.rows,
                        PartitionRows(row_bytes, features.rows.num_rows)));
  HEARTH_RETURN_IF_ERROR(scan.Run(
      [&](const FeatureScan::Partition& partition) -> absl::Status {
        const int64_t end = partition.first + partition.num_rows;
        while (!rows.empty() && rows.front().node < end) {
          HEARTH_RETURN_IF_ERROR(slots.Write(
              rows.front().slot,
              partition.rows +
                  (rows.front().node - partition.first) * row_bytes));
          rows.remove_prefix(1);
        }
        tally.bytes_read += partition.num_rows * row_bytes;
        ++tally.requests;
        return absl::OkStatus();
      },
      source_.clock, stop));
  return absl::OkStatus();
}

}  // namespace hearth::strategy
