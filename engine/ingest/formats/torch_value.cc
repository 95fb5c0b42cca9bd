#include "engine/ingest/formats/torch_value.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/memory_file.h"

namespace hearth::ingest {
namespace {

/// `file` under another name: for a part of a file, so that messages name what
/// the user knows. Errors of reading itself still name the file read.
class NamedFile final : public io::ReadableFile {
 public:
  NamedFile(std::unique_ptr<io::ReadableFile> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    return file_->Read(offset, out);
  }
  absl::StatusOr<io::FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return name_; }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const std::string name_;
};

store::ElementType TypeOf(TorchType type) {
  const int64_t bytes = ItemBytes(type);
  switch (type) {
    case TorchType::kFloat64:
    case TorchType::kFloat32:
    case TorchType::kFloat16:
      return {store::ElementType::Kind::kFloat, bytes};
    case TorchType::kBFloat16:
      return {store::ElementType::Kind::kBFloat, bytes};
    case TorchType::kUint8:
      return {store::ElementType::Kind::kUint, bytes};
    case TorchType::kBool:
      return {store::ElementType::Kind::kBool, bytes};
    case TorchType::kInt64:
    case TorchType::kInt32:
    case TorchType::kInt16:
    case TorchType::kInt8:
      break;
  }
  return {store::ElementType::Kind::kInt, bytes};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenTorchValue(
    const TorchFile& file, const PickleValue* value, absl::string_view name) {
  const std::string path =
      name.empty() ? file.path() : absl::StrCat(file.path(), ": ", name);
  if (value == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is missing"));
  }
  if (const auto* const tensor = value->As<TorchTensor>()) {
    HEARTH_ASSIGN_OR_RETURN(TensorElements elements, file.OpenTensor(*tensor));
    return ArrayReader::ReadRaw(
        std::make_unique<NamedFile>(std::move(elements.file), path),
        {.type = TypeOf(tensor->type()),
         .shape = tensor->shape,
         .data_offset = elements.offset});
  }
  if (const auto* const array = value->As<NumpyArray>()) {
    return ArrayReader::ReadRaw(
        io::NewMemoryFile(std::string(array->data), path),
        {.type = array->type,
         .fortran_order = array->fortran_order,
         .shape = array->shape});
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is ", value->KindName(),
                   "; a tensor or an array of numpy's is needed"));
}

}  // namespace hearth::ingest
