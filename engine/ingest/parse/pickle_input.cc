#include "engine/ingest/parse/pickle_input.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kBufferBytes = 64 << 10;
constexpr size_t kMaxLineBytes = 256;

}  // namespace

absl::StatusOr<PickleInput> PickleInput::Open(io::ReadableFile& file,
                                              uint64_t begin, uint64_t limit) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  const uint64_t start = std::min(begin, info.size_bytes);
  const uint64_t end = start + std::min(limit, info.size_bytes - start);
  return PickleInput(file, start, end, info.size_bytes);
}

absl::Status PickleInput::CheckLeft(uint64_t count) const {
  if (count <= end_ - position()) return absl::OkStatus();
  if (end_ == file_size_) {
    return absl::DataLossError(
        absl::StrCat("is truncated: the pickle goes on after byte ", end_));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("has a pickle that goes on after byte ", end_,
                   ", the most that is read"));
}

absl::Status PickleInput::Fill() {
  HEARTH_RETURN_IF_ERROR(CheckLeft(1));
  buffer_.resize(std::min(kBufferBytes, end_ - next_));
  used_ = 0;
  HEARTH_RETURN_IF_ERROR(file_->Read(next_, absl::MakeSpan(buffer_)));
  next_ += buffer_.size();
  return absl::OkStatus();
}

absl::StatusOr<uint8_t> PickleInput::TakeByte() {
  if (used_ == buffer_.size()) HEARTH_RETURN_IF_ERROR(Fill());
  return std::to_integer<uint8_t>(buffer_[used_++]);
}

absl::StatusOr<uint64_t> PickleInput::TakeNumber(size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t byte, TakeByte());
    value |= byte << (8 * i);
  }
  return value;
}

absl::StatusOr<std::string> PickleInput::TakeBytes(uint64_t count) {
  HEARTH_RETURN_IF_ERROR(CheckLeft(count));
  std::string bytes(count, '\0');
  const auto out =
      absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  const size_t buffered = std::min<uint64_t>(count, buffer_.size() - used_);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(used_), buffered,
              out.begin());
  used_ += buffered;
  HEARTH_RETURN_IF_ERROR(file_->Read(next_, out.subspan(buffered)));
  next_ += count - buffered;
  return bytes;
}

absl::StatusOr<std::string> PickleInput::TakeLine() {
  std::string line;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const uint8_t byte, TakeByte());
    if (byte == '\n') return line;
    if (line.size() == kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a name of more than ", kMaxLineBytes,
                       " bytes at byte ", position()));
    }
    line.push_back(static_cast<char>(byte));
  }
}

}  // namespace hearth::ingest
