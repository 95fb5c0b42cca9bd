#ifndef HEARTH_ENGINE_INGEST_IMPORT_RESUMPTION_H_
#define HEARTH_ENGINE_INGEST_IMPORT_RESUMPTION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/sha256.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/store/array_writer.h"
#include "engine/store/labels.h"

/// Imports that go on after an earlier run ended early: the digest of the
/// source, the record of whole parts, and the parts that are kept.

namespace hearth::ingest {

/// A file system that notes which files are opened for reading, and their
/// state: these files are the source of an import, whatever its format. Notes
/// are taken while it is told to. Thread-safe.
class NotingFileSystem final : public io::ForwardingFileSystem {
 public:
  /// Files in `folder` are not noted. `base` must outlive this.
  NotingFileSystem(io::FileSystem& base, std::string folder)
      : ForwardingFileSystem(base),
        apart_(io::JoinPath(std::move(folder), "")) {}

  void BeginNoting() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndNoting() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Adds path, size, and times of modification and change of all noted files,
  /// sorted by path. A file that was written to or replaced has another time of
  /// change.
  void AddTo(Sha256& digest) const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForRead(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForScan(
      const std::string& path) override;
  /// Notes the path as it is just before it is opened.
  absl::StatusOr<std::unique_ptr<io::BlockDevice>> OpenBlockDevice(
      const std::string& path, const io::BlockDeviceOptions& options) override;
  absl::StatusOr<std::unique_ptr<io::MappedFile>> Map(
      const std::string& path, io::AccessPattern pattern) override;

 private:
  bool Notes(absl::string_view path) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NotePath(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status NoteOpen(io::ReadableFile& file, const std::string& path)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(const std::string& path, const io::FileInfo& info)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Path of the folder whose files are not noted, with a slash at its end.
  const std::string apart_;
  mutable absl::Mutex mutex_;
  bool is_noting_ ABSL_GUARDED_BY(mutex_) = false;
  /// Sizes and times in words, by path.
  std::map<std::string, std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

/// An array of a part, and its role: "labels", "indptr".
struct PartArray {
  std::string what;
  store::FinishedArray array;
};

/// A part of a dataset that is made as a whole: arrays of one type, with their
/// entries in the manifest and the statistics.
struct ImportPart {
  /// Unique name, such as "features of paper".
  std::string name;
  /// Arrays in the order of writing.
  std::vector<PartArray> arrays;
  /// Changes to the source, in words.
  std::vector<std::string> transforms;
  /// Kind and width of the labels, if the part has labels.
  store::LabelKind label_kind = store::LabelKind::kClasses;
  int64_t label_width = 0;
  /// Statistics of the features, if the part has features.
  std::optional<ScannedFeatures> scanned;
};

/// Record of the whole parts of an unfinished dataset.
struct PartRecord {
  /// Version of the record and of the files that it names: to be raised when
  /// either is written differently.
  static constexpr int kVersion = 1;

  /// Digest of the source that the parts were made of.
  std::string source_sha256;
  std::vector<ImportPart> parts;
};

/// Contents of the record's file, sealed like a manifest. Text that is not
/// UTF-8 does not survive.
std::string SerializePartRecord(const PartRecord& record);

/// Inverse of SerializePartRecord. DATA_LOSS for a wrong checksum;
/// INVALID_ARGUMENT if the text is no record of this version.
absl::StatusOr<PartRecord> ParsePartRecord(absl::string_view text);

/// Parts of a dataset: those that an earlier run of the import made whole, and
/// those that this run records for the next one. The record is the file
/// kRecordName in the unfinished folder, sealed with a checksum, replaced by a
/// rename after the arrays that it names were synced, and bound to the source.
/// Single-owner.
class KeptParts {
 public:
  static constexpr char kRecordName[] = "parts.json";

  /// For the unfinished `folder`; keeps nothing if `resumption` is null. Both
  /// must outlive this.
  KeptParts(io::FileSystem& files, std::string folder,
            const std::optional<ImportResumption>& resumption);

  /// Reads the record of an earlier run, and removes everything else in the
  /// folder. A damaged record counts as none. To be called first.
  absl::Status Load();

  /// Binds the parts to the source with digest `source_digest`: removes parts
  /// that were made of another source, then reads the rest against their
  /// checksums and removes damaged ones. To be called before Take and Add.
  /// CANCELLED after a stop.
  absl::Status BindTo(const std::string& source_digest,
                      const ImportProgress& progress,
                      const std::stop_token& stop);

  /// Bytes in the folder that belong to parts for Take.
  uint64_t bytes_found() const;

  /// Returns the part called `name` from the earlier run; nullopt if it is to
  /// be made.
  std::optional<ImportPart> Take(const std::string& name);

  /// Adds a part that is whole and synced. It is recorded now, or later
  /// together with others once their size is worth it.
  absl::Status Add(const ImportPart& part);

  /// Removes the record, before the folder becomes the dataset.
  absl::Status RemoveRecord();

  /// Removes everything but recorded parts, as far as possible, for a run that
  /// ends without a dataset.
  void RemoveUnfinished();

 private:
  absl::Status Read();
  absl::StatusOr<std::vector<ImportPart>> FindWhole(
      const ImportProgress& progress, const std::stop_token& stop);
  absl::Status Check(const ImportPart& part, const ImportProgress& progress,
                     const std::stop_token& stop) const;
  absl::Status Record(std::vector<ImportPart> parts);
  absl::Status RemoveAllBut(const std::vector<ImportPart>& parts);
  std::string RecordPath() const;

  io::FileSystem& files_;
  const std::string folder_;
  const std::optional<ImportResumption>& resumption_;
  std::string source_digest_;
  /// Parts in the record; whole parts that are not in it yet.
  std::vector<ImportPart> recorded_;
  std::vector<ImportPart> unrecorded_;
  /// Bytes of `unrecorded_`.
  uint64_t unrecorded_bytes_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_RESUMPTION_H_
