#include "engine/ingest/export/npy_output.h"

#include <memory>

#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/store/npy.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kHeaderBytes = 128;

}  // namespace

absl::Status WriteNpy(OutputFolder& folder, const NpyFile& file,
                      absl::FunctionRef<absl::Status(ByteSink&)> write) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                          folder.NewSink(file.path));
  HEARTH_RETURN_IF_ERROR(sink->AppendText(
      store::FormatNpyHeader(file.dtype, file.shape, kHeaderBytes)));
  HEARTH_RETURN_IF_ERROR(write(*sink));
  return sink->Finish();
}

absl::Status WriteFeatureNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& features, const std::string& path) {
  const NpyFile file{path, StoredType(features.header()),
                     features.header().shape};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteFeatures(context, features, file.dtype, sink);
  });
}

absl::Status WriteLabelNpy(ImportContext& context, OutputFolder& folder,
                           ArrayReader& labels, const NpyFile& file) {
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteLabels(context, labels, file.dtype, sink);
  });
}

absl::Status WriteIntegerNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& integers, const std::string& path) {
  const NpyFile file{
      path, store::DType::kInt64, {integers.header().NumElements()}};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteIntegers(context, integers, file.dtype, sink);
  });
}

absl::Status WriteEdgeNpy(ImportContext& context, OutputFolder& folder,
                          EdgeSource& edges, const std::string& path) {
  const NpyFile file{path, store::DType::kInt64, {2, edges.num_edges()}};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteEdgeRows(context, edges, sink);
  });
}

}  // namespace hearth::ingest
