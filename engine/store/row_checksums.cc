#include "engine/store/row_checksums.h"

#include <utility>

#include "absl/base/const_init.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/store/array_writer.h"
#include "engine/store/dtype.h"
#include "engine/store/scan_array.h"

namespace hearth::store {
namespace {

uint32_t RowBytes(const ArrayFile& features) {
  return static_cast<uint32_t>(features.shape[1] * SizeOf(features.dtype));
}

// Two jobs must not write the same temporary file.
ABSL_CONST_INIT absl::Mutex making(absl::kConstInit);

absl::Status WriteChecksums(io::FileSystem& files, const std::string& folder,
                            const ArrayFile& features, const std::string& path,
                            const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<BlockChecksumWriter> writer,
                          NewRowChecksumWriter(files, path, features));
  HEARTH_RETURN_IF_ERROR(ScanArray(
      files, folder, features, stop,
      [&](absl::Span<const std::byte> part) { return writer->Append(part); }));
  return writer->Finish(features.crc_file_crc32c).status();
}

// Makes the file `path`, whole or not at all.
absl::Status MakeFile(io::FileSystem& files, const std::string& folder,
                      const ArrayFile& features, const std::string& path,
                      const std::stop_token& stop) {
  const std::string temporary = absl::StrCat(path, io::kTemporarySuffix);
  absl::Status status =
      WriteChecksums(files, folder, features, temporary, stop);
  if (status.ok()) status = files.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is the one to tell.
    files.RemoveTree(temporary).IgnoreError();
    return status;
  }
  return files.SyncDirectory(folder);
}

}  // namespace

std::string RowChecksumPath(const ArrayFile& features) {
  return absl::StrCat(absl::StripSuffix(features.crc_path, kChecksumSuffix),
                      ".rows", kChecksumSuffix);
}

uint64_t RowChecksumBytes(int64_t num_rows) {
  return static_cast<uint64_t>(num_rows) * sizeof(uint32_t) +
         BlockChecksums::kSealBytes;
}

absl::StatusOr<std::unique_ptr<BlockChecksumWriter>> NewRowChecksumWriter(
    io::FileSystem& files, const std::string& path, const ArrayFile& features) {
  return BlockChecksumWriter::Create(files, path, features.file_id,
                                     RowBytes(features));
}

RowChecksums::RowChecksums(const ArrayFile& features, BlockChecksums checksums)
    : file_id_(features.file_id),
      row_bytes_(RowBytes(features)),
      checksums_(std::move(checksums)) {}

absl::StatusOr<std::unique_ptr<RowChecksums>> RowChecksums::Load(
    io::FileSystem& files, const std::string& folder, const ArrayFile& features,
    const std::stop_token& stop) {
  const std::string path = io::JoinPath(folder, RowChecksumPath(features));
  const auto load = [&] {
    return BlockChecksums::LoadSealed(files, path,
                                      static_cast<uint64_t>(features.shape[0]),
                                      features.crc_file_crc32c, stop);
  };
  absl::StatusOr<BlockChecksums> checksums = load();
  if (absl::IsNotFound(checksums.status()) ||
      absl::IsDataLoss(checksums.status())) {
    absl::MutexLock lock(&making);
    HEARTH_RETURN_IF_ERROR(MakeFile(files, folder, features, path, stop));
    checksums = load();
  }
  HEARTH_RETURN_IF_ERROR(checksums.status());
  return std::unique_ptr<RowChecksums>(
      new RowChecksums(features, *std::move(checksums)));
}

bool RowChecksums::Matches(int64_t row, const std::byte* bytes) const {
  return checksums_.Matches({bytes, row_bytes_}, file_id_,
                            static_cast<uint64_t>(row));
}

}  // namespace hearth::store
