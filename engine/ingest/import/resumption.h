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

namespace hearth::ingest {

/// A file system on top of another one that notes which files are opened for
/// reading while it is told to, and how these are: what a source consists of,
/// whatever its format. Thread-safe.
class NotingFileSystem final : public io::ForwardingFileSystem {
 public:
  /// Files in `folder` are not noted. `base` must outlive this.
  NotingFileSystem(io::FileSystem& base, std::string folder)
      : ForwardingFileSystem(base),
        apart_(io::JoinPath(std::move(folder), "")) {}

  void BeginNoting() ABSL_LOCKS_EXCLUDED(mutex_);
  void EndNoting() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Path, size and times of all files that were noted, in one order. A file
  /// that is written to, or replaced by another, has another time of change.
  void AddTo(Sha256& digest) const ABSL_LOCKS_EXCLUDED(mutex_);

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForRead(
      const std::string& path) override;
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenForScan(
      const std::string& path) override;
  /// The path is noted as it is found just before.
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

  /// The folder's path with a slash behind it.
  const std::string apart_;
  mutable absl::Mutex mutex_;
  bool is_noting_ ABSL_GUARDED_BY(mutex_) = false;
  /// Sizes and times in words, by path.
  std::map<std::string, std::string> notes_ ABSL_GUARDED_BY(mutex_);
};

/// An array of a part, and what it is: "labels", "indptr".
struct PartArray {
  std::string what;
  store::FinishedArray array;
};

/// A part of a dataset that is made as a whole: some arrays of one type, with
/// what the manifest and the statistics say of them.
struct ImportPart {
  /// "features of paper"; no other part has it.
  std::string name;
  /// In the order of writing.
  std::vector<PartArray> arrays;
  /// Changes to the source, in words.
  std::vector<std::string> transforms;
  /// Kind and width of the labels, where it has labels.
  store::LabelKind label_kind = store::LabelKind::kClasses;
  int64_t label_width = 0;
  /// Statistics of the features, where it has features.
  std::optional<ScannedFeatures> scanned;
};

/// The parts of a dataset that are whole, as an import notes them for the next
/// run.
struct PartRecord {
  /// Version of the record and of the files it names: to be raised when either
  /// is written differently.
  static constexpr int kVersion = 1;

  /// Digest of the source that they were made of.
  std::string source_sha256;
  std::vector<ImportPart> parts;
};

/// The record's file contents, sealed as manifests are. Text that is not UTF-8
/// does not survive.
std::string SerializePartRecord(const PartRecord& record);

/// The inverse. DATA_LOSS for a failed checksum; INVALID_ARGUMENT for what no
/// record of this version has.
absl::StatusOr<PartRecord> ParsePartRecord(absl::string_view text);

/// The parts of a dataset that an earlier run of the import made whole, and the
/// record by which the next run finds those that this one makes: kRecordName in
/// the unfinished folder, sealed with a checksum, replaced by a rename after
/// the arrays it names were synced. It is bound to the source. Single-owner.
class KeptParts {
 public:
  static constexpr char kRecordName[] = "parts.json";

  /// For the unfinished `folder`. Without `resumption` nothing is kept. Both
  /// must outlive this.
  KeptParts(io::FileSystem& files, std::string folder,
            const std::optional<ImportResumption>& resumption);

  /// Reads the record that an earlier run left, and removes all that lies in
  /// the folder besides; call first. A record that is damaged is none.
  absl::Status Load();

  /// Binds the parts to the source of this digest. Those that were made of
  /// another are removed; the others are read against their checksums, and
  /// removed where damaged. Call before Take and Add. CANCELLED after a stop.
  absl::Status BindTo(const std::string& source_digest,
                      const ImportProgress& progress,
                      const std::stop_token& stop);

  /// Bytes in the folder of the parts that can be taken.
  uint64_t bytes_found() const;

  /// The part of that name, if it was found; nullopt if it is to be made.
  std::optional<ImportPart> Take(const std::string& name);

  /// Adds a part that is whole and synced. It is recorded, or will be together
  /// with later ones once they are worth it.
  absl::Status Add(const ImportPart& part);

  /// Removes the record: the folder is about to be the dataset.
  absl::Status RemoveRecord();

  /// Removes all but the recorded parts, as far as possible: the run ends
  /// without a dataset.
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
  /// Parts in the record, and whole ones that are not there yet.
  std::vector<ImportPart> recorded_;
  std::vector<ImportPart> unrecorded_;
  /// Bytes of the unrecorded ones.
  uint64_t unrecorded_bytes_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_RESUMPTION_H_
