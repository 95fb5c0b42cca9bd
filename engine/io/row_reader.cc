#include "engine/io/row_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::io {

RowReader::RowReader(std::string path, std::unique_ptr<RowStream> stream)
    : path_(std::move(path)), stream_(std::move(stream)) {}

absl::StatusOr<std::unique_ptr<RowReader>> RowReader::Create(
    BlockDevice& device, const RowLayout& layout, ReadQueue& queue,
    const RowReaderOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<RowStream> stream,
                          RowStream::Create(device, layout, queue, options));
  return std::unique_ptr<RowReader>(
      new RowReader(device.path(), std::move(stream)));
}

absl::Status RowReader::Read(absl::Span<const int64_t> rows, Arrived arrived,
                             std::stop_token stop, ReadTally& tally) {
  absl::Status status = stream_->Add(rows, arrived, tally);
  while (status.ok() && !stream_->TakeOff()) {
    status =
        stop.stop_requested()
            ? absl::CancelledError(absl::StrCat(path_, ": reading was stopped"))
            : stream_->Advance();
  }
  if (status.ok()) return status;
  const absl::Status abandoned = stream_->Abandon();
  return abandoned.ok() ? status : abandoned;
}

}  // namespace hearth::io
