#ifndef HEARTH_ENGINE_INGEST_EXPORT_TORCH_WRITER_H_
#define HEARTH_ENGINE_INGEST_EXPORT_TORCH_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

/// A tensor of a file for torch.load.
struct TensorOutput {
  /// Its key, in a dict.
  std::string name;
  store::DType dtype = store::DType::kInt64;
  std::vector<int64_t> shape;
  /// Appends its elements in C order.
  std::function<absl::Status(ByteSink&)> write;
};

/// Files as torch.save makes them: a zip of stored members, a pickle of
/// protocol 2 and the tensors' elements, each at a multiple of 64 bytes.

/// One tensor, as torch.load(path, weights_only=True) gives it.
absl::Status WriteTorchTensor(OutputFolder& folder, const std::string& path,
                              const TensorOutput& tensor);

/// A dict of tensors by their names.
absl::Status WriteTorchDict(OutputFolder& folder, const std::string& path,
                            absl::Span<const TensorOutput> tensors);

/// A dict of numbers by their names.
absl::Status WriteTorchCounts(
    OutputFolder& folder, const std::string& path,
    absl::Span<const std::pair<std::string, int64_t>> counts);

/// GraphBolt's FusedCSCSamplingGraph of a homogeneous graph: the tensors are
/// "indptr" and "indices". To be loaded where dgl.graphbolt is.
absl::Status WriteFusedCscGraph(OutputFolder& folder, const std::string& path,
                                absl::Span<const TensorOutput> tensors);

/// A tensor of integers, of int32 or int64. The references must outlive it.
TensorOutput IntegerTensor(ImportContext& context, std::string name,
                           store::DType dtype, ArrayReader& integers);

/// The split of nodes: a dict of int64 tensors train, valid and test.
/// REQUIRES: all parts are there.
absl::Status WriteTorchSplit(ImportContext& context, SourceNodes& nodes,
                             OutputFolder& folder, const std::string& path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_TORCH_WRITER_H_
