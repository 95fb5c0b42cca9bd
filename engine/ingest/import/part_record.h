#ifndef HEARTH_ENGINE_INGEST_IMPORT_PART_RECORD_H_
#define HEARTH_ENGINE_INGEST_IMPORT_PART_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/store/array_writer.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_PART_RECORD_H_
