#include "engine/ingest/import/kept_parts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/feature_writer.h"
#include "engine/io/atomic_file.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"
#include "engine/store/row_checksums.h"
#include "engine/store/strict_json.h"

// Protocol of recording:
// 1. The arrays of the parts are whole and synced: store::ArrayWriter::Finish.
// 2. Sync the unfinished folder's parent, the first time.
// 3. Write the record anew, with all parts; sync it; rename it; sync the
//    folder, which makes the arrays' own entries durable, too.
// Recorded files are not written to again before the record is gone from the
// disk: a record always tells the truth about the files it names.

namespace hearth::ingest {
namespace {

constexpr uint64_t kMaxRecordBytes = 64 << 20;

/// Whether JSON holds the part's texts as they are.
bool IsText(const ImportPart& part) {
  return store::IsUtf8(part.name) &&
         std::all_of(
             part.transforms.begin(), part.transforms.end(),
             [](const std::string& text) { return store::IsUtf8(text); }) &&
         std::all_of(part.arrays.begin(), part.arrays.end(),
                     [](const PartArray& array) {
                       return store::IsUtf8(array.array.file.path);
                     });
}

struct NamedFile {
  std::string path;
  uint64_t size_bytes = 0;
};

/// The array's files in the folder.
std::vector<NamedFile> FilesOf(const PartArray& array) {
  const store::ArrayFile& file = array.array.file;
  const uint64_t data_bytes = file.file_size_bytes - file.data_offset;
  std::vector<NamedFile> files = {
      {file.crc_path,
       store::NumBlocks(data_bytes, file.crc_block_bytes) * sizeof(uint32_t)}};
  if (!file.in_place) files.push_back({file.path, file.file_size_bytes});
  if (array.what == kFeatures) {
    files.push_back({store::RowChecksumPath(file),
                     store::RowChecksumBytes(file.shape.front())});
  }
  return files;
}

/// Bytes of the array, wherever it lies: what it costs to go through it.
uint64_t BytesOf(const ImportPart& part) {
  uint64_t bytes = 0;
  for (const PartArray& array : part.arrays) {
    bytes += array.array.file.file_size_bytes;
  }
  return bytes;
}

}  // namespace

KeptParts::KeptParts(io::FileSystem& files, std::string folder,
                     const std::optional<ImportResumption>& resumption)
    : files_(files), folder_(std::move(folder)), resumption_(resumption) {}

std::string KeptParts::RecordPath() const {
  return io::JoinPath(folder_, kRecordName);
}

absl::Status KeptParts::Load() {
  const absl::Status read =
      resumption_.has_value() ? Read() : absl::NotFoundError("nothing is kept");
  // What the disk cannot tell now it may tell the next run.
  if (absl::IsUnavailable(read)) return read;
  if (!read.ok()) {
    recorded_.clear();
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(folder_));
    return absl::IsNotFound(read)
               ? absl::OkStatus()
               : files_.SyncDirectory(io::ParentDirectory(folder_));
  }
  for (const ImportPart& part : recorded_) {
    for (const PartArray& array : part.arrays) {
      for (const NamedFile& file : FilesOf(array)) {
        bytes_found_ += file.size_bytes;
      }
    }
  }
  return RemoveAllBut(recorded_);
}

absl::Status KeptParts::Read() {
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(files_, RecordPath(), kMaxRecordBytes));
  HEARTH_ASSIGN_OR_RETURN(PartRecord record, ParsePartRecord(text));
  source_digest_ = std::move(record.source_sha256);
  recorded_ = std::move(record.parts);
  return CheckFiles();
}

absl::Status KeptParts::CheckFiles() const {
  for (const ImportPart& part : recorded_) {
    for (const PartArray& array : part.arrays) {
      for (const NamedFile& file : FilesOf(array)) {
        const absl::StatusOr<io::FileInfo> info =
            files_.Stat(io::JoinPath(folder_, file.path));
        if (absl::IsNotFound(info.status()) ||
            (info.ok() && info->size_bytes != file.size_bytes)) {
          return absl::DataLossError(
              absl::StrCat(file.path, " is not as it was recorded"));
        }
        HEARTH_RETURN_IF_ERROR(info.status());
      }
    }
  }
  return absl::OkStatus();
}

absl::Status KeptParts::RemoveAllBut(const std::vector<ImportPart>& parts) {
  std::set<std::string> stay = {kRecordName};
  for (const ImportPart& part : parts) {
    for (const PartArray& array : part.arrays) {
      for (NamedFile& file : FilesOf(array)) stay.insert(std::move(file.path));
    }
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files_.List(folder_));
  for (const std::string& name : names) {
    if (stay.contains(name)) continue;
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

absl::Status KeptParts::BindTo(const std::string& source_digest) {
  if (recorded_.empty() || source_digest_ == source_digest) {
    source_digest_ = source_digest;
    return absl::OkStatus();
  }
  source_digest_ = source_digest;
  HEARTH_RETURN_IF_ERROR(RemoveRecord());
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  for (const ImportPart& part : std::exchange(recorded_, {})) {
    for (const PartArray& array : part.arrays) {
      for (const NamedFile& file : FilesOf(array)) {
        HEARTH_RETURN_IF_ERROR(
            files_.RemoveTree(io::JoinPath(folder_, file.path)));
      }
    }
  }
  bytes_found_ = 0;
  resumption_->on_log(
      "began anew: the source or its files have changed since the last run");
  return absl::OkStatus();
}

uint64_t KeptParts::bytes_found() const { return bytes_found_; }

std::optional<ImportPart> KeptParts::Take(const std::string& name) {
  const auto found =
      std::find_if(recorded_.begin(), recorded_.end(),
                   [&](const ImportPart& part) { return part.name == name; });
  if (found == recorded_.end()) return std::nullopt;
  resumption_->on_log(absl::StrCat("went on: ", name, " were there"));
  return *found;
}

absl::Status KeptParts::Add(const ImportPart& part) {
  if (!resumption_.has_value() || !IsText(part)) return absl::OkStatus();
  unrecorded_.push_back(part);
  unrecorded_bytes_ += BytesOf(part);
  return unrecorded_bytes_ < resumption_->min_bytes ? absl::OkStatus()
                                                    : Record();
}

absl::Status KeptParts::Record() {
  if (recorded_.empty()) {
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(io::ParentDirectory(folder_)));
  }
  PartRecord record{source_digest_, recorded_};
  record.parts.insert(record.parts.end(), unrecorded_.begin(),
                      unrecorded_.end());
  HEARTH_RETURN_IF_ERROR(io::WriteFileAtomically(files_, RecordPath(),
                                                 SerializePartRecord(record)));
  recorded_ = std::move(record.parts);
  unrecorded_.clear();
  unrecorded_bytes_ = 0;
  resumption_->on_durable();
  return absl::OkStatus();
}

absl::Status KeptParts::RemoveRecord() {
  return recorded_.empty() ? absl::OkStatus() : files_.RemoveTree(RecordPath());
}

void KeptParts::RemoveUnfinished() {
  if (recorded_.empty()) {
    files_.RemoveTree(folder_).IgnoreError();
    return;
  }
  // A record that was written, but not synced, may name the others, too.
  std::move(unrecorded_.begin(), unrecorded_.end(),
            std::back_inserter(recorded_));
  RemoveAllBut(recorded_).IgnoreError();
}

}  // namespace hearth::ingest
