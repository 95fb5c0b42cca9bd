#include "engine/ingest/formats/id_runs.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

/// Before the id's bytes.
struct RecordHead {
  uint32_t number;
  uint32_t id_bytes;
};
static_assert(sizeof(RecordHead) + kMaxIdBytes == kMinRunBufferBytes);

void AppendBytes(const void* data, size_t size, std::vector<std::byte>& out) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdRunWriter>> IdRunWriter::Create(
    ImportContext& context) {
  HEARTH_ASSIGN_OR_RETURN(std::string path, context.NewScratchPath("ids"));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          context.files().Create(path));
  return std::unique_ptr<IdRunWriter>(
      new IdRunWriter(std::move(path), std::move(file)));
}

absl::Status IdRunWriter::Write(const IdTable& table) {
  IdRun run;
  run.num_ids = static_cast<int64_t>(table.size());
  run.offset = size_bytes_;
  for (const uint32_t number : table.Sorted()) {
    const absl::string_view id = table.id(number);
    const RecordHead head{number, static_cast<uint32_t>(id.size())};
    AppendBytes(&head, sizeof(head), buffer_);
    AppendBytes(id.data(), id.size(), buffer_);
    if (buffer_.size() >= kBufferBytes) HEARTH_RETURN_IF_ERROR(Flush(run));
  }
  HEARTH_RETURN_IF_ERROR(Flush(run));
  runs_.push_back(run);
  return absl::OkStatus();
}

absl::Status IdRunWriter::Flush(IdRun& run) {
  run.crc32c = Crc32c(buffer_, run.crc32c);
  run.size_bytes += buffer_.size();
  size_bytes_ += buffer_.size();
  HEARTH_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

IdRunReader::IdRunReader(io::ReadableFile& file, const IdRun& run,
                         size_t buffer_bytes)
    : file_(&file), run_(run), buffer_bytes_(buffer_bytes) {}

absl::Status IdRunReader::Damaged() const {
  return absl::DataLossError(
      absl::StrCat(file_->path(), ": the ids from byte ", run_.offset,
                   " on differ from the ids that were written"));
}

absl::Status IdRunReader::Fill() {
  const size_t kept = buffer_.size() - begin_;
  const size_t added =
      std::min<uint64_t>(buffer_bytes_ - kept, run_.size_bytes - bytes_read_);
  if (kept > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, kept);
  begin_ = 0;
  buffer_.resize(kept + added);
  const auto space = absl::MakeSpan(buffer_).subspan(kept);
  HEARTH_RETURN_IF_ERROR(file_->Read(run_.offset + bytes_read_, space));
  crc32c_ = Crc32c(space, crc32c_);
  bytes_read_ += added;
  const bool is_last = bytes_read_ == run_.size_bytes;
  return is_last && crc32c_ != run_.crc32c ? Damaged() : absl::OkStatus();
}

absl::StatusOr<bool> IdRunReader::Next() {
  const bool is_last = bytes_read_ == run_.size_bytes;
  if (buffer_.size() - begin_ < kMinRunBufferBytes && !is_last) {
    HEARTH_RETURN_IF_ERROR(Fill());
  }
  const size_t left = buffer_.size() - begin_;
  if (left == 0) return false;
  RecordHead head;
  if (left < sizeof(head)) return Damaged();
  std::memcpy(&head, buffer_.data() + begin_, sizeof(head));
  if (head.id_bytes > left - sizeof(head) || head.number >= run_.num_ids) {
    return Damaged();
  }
  id_ = absl::string_view(
      reinterpret_cast<const char*>(buffer_.data()) + begin_ + sizeof(head),
      head.id_bytes);
  number_ = head.number;
  begin_ += sizeof(head) + head.id_bytes;
  return true;
}

}  // namespace hearth::ingest
