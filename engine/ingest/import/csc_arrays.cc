#include "engine/ingest/import/csc_arrays.h"

#include "engine/base/status_macros.h"

namespace hearth::ingest {

store::DType IndexType(int64_t num_sources) {
  return num_sources <= INT32_MAX ? store::DType::kInt32 : store::DType::kInt64;
}

absl::StatusOr<std::unique_ptr<CscWriter>> CscWriter::Create(
    io::FileSystem& files, const store::ArrayPlace& place, const EdgeEnds& ends,
    int64_t num_edges) {
  auto writer = std::unique_ptr<CscWriter>(new CscWriter());
  writer->narrow_ = IndexType(ends.num_sources) == store::DType::kInt32;
  HEARTH_ASSIGN_OR_RETURN(
      writer->indptr_, store::ArrayWriter::Create(
                           files, place, "indptr", store::DType::kInt64,
                           {ends.num_destinations + 1}, store::kStreamAccess));
  HEARTH_ASSIGN_OR_RETURN(
      writer->indices_,
      store::ArrayWriter::Create(files, place, "indices",
                                 IndexType(ends.num_sources), {num_edges},
                                 store::kStreamAccess));
  return writer;
}

absl::Status CscWriter::AppendOffsets(absl::Span<const int64_t> offsets) {
  return indptr_->AppendValues(offsets);
}

absl::Status CscWriter::AppendNeighbors(absl::Span<const int64_t> neighbors) {
  if (!narrow_) return indices_->AppendValues(neighbors);
  narrowed_.assign(neighbors.begin(), neighbors.end());
  return indices_->AppendValues(absl::MakeConstSpan(narrowed_));
}

absl::Status CscWriter::AppendNeighbors(absl::Span<const int32_t> neighbors) {
  return indices_->AppendValues(neighbors);
}

absl::StatusOr<CscArrays> CscWriter::Finish() {
  CscArrays arrays;
  HEARTH_ASSIGN_OR_RETURN(arrays.indptr, indptr_->Finish());
  HEARTH_ASSIGN_OR_RETURN(arrays.indices, indices_->Finish());
  return arrays;
}

}  // namespace hearth::ingest
