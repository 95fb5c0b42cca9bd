#include "engine/ingest/parse/torch_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"

// torch/serialization.py. The zip format: FOLDER/data.pkl, FOLDER/data/KEY for
// each storage, and FOLDER/byteorder in newer files. The old format: pickles of
// a magic number, of the version (1001), of a dict about the writer, of what
// was saved, and of the list of storage keys; then for each key its number of
// elements in 8 bytes, and the elements.

namespace hearth::ingest {
namespace {

// Magic number of the old format, 0x1950a86a20f9469cfc6c, pickled by protocol 2
// like everything in it.
constexpr absl::string_view kOldMagic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
constexpr int64_t kOldVersion = 1001;
constexpr absl::string_view kZipMagic("PK\x03\x04", 4);
constexpr absl::string_view kPickleName = "/data.pkl";

/// A file with several owners.
class SharedFile final : public io::ReadableFile {
 public:
  explicit SharedFile(std::shared_ptr<io::ReadableFile> file)
      : file_(std::move(file)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    return file_->Read(offset, out);
  }
  absl::StatusOr<io::FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return file_->path(); }

 private:
  const std::shared_ptr<io::ReadableFile> file_;
};

absl::StatusOr<std::string> ReadText(io::ReadableFile& file, uint64_t offset,
                                     uint64_t most) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  std::string text(std::min(most, info.size_bytes - offset), '\0');
  HEARTH_RETURN_IF_ERROR(file.Read(
      offset,
      absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

absl::Status Invalid(absl::string_view path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

absl::Status WrongSize(absl::string_view path, const TorchStorage& storage,
                       absl::string_view found) {
  return absl::DataLossError(
      absl::StrCat(path, ": storage \"", absl::CEscape(storage.key), "\" has ",
                   found, ", the pickle says ", storage.num_elements,
                   " elements of ", Name(storage.type)));
}

absl::StatusOr<std::string> FindPrefix(const ZipArchive& archive,
                                       absl::string_view path) {
  std::string prefix;
  for (const ZipMember& member : archive.members()) {
    absl::string_view folder = member.name;
    if (!absl::ConsumeSuffix(&folder, kPickleName) || folder.empty() ||
        absl::StrContains(folder, '/')) {
      continue;
    }
    if (!prefix.empty()) return Invalid(path, "has several data.pkl");
    prefix = absl::StrCat(folder, "/");
  }
  if (prefix.empty()) {
    return Invalid(path, "is a zip file without PyTorch's data.pkl");
  }
  return prefix;
}

/// Number of elements of each storage, according to the pickle.
absl::StatusOr<absl::flat_hash_map<absl::string_view, const TorchStorage*>>
ListStorages(const PickleTree& tree, absl::string_view path) {
  absl::flat_hash_map<absl::string_view, const TorchStorage*> storages;
  for (const PickleValue& value : tree.values) {
    const auto* const storage = value.As<TorchStorage>();
    if (storage == nullptr) continue;
    const auto [found, is_new] = storages.try_emplace(storage->key, storage);
    if (!is_new && (found->second->type != storage->type ||
                    found->second->num_elements != storage->num_elements)) {
      return Invalid(path,
                     absl::StrCat("describes storage \"",
                                  absl::CEscape(storage->key), "\" twice"));
    }
  }
  return storages;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TorchFile>> TorchFile::Open(
    std::unique_ptr<io::ReadableFile> file, const PickleLimits& limits) {
  HEARTH_ASSIGN_OR_RETURN(const std::string start,
                          ReadText(*file, 0, kOldMagic.size()));
  std::unique_ptr<TorchFile> result(new TorchFile(std::move(file)));
  if (absl::StartsWith(start, kZipMagic)) {
    HEARTH_RETURN_IF_ERROR(result->ReadZip(limits));
  } else if (start == kOldMagic) {
    HEARTH_RETURN_IF_ERROR(result->ReadOld(limits));
  } else {
    return Invalid(result->path(),
                   "is not a PyTorch file: it begins with other bytes");
  }
  return result;
}

absl::Status TorchFile::ReadZip(const PickleLimits& limits) {
  HEARTH_ASSIGN_OR_RETURN(archive_, ZipArchive::Open(file_));
  HEARTH_ASSIGN_OR_RETURN(prefix_, FindPrefix(*archive_, path()));
  HEARTH_RETURN_IF_ERROR(CheckByteOrder());
  HEARTH_ASSIGN_OR_RETURN(const auto pickle, archive_->OpenMember(absl::StrCat(
                                                 prefix_, "data.pkl")));
  HEARTH_ASSIGN_OR_RETURN(PickleResult result, ReadPickle(*pickle, 0, limits));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, pickle->Info());
  if (result.end != info.size_bytes) {
    return Invalid(
        pickle->path(),
        absl::StrCat("goes on after its pickle, at byte ", result.end));
  }
  tree_ = std::move(result.tree);
  return ListStorages(tree_, path()).status();
}

absl::Status TorchFile::CheckByteOrder() const {
  const std::string name = absl::StrCat(prefix_, "byteorder");
  // Files older than torch 2.1 have no byteorder.
  if (archive_->Find(name) == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const auto member, archive_->OpenMember(name));
  HEARTH_ASSIGN_OR_RETURN(const std::string order, ReadText(*member, 0, 16));
  if (order == "little") return absl::OkStatus();
  return Invalid(member->path(), absl::StrCat("is \"", absl::CEscape(order),
                                              "\"; little is read"));
}

absl::Status TorchFile::ReadOld(const PickleLimits& limits) {
  HEARTH_ASSIGN_OR_RETURN(const PickleResult version,
                          ReadPickle(*file_, kOldMagic.size(), limits));
  const auto* const number = version.tree.root->As<int64_t>();
  if (number == nullptr || *number != kOldVersion) {
    return Invalid(path(), absl::StrCat("has a version of the old format other "
                                        "than ",
                                        kOldVersion));
  }
  HEARTH_ASSIGN_OR_RETURN(const PickleResult writer,
                          ReadPickle(*file_, version.end, limits));
  const PickleValue* const order = writer.tree.root->Find("little_endian");
  const auto* const is_little = order == nullptr ? nullptr : order->As<bool>();
  if (is_little == nullptr || !*is_little) {
    return Invalid(path(), "does not say that it is little-endian");
  }
  HEARTH_ASSIGN_OR_RETURN(PickleResult saved,
                          ReadPickle(*file_, writer.end, limits));
  tree_ = std::move(saved.tree);
  HEARTH_ASSIGN_OR_RETURN(const PickleResult keys,
                          ReadPickle(*file_, saved.end, limits));
  return FindStorages(*keys.tree.root, keys.end);
}

absl::Status TorchFile::FindStorages(const PickleValue& keys, uint64_t offset) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file_->Info());
  HEARTH_ASSIGN_OR_RETURN(const auto storages, ListStorages(tree_, path()));
  const auto* const list = keys.As<PickleList>();
  if (list == nullptr) return Invalid(path(), "has no list of storages");
  for (const PickleValue* item : list->items) {
    const auto* const key = item->As<std::string>();
    const auto found = key == nullptr ? storages.end() : storages.find(*key);
    if (found == storages.end()) {
      return Invalid(path(), "lists a storage that nothing refers to");
    }
    const TorchStorage& storage = *found->second;
    std::array<std::byte, sizeof(int64_t)> bytes;
    HEARTH_RETURN_IF_ERROR(file_->Read(offset, absl::MakeSpan(bytes)));
    int64_t count = 0;
    std::memcpy(&count, bytes.data(), sizeof(count));
    offset += sizeof(count);
    const auto size = store::ArrayBytes({count}, ItemBytes(storage.type));
    if (count != storage.num_elements || !size.has_value() ||
        static_cast<uint64_t>(*size) > info.size_bytes - offset) {
      return WrongSize(path(), storage,
                       absl::StrCat(count, " elements in ",
                                    info.size_bytes - offset, " bytes"));
    }
    if (!places_.try_emplace(*key, Place{offset, count}).second) {
      return Invalid(path(), "lists a storage twice");
    }
    offset += static_cast<uint64_t>(*size);
  }
  if (offset == info.size_bytes) return absl::OkStatus();
  return Invalid(path(),
                 absl::StrCat("goes on after its storages, at byte ", offset));
}

absl::StatusOr<TensorElements> TorchFile::OpenStorage(
    const TorchStorage& storage) const {
  const std::string name = absl::StrCat(prefix_, "data/", storage.key);
  const ZipMember* const member = archive_->Find(name);
  if (member == nullptr) return WrongSize(path(), storage, "no bytes");
  const auto size =
      store::ArrayBytes({storage.num_elements}, ItemBytes(storage.type));
  if (!size.has_value() || static_cast<uint64_t>(*size) != member->size_bytes) {
    return WrongSize(path(), storage,
                     absl::StrCat(member->size_bytes, " bytes"));
  }
  TensorElements elements;
  HEARTH_ASSIGN_OR_RETURN(elements.file, archive_->OpenMember(name));
  if (!member->is_deflated) {
    HEARTH_ASSIGN_OR_RETURN(elements.offset_in_archive,
                            archive_->DataOffset(name));
  }
  return elements;
}

absl::StatusOr<TensorElements> TorchFile::OpenOldStorage(
    const TorchStorage& storage) const {
  const auto found = places_.find(storage.key);
  if (found == places_.end()) return WrongSize(path(), storage, "no bytes");
  TensorElements elements;
  elements.file = std::make_unique<SharedFile>(file_);
  elements.offset = found->second.offset;
  elements.offset_in_archive = found->second.offset;
  return elements;
}

absl::StatusOr<TensorElements> TorchFile::OpenTensor(
    const TorchTensor& tensor) const {
  if (!tensor.IsContiguous()) {
    return Invalid(
        path(),
        absl::StrCat("has a tensor of shape ", store::FormatShape(tensor.shape),
                     " and strides ", store::FormatShape(tensor.strides),
                     ", which is not contiguous; save it after "
                     ".contiguous()"));
  }
  HEARTH_ASSIGN_OR_RETURN(TensorElements elements,
                          archive_ != nullptr
                              ? OpenStorage(*tensor.storage)
                              : OpenOldStorage(*tensor.storage));
  const int64_t item_bytes = ItemBytes(tensor.type());
  // Within the storage, as was checked when the tensor was made.
  const auto skipped =
      static_cast<uint64_t>(tensor.storage_offset * item_bytes);
  elements.offset += skipped;
  if (elements.offset_in_archive) *elements.offset_in_archive += skipped;
  elements.size_bytes = static_cast<uint64_t>(
      store::ArrayBytes(tensor.shape, item_bytes).value_or(0));
  return elements;
}

}  // namespace hearth::ingest
