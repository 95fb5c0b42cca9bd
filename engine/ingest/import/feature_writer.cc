#include "engine/ingest/import/feature_writer.h"

#include "engine/base/status_macros.h"
#include "engine/store/row_checksums.h"

namespace hearth::ingest {

absl::StatusOr<FeatureWriter> FeatureWriter::Create(
    io::FileSystem& files, const store::ArrayPlace& place, store::DType dtype,
    std::vector<int64_t> shape) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::ArrayWriter> array,
      store::ArrayWriter::Create(files, place, kFeatures, dtype,
                                 std::move(shape), store::kRandomAccess));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::BlockChecksumWriter> row_checksums,
      NewRowChecksums(files, place, array->entry()));
  return FeatureWriter(std::move(array), std::move(row_checksums));
}

absl::Status FeatureWriter::Append(absl::Span<const std::byte> rows) {
  HEARTH_RETURN_IF_ERROR(row_checksums_->Append(rows));
  return array_->Append(rows);
}

absl::StatusOr<store::FinishedArray> FeatureWriter::Finish() {
  HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array, array_->Finish());
  HEARTH_RETURN_IF_ERROR(
      row_checksums_->Finish(array.file.crc_file_crc32c).status());
  return array;
}

absl::StatusOr<std::unique_ptr<store::BlockChecksumWriter>> NewRowChecksums(
    io::FileSystem& files, const store::ArrayPlace& place,
    const store::ArrayFile& features) {
  return store::NewRowChecksumWriter(
      files, io::JoinPath(place.folder, store::RowChecksumPath(features)),
      features);
}

}  // namespace hearth::ingest
