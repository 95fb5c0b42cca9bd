#ifndef HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"

/// Numbers and arrays in files that torch.save wrote, such as split_dict.pt.

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_TORCH_ARRAYS_H_
