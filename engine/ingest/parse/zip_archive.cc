#include "engine/ingest/parse/zip_archive.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/parse/zip_member.h"

namespace hearth::ingest {

ZipArchive::ZipArchive(std::shared_ptr<io::ReadableFile> file,
                       std::vector<ZipMember> members, absl::Time modified)
    : file_(std::move(file)),
      members_(std::move(members)),
      modified_(modified) {}

absl::StatusOr<std::unique_ptr<ZipArchive>> ZipArchive::Open(
    std::shared_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(std::vector<ZipMember> members,
                          ReadZipDirectory(*file));
  return std::unique_ptr<ZipArchive>(
      new ZipArchive(std::move(file), std::move(members), info.modified));
}

const ZipMember* ZipArchive::Find(absl::string_view name) const {
  const auto found =
      std::find_if(members_.begin(), members_.end(),
                   [&](const ZipMember& m) { return m.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

absl::StatusOr<uint64_t> ZipArchive::DataOffset(absl::string_view name) const {
  const ZipMember* const member = Find(name);
  if (member == nullptr) {
    return absl::NotFoundError(absl::StrCat(file_->path(), ": has no member \"",
                                            absl::CEscape(name), "\""));
  }
  return ReadZipDataOffset(*file_, *member);
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> ZipArchive::OpenMember(
    absl::string_view name) const {
  HEARTH_ASSIGN_OR_RETURN(const uint64_t offset, DataOffset(name));
  return NewZipMemberFile(file_, *Find(name), offset, modified_);
}

}  // namespace hearth::ingest
