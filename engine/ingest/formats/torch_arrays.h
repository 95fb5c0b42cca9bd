#ifndef HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// Numbers and arrays in files that torch.save wrote, such as split_dict.pt.

namespace hearth::ingest {

/// Opens the file at `path`. INVALID_ARGUMENT if there is none; otherwise
/// errors of TorchFile::Open.
absl::StatusOr<std::unique_ptr<TorchFile>> OpenTorchFile(
    io::FileSystem& files, const std::string& path);

/// Opens `value`, which belongs to the file's root or is null, as an array: a
/// tensor, or a numpy array in the pickle. Called "PATH: NAME" in messages, or
/// PATH if `name` is empty. May outlive `file`. INVALID_ARGUMENT for anything
/// else.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchValue(
    const TorchFile& file, const PickleValue* value,
    absl::string_view name = "");

/// Opens the entry `key` of `dict`, a tensor or numpy array in `file`, as an
/// array called "PATH: KEY" in messages. INVALID_ARGUMENT, naming the key, if
/// it is missing or something else.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchArray(
    ImportContext& context, const TorchFile& file, const PickleValue& dict,
    absl::string_view key);

/// A count of 1 or more: the whole number under `key` of the dictionary in
/// `file`. INVALID_ARGUMENT, naming the key, for anything else.
absl::StatusOr<int64_t> ReadTorchCount(const TorchFile& file,
                                       absl::string_view key);

/// Opens split_idx.pth in `folder` as the split of the only nodes of `graph`: a
/// dictionary of tensors or numpy arrays, train, valid and test. Without test,
/// test-dev is read instead, and noted in the transforms. INVALID_ARGUMENT or
/// DATA_LOSS, naming the file, for anything else.
absl::Status OpenTorchSplit(io::FileSystem& files, const std::string& folder,
                            SourceGraph& graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_
