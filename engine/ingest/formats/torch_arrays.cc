#include "engine/ingest/formats/torch_arrays.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/torch_value.h"
#include "engine/ingest/import/scratch_array.h"

namespace hearth::ingest {
namespace {

/// Elements that are read from within a pickle lie in memory.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenNumpy(ImportContext& context,
                                                       const NumpyArray& array,
                                                       std::string name) {
  if (array.fortran_order && array.shape.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is in Fortran order; C order is needed"));
  }
  HEARTH_RETURN_IF_ERROR(context.CheckSpace(array.data.size(), name));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchArray> scratch,
      ScratchArray::Create(context, array.type, std::move(name)));
  HEARTH_RETURN_IF_ERROR(scratch->Append(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(array.data.data()),
                          array.data.size())));
  return scratch->Finish(array.shape);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchFile>> OpenTorchFile(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(files, path));
  return TorchFile::Open(std::move(file));
}

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchArray(
    ImportContext& context, const TorchFile& file, const PickleValue& dict,
    absl::string_view key) {
  const PickleValue* value = dict.Find(key);
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": has no \"", key, "\""));
  }
  if (const auto* array = value->As<NumpyArray>()) {
    return OpenNumpy(context, *array, absl::StrCat(file.path(), ": ", key));
  }
  if (value->As<TorchTensor>() != nullptr) return OpenTorchValue(file, value);
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": \"", key, "\" is ", value->KindName(),
                   "; an array or a tensor is needed"));
}

absl::StatusOr<int64_t> ReadTorchCount(const TorchFile& file,
                                       absl::string_view key) {
  const PickleValue* value = file.root().Find(key);
  const int64_t* count = value == nullptr ? nullptr : value->As<int64_t>();
  if (count != nullptr && *count > 0) return *count;
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": \"", key, "\" is ",
                   value == nullptr   ? "missing"
                   : count == nullptr ? value->KindName()
                                      : absl::StrCat(*count),
                   "; a whole number of 1 or more is needed"));
}

}  // namespace hearth::ingest
