#ifndef HEARTH_ENGINE_INGEST_FORMATS_TORCH_SPLIT_H_
#define HEARTH_ENGINE_INGEST_FORMATS_TORCH_SPLIT_H_

#include <string>

#include "absl/status/status.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Opens split_idx.pth in `folder` as the split of the only nodes of `graph`: a
/// dictionary of tensors, or of numpy's arrays, train, valid and test. Where
/// there is no test but a test-dev, that is taken, and noted. INVALID_ARGUMENT
/// or DATA_LOSS, naming the file, for anything else.
absl::Status OpenTorchSplit(io::FileSystem& files, const std::string& folder,
                            SourceGraph& graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_TORCH_SPLIT_H_
