#include "engine/ingest/parse/inflater.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kInputBytes = 64 << 10;

// zlib counts in 32 bits.
constexpr size_t kMaxStepBytes = size_t{1} << 30;

// Argument of inflateInit2: the largest window, plus 16 for a gzip header, or
// negated for no header.
int WindowBits(Inflater::Format format) {
  return format == Inflater::Format::kGzip ? MAX_WBITS + 16 : -MAX_WBITS;
}

}  // namespace

Inflater::Inflater(io::ReadableFile& file, uint64_t begin, uint64_t end,
                   Format format)
    : file_(file), end_(end), format_(format), fetched_(begin) {}

Inflater::~Inflater() {
  if (initialized_) inflateEnd(&stream_);
}

absl::Status Inflater::Initialize() {
  if (initialized_) return absl::OkStatus();
  if (inflateInit2(&stream_, WindowBits(format_)) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to decompress with");
  }
  initialized_ = true;
  input_.resize(std::min(kInputBytes, end_ - fetched_));
  return absl::OkStatus();
}

absl::Status Inflater::Fetch() {
  if (stream_.avail_in > 0 || fetched_ == end_) return absl::OkStatus();
  const uint64_t count = std::min<uint64_t>(input_.size(), end_ - fetched_);
  HEARTH_RETURN_IF_ERROR(
      file_.Read(fetched_, absl::MakeSpan(input_).first(count)));
  fetched_ += count;
  stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
  stream_.avail_in = static_cast<uInt>(count);
  return absl::OkStatus();
}

absl::Status Inflater::Damaged(absl::string_view problem) const {
  return absl::DataLossError(absl::StrCat(problem, ", at byte ", input_offset(),
                                          " of the compressed data"));
}

absl::Status Inflater::Step() {
  HEARTH_RETURN_IF_ERROR(Fetch());
  const bool input_is_over = stream_.avail_in == 0;
  switch (inflate(&stream_, Z_NO_FLUSH)) {
    case Z_OK:
      return absl::OkStatus();
    case Z_STREAM_END:
      ended_ = true;
      return absl::OkStatus();
    case Z_BUF_ERROR:
      if (!input_is_over) return absl::OkStatus();
      return Damaged("is truncated");
    case Z_MEM_ERROR:
      return absl::ResourceExhaustedError("no memory to decompress with");
    default:
      return Damaged(absl::StrCat("is damaged: ", stream_.msg == nullptr
                                                      ? "a dictionary is needed"
                                                      : stream_.msg));
  }
}

absl::StatusOr<size_t> Inflater::Read(absl::Span<std::byte> out) {
  if (status_.ok()) status_ = Initialize();
  size_t done = 0;
  while (status_.ok() && !ended_ && done < out.size()) {
    const size_t wanted = std::min(out.size() - done, kMaxStepBytes);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream_.avail_out = static_cast<uInt>(wanted);
    status_ = Step();
    done += wanted - stream_.avail_out;
  }
  HEARTH_RETURN_IF_ERROR(status_);
  return done;
}

absl::Status Inflater::SkipZeros() {
  do {
    while (stream_.avail_in > 0) {
      if (*stream_.next_in != 0) return absl::OkStatus();
      ++stream_.next_in;
      --stream_.avail_in;
    }
    HEARTH_RETURN_IF_ERROR(Fetch());
  } while (stream_.avail_in > 0);
  return absl::OkStatus();
}

void Inflater::StartStream() {
  inflateReset(&stream_);
  ended_ = false;
}

}  // namespace hearth::ingest
