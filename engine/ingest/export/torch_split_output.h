#ifndef HEARTH_ENGINE_INGEST_EXPORT_TORCH_SPLIT_OUTPUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_TORCH_SPLIT_OUTPUT_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/torch_writer.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/dtype.h"

namespace hearth::ingest {

/// A tensor of integers, of int32 or int64. The references must outlive it.
TensorOutput IntegerTensor(ImportContext& context, std::string name,
                           store::DType dtype, ArrayReader& integers);

/// The split of nodes: a dict of int64 tensors train, valid and test.
/// REQUIRES: all parts are there.
absl::Status WriteTorchSplit(ImportContext& context, SourceNodes& nodes,
                             OutputFolder& folder, const std::string& path);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_TORCH_SPLIT_OUTPUT_H_
