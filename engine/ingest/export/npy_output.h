#ifndef HEARTH_ENGINE_INGEST_EXPORT_NPY_OUTPUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_NPY_OUTPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {

/// An .npy file being made. Headers take 128 bytes, as numpy's do.
struct NpyFile {
  std::string path;
  store::DType dtype = store::DType::kInt64;
  std::vector<int64_t> shape;
};

/// Writes a file whose elements `write` appends.
absl::Status WriteNpy(OutputFolder& folder, const NpyFile& file,
                      absl::FunctionRef<absl::Status(ByteSink&)> write);

/// Features (N, dim) in their own type, but float64 as float32.
absl::Status WriteFeatureNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& features, const std::string& path);

/// Labels (N) of type int64 or float32, see WriteLabels.
absl::Status WriteLabelNpy(ImportContext& context, OutputFolder& folder,
                           ArrayReader& labels, const NpyFile& file);

/// Integers (K) as int64.
absl::Status WriteIntegerNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& integers, const std::string& path);

/// Edges (2, E) as int64.
absl::Status WriteEdgeNpy(ImportContext& context, OutputFolder& folder,
                          EdgeSource& edges, const std::string& path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_NPY_OUTPUT_H_
