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

/// Files like torch.save's: a zip file of stored members, with a pickle of
/// protocol 2 and the elements of tensors, each at a multiple of 64 bytes,
/// where torch.load can map them. Written by hand, because libzip cannot align
/// members.

namespace hearth::ingest {

/// A tensor to be written for torch.load.
struct TensorOutput {
  /// Key of the tensor in a dict.
  std::string name;
  store::DType dtype = store::DType::kInt64;
  std::vector<int64_t> shape;
  /// Appends the elements in C order.
  std::function<absl::Status(ByteSink&)> write;
};

/// Writes one tensor, which torch.load(path, weights_only=True) returns.
absl::Status WriteTorchTensor(OutputFolder& folder, const std::string& path,
                              const TensorOutput& tensor);

/// Writes a dict of tensors by their names.
absl::Status WriteTorchDict(OutputFolder& folder, const std::string& path,
                            absl::Span<const TensorOutput> tensors);

/// Writes a dict of numbers by their names.
absl::Status WriteTorchCounts(
    OutputFolder& folder, const std::string& path,
    absl::Span<const std::pair<std::string, int64_t>> counts);

/// Writes GraphBolt's FusedCSCSamplingGraph of a homogeneous graph; the tensors
/// are "indptr" and "indices". Loading it needs dgl.graphbolt.
absl::Status WriteFusedCscGraph(OutputFolder& folder, const std::string& path,
                                absl::Span<const TensorOutput> tensors);

/// A tensor of integers, as int32 or int64. The references must outlive it.
TensorOutput IntegerTensor(ImportContext& context, std::string name,
                           store::DType dtype, ArrayReader& integers);

/// Writes the split of nodes: a dict of int64 tensors train, valid and test.
/// REQUIRES: all parts are there.
absl::Status WriteTorchSplit(ImportContext& context, SourceNodes& nodes,
                             OutputFolder& folder, const std::string& path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_TORCH_WRITER_H_
