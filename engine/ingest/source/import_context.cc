#include "engine/ingest/source/import_context.h"

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

namespace hearth::ingest {

ImportContext::ImportContext(io::FileSystem& files, uint64_t memory_limit_bytes,
                             std::string scratch_folder,
                             ImportProgress progress, std::stop_token stop)
    : files_(files),
      memory_limit_bytes_(memory_limit_bytes),
      scratch_folder_(std::move(scratch_folder)),
      progress_(std::move(progress)),
      stop_(std::move(stop)) {}

absl::StatusOr<std::string> ImportContext::NewScratchPath(
    absl::string_view name) {
  if (num_scratch_files_ == 0) {
    HEARTH_RETURN_IF_ERROR(
        files_.CreateDirectory(io::ParentDirectory(scratch_folder_)));
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(scratch_folder_));
  }
  return io::JoinPath(scratch_folder_,
                      absl::StrCat(num_scratch_files_++, ".", name));
}

absl::Status ImportContext::CheckSpace(uint64_t bytes, absl::string_view what) {
  // The dataset's folder may not exist yet, but its parent does.
  const std::string parent =
      io::ParentDirectory(io::ParentDirectory(scratch_folder_));
  HEARTH_ASSIGN_OR_RETURN(const uint64_t free, files_.FreeBytes(parent));
  if (bytes <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      parent, ": ", what, " needs ", bytes, " bytes (", FormatByteSize(bytes),
      "), ", free, " (", FormatByteSize(free), ") are free"));
}

void ImportContext::Begin(std::string phase, uint64_t total) {
  phase_ = std::move(phase);
  done_ = 0;
  total_ = total;
}

absl::Status ImportContext::Advance(uint64_t bytes) {
  done_ += bytes;
  if (stop_.stop_requested()) {
    return absl::CancelledError("cancelled on request");
  }
  if (progress_) progress_(phase_, done_, total_);
  return absl::OkStatus();
}

}  // namespace hearth::ingest
