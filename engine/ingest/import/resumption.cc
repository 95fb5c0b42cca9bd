#include "engine/ingest/import/resumption.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/inspect/verify.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/feature_rows.h"
#include "engine/store/manifest.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {

void NotingFileSystem::BeginNoting() {
  absl::MutexLock lock(&mutex_);
  is_noting_ = true;
}

void NotingFileSystem::EndNoting() {
  absl::MutexLock lock(&mutex_);
  is_noting_ = false;
}

void NotingFileSystem::AddTo(Sha256& digest) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [path, note] : notes_) {
    // Each path comes with its length, so that different lists give different
    // texts.
    digest.Update(absl::StrCat(path.size(), " ", path, " ", note, "\n"));
  }
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> NotingFileSystem::OpenForRead(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          base().OpenForRead(path));
  HEARTH_RETURN_IF_ERROR(NoteOpen(*file, path));
  return file;
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> NotingFileSystem::OpenForScan(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          base().OpenForScan(path));
  HEARTH_RETURN_IF_ERROR(NoteOpen(*file, path));
  return file;
}

absl::StatusOr<std::unique_ptr<io::BlockDevice>>
NotingFileSystem::OpenBlockDevice(const std::string& path,
                                  const io::BlockDeviceOptions& options) {
  HEARTH_RETURN_IF_ERROR(NotePath(path));
  return base().OpenBlockDevice(path, options);
}

absl::StatusOr<std::unique_ptr<io::MappedFile>> NotingFileSystem::Map(
    const std::string& path, io::AccessPattern pattern) {
  HEARTH_RETURN_IF_ERROR(NotePath(path));
  return base().Map(path, pattern);
}

bool NotingFileSystem::Notes(absl::string_view path) const {
  absl::MutexLock lock(&mutex_);
  return is_noting_ && !absl::StartsWith(path, apart_);
}

absl::Status NotingFileSystem::NotePath(const std::string& path) {
  if (!Notes(path)) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, base().Stat(path));
  Note(path, info);
  return absl::OkStatus();
}

absl::Status NotingFileSystem::NoteOpen(io::ReadableFile& file,
                                        const std::string& path) {
  if (!Notes(path)) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  Note(path, info);
  return absl::OkStatus();
}

void NotingFileSystem::Note(const std::string& path, const io::FileInfo& info) {
  absl::MutexLock lock(&mutex_);
  notes_[path] =
      absl::StrCat(info.size_bytes, " ", absl::ToUnixNanos(info.modified), " ",
                   absl::ToUnixNanos(info.changed));
}

// Each Fields function names the fields of a structure once, for both
// directions. The seal detects damage, so that reading checks only types.

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "hearth-import-parts";

template <typename Visit>
void ForEachField(store::ArrayFile& file, Visit visit) {
  visit("path", file.path);
  visit("in_place", file.in_place);
  visit("shape", file.shape);
  visit("data_offset", file.data_offset);
  visit("file_size_bytes", file.file_size_bytes);
  visit("modified_ns", file.modified_ns);
  visit("header_crc32c", file.header_crc32c);
  visit("file_id", file.file_id);
  visit("crc_block_bytes", file.crc_block_bytes);
  visit("crc_path", file.crc_path);
  visit("crc_file_crc32c", file.crc_file_crc32c);
}

template <typename Visit>
void ForEachField(ScannedFeatures& scanned, Visit visit) {
  visit("min", scanned.statistics.min);
  visit("max", scanned.statistics.max);
  visit("mean", scanned.statistics.mean);
  visit("standard_deviation", scanned.statistics.standard_deviation);
  visit("num_non_finite", scanned.statistics.num_non_finite);
  visit("num_zeros", scanned.statistics.num_zeros);
  visit("constant_columns", scanned.statistics.constant_columns);
  visit("num_zero_rows", scanned.statistics.num_zero_rows);
  visit("label_columns", scanned.suspects.labels);
  visit("row_number_columns", scanned.suspects.row_numbers);
  visit("whole_number_columns", scanned.suspects.whole_numbers);
  visit("begins_like_npy", scanned.begins_like_npy);
}

template <typename Fields>
ordered_json ToJson(Fields fields) {
  ordered_json object;
  ForEachField(fields, [&object](const char* key, const auto& value) {
    object[key] = value;
  });
  return object;
}

/// Reads the fields of an object. Throws json::exception, as do the functions
/// below that read JSON.
template <typename Fields>
Fields FromJson(const json& object) {
  Fields fields;
  ForEachField(fields, [&object](const char* key, auto& value) {
    object.at(key).get_to(value);
  });
  return fields;
}

ordered_json PartToJson(const ImportPart& part) {
  ordered_json arrays = ordered_json::array();
  for (const PartArray& array : part.arrays) {
    arrays.push_back({{"what", array.what},
                      {"checksums_sha256", array.array.checksums_sha256},
                      {"dtype", store::Name(array.array.file.dtype)},
                      {"file", ToJson(array.array.file)}});
  }
  ordered_json object = {{"name", part.name},
                         {"arrays", std::move(arrays)},
                         {"transforms", part.transforms},
                         {"label_kind", store::Name(part.label_kind)},
                         {"label_width", part.label_width}};
  if (part.scanned.has_value()) object["scanned"] = ToJson(*part.scanned);
  return object;
}

absl::StatusOr<ImportPart> PartFromJson(const json& object) {
  ImportPart part;
  object.at("name").get_to(part.name);
  for (const json& item : object.at("arrays")) {
    PartArray& array = part.arrays.emplace_back();
    item.at("what").get_to(array.what);
    item.at("checksums_sha256").get_to(array.array.checksums_sha256);
    array.array.file = FromJson<store::ArrayFile>(item.at("file"));
    HEARTH_ASSIGN_OR_RETURN(
        array.array.file.dtype,
        store::ParseDType(item.at("dtype").get<std::string>()));
  }
  object.at("transforms").get_to(part.transforms);
  HEARTH_ASSIGN_OR_RETURN(
      part.label_kind,
      store::ParseLabelKind(object.at("label_kind").get<std::string>()));
  object.at("label_width").get_to(part.label_width);
  if (object.contains("scanned")) {
    part.scanned = FromJson<ScannedFeatures>(object.at("scanned"));
  }
  return part;
}

}  // namespace

std::string SerializePartRecord(const PartRecord& record) {
  ordered_json parts = ordered_json::array();
  for (const ImportPart& part : record.parts) parts.push_back(PartToJson(part));
  return store::SealJson({{"format", kFormat},
                          {"version", PartRecord::kVersion},
                          {"source_sha256", record.source_sha256},
                          {"parts", std::move(parts)}});
}

absl::StatusOr<PartRecord> ParsePartRecord(absl::string_view text) {
  HEARTH_ASSIGN_OR_RETURN(const json object, store::OpenSealedJson(text));
  try {
    if (object.at("format") != kFormat ||
        object.at("version") != PartRecord::kVersion) {
      return absl::InvalidArgumentError("the record is of another version");
    }
    PartRecord record;
    object.at("source_sha256").get_to(record.source_sha256);
    for (const json& part : object.at("parts")) {
      HEARTH_ASSIGN_OR_RETURN(record.parts.emplace_back(), PartFromJson(part));
    }
    return record;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("no record: ", error.what()));
  }
}

// Protocol of recording:
// 1. The arrays of the parts are whole and synced: store::ArrayWriter::Finish.
// 2. Sync the parent of the unfinished folder, the first time.
// 3. Write a new record of all parts; sync it; rename it; sync the folder,
// which
//    makes the arrays' own directory entries durable, too.
// Recorded files are neither written nor removed while the record on the disk
// names them. If something else damages them, their checksums show it before
// they are used.

namespace {

constexpr uint64_t kMaxRecordBytes = 64 << 20;

/// Whether JSON holds the part's texts unchanged.
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

/// Files of the array in the folder.
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

/// Names of the parts' files in the folder.
std::set<std::string> NamesOf(const std::vector<ImportPart>& parts) {
  std::set<std::string> names;
  for (const ImportPart& part : parts) {
    for (const PartArray& array : part.arrays) {
      for (NamedFile& file : FilesOf(array)) names.insert(std::move(file.path));
    }
  }
  return names;
}

/// Bytes of the part's arrays, in the folder or in place: the cost of reading
/// them.
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
  if (read.ok()) return RemoveAllBut(recorded_);
  // A part that cannot be read now may be readable for the next run.
  if (!absl::IsNotFound(read) && !absl::IsDataLoss(read)) return read;
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(folder_));
  if (absl::IsNotFound(read)) return absl::OkStatus();
  resumption_->on_log(absl::StrCat("started over: ", read.message()));
  return files_.SyncDirectory(io::ParentDirectory(folder_));
}

absl::Status KeptParts::Read() {
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(files_, RecordPath(), kMaxRecordBytes));
  absl::StatusOr<PartRecord> record = ParsePartRecord(text);
  if (!record.ok()) {
    return absl::DataLossError(
        absl::StrCat(RecordPath(), ": ", record.status().message()));
  }
  source_digest_ = std::move(record->source_sha256);
  recorded_ = std::move(record->parts);
  return absl::OkStatus();
}

absl::Status KeptParts::BindTo(const std::string& source_digest,
                               const ImportProgress& progress,
                               const std::stop_token& stop) {
  std::vector<ImportPart> whole;
  if (source_digest_ == source_digest) {
    HEARTH_ASSIGN_OR_RETURN(whole, FindWhole(progress, stop));
  } else if (!recorded_.empty()) {
    resumption_->on_log(
        "started over: the source has changed since the earlier run");
  }
  source_digest_ = source_digest;
  if (whole.size() == recorded_.size()) return absl::OkStatus();
  const std::set<std::string> found = NamesOf(recorded_);
  if (whole.empty()) {
    // Removing needs no space on a disk that may be full.
    HEARTH_RETURN_IF_ERROR(RemoveRecord());
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
    recorded_.clear();
  } else {
    HEARTH_RETURN_IF_ERROR(Record(std::move(whole)));
  }
  const std::set<std::string> stay = NamesOf(recorded_);
  for (const std::string& name : found) {
    if (stay.contains(name)) continue;
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ImportPart>> KeptParts::FindWhole(
    const ImportProgress& progress, const std::stop_token& stop) {
  std::vector<ImportPart> whole;
  for (const ImportPart& part : recorded_) {
    const absl::Status status = Check(part, progress, stop);
    if (absl::IsDataLoss(status)) {
      resumption_->on_log(
          absl::StrCat("made again: ", part.name, ": ", status.message()));
      continue;
    }
    HEARTH_RETURN_IF_ERROR(status);
    whole.push_back(part);
  }
  return whole;
}

/// DATA_LOSS for a part that is damaged. Row checksums count as whole if they
/// have the right size: jobs make damaged ones again.
absl::Status KeptParts::Check(const ImportPart& part,
                              const ImportProgress& progress,
                              const std::stop_token& stop) const {
  std::vector<const store::ArrayFile*> arrays;
  for (const PartArray& array : part.arrays) {
    arrays.push_back(&array.array.file);
    for (const NamedFile& file : FilesOf(array)) {
      const absl::StatusOr<io::FileInfo> info =
          files_.Stat(io::JoinPath(folder_, file.path));
      if (absl::IsNotFound(info.status()) ||
          (info.ok() && info->size_bytes != file.size_bytes)) {
        return absl::DataLossError(
            absl::StrCat(file.path, " does not have its size"));
      }
      HEARTH_RETURN_IF_ERROR(info.status());
    }
  }
  const auto on_read = [&progress](uint64_t done, uint64_t total) {
    if (progress) progress("checking", done, total);
  };
  return VerifyArrays(files_, folder_, arrays, on_read, stop).status();
}

absl::Status KeptParts::RemoveAllBut(const std::vector<ImportPart>& parts) {
  std::set<std::string> stay = NamesOf(parts);
  stay.insert(kRecordName);
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          files_.List(folder_));
  for (const std::string& name : names) {
    if (stay.contains(name)) continue;
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return absl::OkStatus();
}

uint64_t KeptParts::bytes_found() const {
  uint64_t bytes = 0;
  for (const ImportPart& part : recorded_) {
    for (const PartArray& array : part.arrays) {
      for (const NamedFile& file : FilesOf(array)) bytes += file.size_bytes;
    }
  }
  return bytes;
}

std::optional<ImportPart> KeptParts::Take(const std::string& name) {
  const auto found =
      std::find_if(recorded_.begin(), recorded_.end(),
                   [&](const ImportPart& part) { return part.name == name; });
  if (found == recorded_.end()) return std::nullopt;
  resumption_->on_log(absl::StrCat("kept from an earlier run: ", name));
  return *found;
}

absl::Status KeptParts::Add(const ImportPart& part) {
  if (!resumption_.has_value() || !IsText(part)) return absl::OkStatus();
  unrecorded_.push_back(part);
  unrecorded_bytes_ += BytesOf(part);
  if (unrecorded_bytes_ < resumption_->min_bytes) return absl::OkStatus();
  if (recorded_.empty()) {
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(io::ParentDirectory(folder_)));
  }
  std::vector<ImportPart> parts = recorded_;
  parts.insert(parts.end(), unrecorded_.begin(), unrecorded_.end());
  HEARTH_RETURN_IF_ERROR(Record(std::move(parts)));
  unrecorded_.clear();
  unrecorded_bytes_ = 0;
  resumption_->on_durable();
  return absl::OkStatus();
}

absl::Status KeptParts::Record(std::vector<ImportPart> parts) {
  HEARTH_RETURN_IF_ERROR(io::WriteFileAtomically(
      files_, RecordPath(), SerializePartRecord({source_digest_, parts})));
  recorded_ = std::move(parts);
  return absl::OkStatus();
}

absl::Status KeptParts::RemoveRecord() {
  return files_.RemoveTree(RecordPath());
}

void KeptParts::RemoveUnfinished() {
  if (recorded_.empty()) {
    files_.RemoveTree(folder_).IgnoreError();
    return;
  }
  // A record that was written but not synced may name these parts, too.
  std::vector<ImportPart> parts = recorded_;
  parts.insert(parts.end(), unrecorded_.begin(), unrecorded_.end());
  RemoveAllBut(parts).IgnoreError();
}

}  // namespace hearth::ingest
