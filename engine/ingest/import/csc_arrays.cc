#include "engine/ingest/import/csc_arrays.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/stored_array.h"

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

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenWritten(
    io::FileSystem& files, const std::string& folder,
    const store::ArrayFile& array) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          store::OpenVerifiedFile(files, folder, array));
  return ArrayReader::ReadNpy(std::move(file));
}

namespace {

constexpr int64_t kBlockElements = 64 << 10;

absl::Status CheckIntegerList(const ArrayReader& reader) {
  const store::ArrayHeader& header = reader.header();
  if (header.type.IsFloat() ||
      header.type.kind == store::ElementType::Kind::kBool) {
    return reader.Error(
        absl::StrCat("has ", Name(header.type), " elements, not integers"));
  }
  if (header.shape.size() == 1) return absl::OkStatus();
  return reader.Error(absl::StrCat("has shape ",
                                   store::FormatShape(header.shape),
                                   "; one dimension is needed"));
}

absl::Status CopyIndptr(ImportContext& context, ArrayReader& indptr,
                        const ArrayReader& indices, CscWriter& writer) {
  const int64_t num_edges = indices.header().shape[0];
  const int64_t count = indptr.header().shape[0];
  int64_t previous = 0;
  std::vector<int64_t> block;
  for (int64_t first = 0; first < count; first += kBlockElements) {
    block.resize(static_cast<size_t>(std::min(kBlockElements, count - first)));
    HEARTH_RETURN_IF_ERROR(indptr.ReadInts(first, absl::MakeSpan(block)));
    if (first == 0 && block[0] != 0) {
      return indptr.ErrorAt(0, absl::StrCat("is ", block[0], ", not 0"));
    }
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] < previous) {
        return indptr.ErrorAt(first + static_cast<int64_t>(i),
                              absl::StrCat("is ", block[i], ", less than ",
                                           previous, " before it"));
      }
      previous = block[i];
    }
    HEARTH_RETURN_IF_ERROR(writer.AppendOffsets(block));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * sizeof(int64_t)));
  }
  if (previous == num_edges) return absl::OkStatus();
  return indptr.ErrorAt(count - 1,
                        absl::StrCat("is ", previous, ", but ", indices.path(),
                                     " has ", num_edges, " elements"));
}

absl::Status CopyIndices(ImportContext& context, ArrayReader& indices,
                         int64_t num_nodes, CscWriter& writer) {
  const int64_t count = indices.header().shape[0];
  std::vector<int64_t> block;
  for (int64_t first = 0; first < count; first += kBlockElements) {
    block.resize(static_cast<size_t>(std::min(kBlockElements, count - first)));
    HEARTH_RETURN_IF_ERROR(indices.ReadInts(first, absl::MakeSpan(block)));
    for (size_t i = 0; i < block.size(); ++i) {
      if (block[i] >= 0 && block[i] < num_nodes) continue;
      return indices.ErrorAt(
          first + static_cast<int64_t>(i),
          absl::StrCat("is ", block[i], "; node ids are 0 .. ", num_nodes - 1));
    }
    HEARTH_RETURN_IF_ERROR(writer.AppendNeighbors(absl::MakeConstSpan(block)));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCscHeaders(const ArrayReader& indptr,
                             const ArrayReader& indices, const EdgeEnds& ends) {
  HEARTH_RETURN_IF_ERROR(CheckIntegerList(indptr));
  HEARTH_RETURN_IF_ERROR(CheckIntegerList(indices));
  const int64_t count = indptr.header().shape[0];
  if (count == ends.num_destinations + 1) return absl::OkStatus();
  return indptr.Error(
      absl::StrCat("has ", count, " elements; with ", ends.num_destinations,
                   " nodes it must have ", ends.num_destinations + 1));
}

absl::StatusOr<CscArrays> CopyCsc(ImportContext& context, ArrayReader& indptr,
                                  ArrayReader& indices, const EdgeEnds& ends,
                                  const store::ArrayPlace& place) {
  const int64_t num_edges = indices.header().shape[0];
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<CscWriter> writer,
      CscWriter::Create(context.files(), place, ends, num_edges));
  context.Begin("edges",
                static_cast<uint64_t>(ends.num_destinations + 1 + num_edges) *
                    sizeof(int64_t));
  HEARTH_RETURN_IF_ERROR(CopyIndptr(context, indptr, indices, *writer));
  HEARTH_RETURN_IF_ERROR(
      CopyIndices(context, indices, ends.num_sources, *writer));
  return writer->Finish();
}

}  // namespace hearth::ingest
