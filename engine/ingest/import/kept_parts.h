#ifndef HEARTH_ENGINE_INGEST_IMPORT_KEPT_PARTS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_KEPT_PARTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/import/part_record.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

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

  /// Finds the parts that an earlier run left, and removes all else that lies
  /// in the folder; call first. A record that is damaged, or does not fit the
  /// files, is none.
  absl::Status Load();

  /// The source is the one of this digest: parts made of another are removed.
  /// Call before Take and Add.
  absl::Status BindTo(const std::string& source_digest);

  /// Bytes in the folder of the parts that were found.
  uint64_t bytes_found() const;

  /// The part of that name, if it was found; nullopt if it is to be made.
  std::optional<ImportPart> Take(const std::string& name);

  /// A part is whole and synced. It is recorded, or will be together with later
  /// ones once they are worth it.
  absl::Status Add(const ImportPart& part);

  /// Removes the record: the folder is about to be the dataset.
  absl::Status RemoveRecord();

  /// Removes all but the recorded parts, as far as possible: the run ends
  /// without a dataset.
  void RemoveUnfinished();

 private:
  absl::Status Read();
  absl::Status CheckFiles() const;
  absl::Status RemoveAllBut(const std::vector<ImportPart>& parts);
  absl::Status Record();
  std::string RecordPath() const;

  io::FileSystem& files_;
  const std::string folder_;
  const std::optional<ImportResumption>& resumption_;
  std::string source_digest_;
  /// Those in the record, and whole ones that are not yet.
  std::vector<ImportPart> recorded_;
  std::vector<ImportPart> unrecorded_;
  uint64_t bytes_found_ = 0;
  uint64_t unrecorded_bytes_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_KEPT_PARTS_H_
