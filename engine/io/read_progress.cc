#include "engine/io/read_progress.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/io/transfer.h"

namespace hearth::io {
namespace {

// The kernel reads a little under 2 GiB at once; a multiple of every alignment.
constexpr size_t kMaxAttemptBytes = size_t{1} << 30;

}  // namespace

absl::Span<std::byte> ReadProgress::out() const {
  return request_.out.subspan(offset_ - request_.offset, kMaxAttemptBytes);
}

uint64_t ReadProgress::End() const {
  const uint64_t size =
      std::max(request_.device->size_bytes(), request_.offset);
  return std::min(request_.offset + request_.out.size(), size);
}

ReadProgress::Next ReadProgress::Advance(ssize_t outcome) {
  if (outcome > 0) return Advanced(static_cast<uint64_t>(outcome));
  const auto error = static_cast<int>(-outcome);
  if (error == 0) return EndAt(offset_);
  if (error == EINTR) return Next::kRead;
  if (error == EIO || error == EAGAIN) return Retry(error);
  status_ = ErrnoStatus(error, device().path(),
                        absl::StrCat("reading at byte ", offset_));
  return Next::kDone;
}

ReadProgress::Next ReadProgress::EndAt(uint64_t offset) {
  const uint64_t end = request_.offset + request_.out.size();
  status_ = absl::DataLossError(
      absl::StrCat(device().path(), ": ends at byte ", offset, "; bytes ",
                   request_.offset, " to ", end, " were asked for"));
  return Next::kDone;
}

ReadProgress::Next ReadProgress::Advanced(uint64_t count) {
  if (offset_ + count >= End()) return Next::kDone;
  const uint64_t page = uint64_t{request_.device->alignment()} - 1;
  const uint64_t next = (offset_ + count) & ~page;
  // Within a page a direct read ends for one reason only.
  if (next == offset_) return EndAt(offset_ + count);
  offset_ = next;
  retry_ = 0;
  return Next::kRead;
}

ReadProgress::Next ReadProgress::Retry(int error) {
  if (retry_ < kMaxReadRetries) {
    ++retry_;
    return Next::kRetry;
  }
  status_ = ErrnoStatus(error, device().path(),
                        absl::StrCat("reading at byte ", offset_));
  return Next::kDone;
}

void ReadProgress::Fail(const absl::Status& error) {
  status_ = Annotate(
      error, absl::StrCat(device().path(), ": reading at byte ", offset_));
}

ReadResult Deliver(const ReadProgress& progress, double seconds,
                   ReadCounters& counters) {
  if (progress.status().ok()) {
    counters.Succeeded(progress.bytes(), seconds);
  } else {
    counters.Failed(seconds);
  }
  return {progress.tag(), progress.status()};
}

absl::Status CheckRequests(absl::Span<const ReadRequest> requests,
                           size_t free) {
  if (requests.size() > free) {
    return absl::InvalidArgumentError(
        absl::StrCat(requests.size(), " reads submitted to a queue with room ",
                     "for ", free));
  }
  for (const ReadRequest& request : requests) {
    const auto address = reinterpret_cast<uintptr_t>(request.out.data());
    const uint64_t page = uint64_t{request.device->alignment()} - 1;
    if (request.out.empty() ||
        ((request.offset | request.out.size() | address) & page) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          request.device->path(), ": a read of ", request.out.size(),
          " bytes at ", request.offset, " into memory at ",
          address % (page + 1), " past a page is not aligned to ", page + 1));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::io
