#include "engine/ingest/formats/torch_arrays.h"

#include <array>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/torch_file.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

namespace {

constexpr char kSplitFile[] = "split_idx.pth";
constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};
constexpr char kTestDev[] = "test-dev";

/// `file` under another path, for a part of a file, so that messages name a
/// file that the user knows. Errors of reading still name `file`.
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

/// Elements of an array in a pickle are in memory.
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

absl::Status OpenTorchSplit(io::FileSystem& files, const std::string& folder,
                            SourceGraph& graph) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<TorchFile> file,
      OpenTorchFile(files, io::JoinPath(folder, kSplitFile)));
  for (size_t i = 0; i < kParts.size(); ++i) {
    const PickleValue* part = file->root().Find(kParts[i]);
    const PickleValue* const test_dev = file->root().Find(kTestDev);
    if (part == nullptr && i == 2 && test_dev != nullptr) {
      part = test_dev;
      graph.transforms.push_back(
          absl::StrCat(kSplitFile, ": ", kTestDev, " taken for test"));
    }
    HEARTH_ASSIGN_OR_RETURN(graph.nodes[0].split[i],
                            OpenTorchValue(*file, part, kParts[i]));
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
