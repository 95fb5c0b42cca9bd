#ifndef HEARTH_SERVER_MAPPING_DATASET_SPEC_MAPPING_H_
#define HEARTH_SERVER_MAPPING_DATASET_SPEC_MAPPING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/store/labels.h"
#include "hearth/v1/spec.pb.h"
#include "server/mapping/request_checks.h"

/// Conversion of the specs of jobs on datasets (import, verify, generate,
/// export) to the engine's options, for spec_mapping.h; callers use that.

namespace hearth::server {

/// Least memory for an import's buffers.
inline constexpr uint64_t kMinImportMemoryBytes = 1 << 20;

/// Fills in the defaults that spec.proto names and checks every field, adding
/// faults to `violations`.
void CheckImport(v1::ImportSpec& spec, FieldViolations& violations);
void CheckVerify(const v1::VerifySpec& spec, FieldViolations& violations);
void CheckGenerate(v1::GenerateSpec& spec, FieldViolations& violations);
void CheckExportDataset(const v1::ExportDatasetSpec& spec,
                        FieldViolations& violations);

/// Part `number`, from 1, of `of` equal ones.
struct SharePart {
  int64_t number = 0;
  int64_t of = 0;
};

/// Shares of a dataset at most.
inline constexpr int64_t kMostShares = 1024;

/// An ImportSpec.share such as "2/4"; nullopt if it is none.
std::optional<SharePart> ParseShare(absl::string_view share);

/// Checks that `path` is absolute and of bounded length.
void CheckPath(const char* field, const std::string& path,
               FieldViolations& violations);

/// Engine's name of a format; empty where it is recognized or chosen.
std::string ToFormat(v1::Format format);

/// Engine's kind of labels; nullopt where it follows from the array.
std::optional<store::LabelKind> ToLabelKind(v1::LabelKind kind);

/// Engine's options for a validated spec. `destination` is the dataset's
/// folder.
ingest::ImportOptions ToImportOptions(const v1::ImportSpec& spec,
                                      const std::string& destination);
ingest::FormatOptions ToFormatOptions(const v1::ImportSpec& spec);

/// Engine's options for a validated spec.
ingest::GenerateOptions ToGenerateOptions(const v1::GenerateSpec& spec);
ingest::ImportOptions ToImportOptions(const v1::GenerateSpec& spec,
                                      const std::string& destination);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_DATASET_SPEC_MAPPING_H_
