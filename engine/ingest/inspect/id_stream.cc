#include "engine/ingest/inspect/id_stream.h"

#include <algorithm>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockIds = 4096;

}  // namespace

absl::StatusOr<IdStream> IdStream::Open(io::FileSystem& files,
                                        const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> ids,
                          ArrayReader::OpenNpy(files, path));
  IdStream stream(std::move(ids));
  HEARTH_RETURN_IF_ERROR(stream.ReadBlock());
  return stream;
}

absl::Status IdStream::Next() {
  ++at_;
  return at_ < block_.size() ? absl::OkStatus() : ReadBlock();
}

absl::Status IdStream::ReadBlock() {
  const int64_t left = ids_->header().NumElements() - num_read_;
  block_.resize(static_cast<size_t>(std::min(left, kBlockIds)));
  at_ = 0;
  if (block_.empty()) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(ids_->ReadInts(num_read_, absl::MakeSpan(block_)));
  num_read_ += static_cast<int64_t>(block_.size());
  return absl::OkStatus();
}

}  // namespace hearth::ingest
