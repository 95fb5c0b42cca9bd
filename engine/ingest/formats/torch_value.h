#ifndef HEARTH_ENGINE_INGEST_FORMATS_TORCH_VALUE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_TORCH_VALUE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/array_reader.h"

/// Arrays in files that torch.save wrote.

namespace hearth::ingest {

/// The array that `value`, a part of the file's root or null, is: a tensor, or
/// an array of numpy's within the pickle. "PATH: NAME" in messages, PATH alone
/// if `name` is empty. May outlive `file`. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchValue(
    const TorchFile& file, const PickleValue* value,
    absl::string_view name = "");

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_TORCH_VALUE_H_
