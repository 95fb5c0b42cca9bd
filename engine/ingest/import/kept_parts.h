#ifndef HEARTH_ENGINE_INGEST_IMPORT_KEPT_PARTS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_KEPT_PARTS_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/import/part_record.h"
#include "engine/ingest/source/import_context.h"
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

#endif  // HEARTH_ENGINE_INGEST_IMPORT_KEPT_PARTS_H_
