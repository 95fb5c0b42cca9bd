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

/// Arrays in files that torch.save wrote.

namespace hearth::ingest {

/// The array that `value`, a part of the file's root or null, is: a tensor, or
/// an array of numpy's within the pickle. "PATH: NAME" in messages, PATH alone
/// if `name` is empty. May outlive `file`. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchValue(
    const TorchFile& file, const PickleValue* value,
    absl::string_view name = "");

/// Numbers and arrays in files that torch.save wrote, such as split_dict.pt.

/// The file at `path`. INVALID_ARGUMENT if there is none; else as
/// TorchFile::Open.
absl::StatusOr<std::unique_ptr<TorchFile>> OpenTorchFile(
    io::FileSystem& files, const std::string& path);

/// The entry `key` of `dict`, a numpy array or a tensor within `file`, as an
/// array that is called "PATH: KEY" in messages. INVALID_ARGUMENT naming the
/// key if it is missing or something else.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchArray(
    ImportContext& context, const TorchFile& file, const PickleValue& dict,
    absl::string_view key);

/// The whole number under `key` of the dictionary in `file`, which counts
/// something: 1 or more. INVALID_ARGUMENT naming the key for anything else.
absl::StatusOr<int64_t> ReadTorchCount(const TorchFile& file,
                                       absl::string_view key);

/// Opens split_idx.pth in `folder` as the split of the only nodes of `graph`: a
/// dictionary of tensors, or of numpy's arrays, train, valid and test. Where
/// there is no test but a test-dev, that is taken, and noted. INVALID_ARGUMENT
/// or DATA_LOSS, naming the file, for anything else.
absl::Status OpenTorchSplit(io::FileSystem& files, const std::string& folder,
                            SourceGraph& graph);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_
