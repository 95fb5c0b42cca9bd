#ifndef HEARTH_ENGINE_INGEST_FORMATS_FORMATS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_FORMATS_H_

#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// The table of formats: recognizing, opening and importing a source.

namespace hearth::ingest {

/// A form of graph files that people have. Its reader knows the files and their
/// meaning; it checks no values and writes no dataset.
struct Format {
  /// Name, as in `--format` and in messages: the value of the proto's enum
  /// Format, in small letters with '-' for '_', such as "numpy".
  absl::string_view name;
  /// How a source is recognized: "a folder with node_feat.npy".
  absl::string_view mark;
  /// Whether a source may be a file, and whether it may be a folder.
  bool is_file = false;
  bool is_folder = true;
  /// Returns the reason why the source at a path looks like the format; empty
  /// if it does not.
  absl::StatusOr<std::string> (*recognize)(io::FileSystem& files,
                                           const std::string& source);
  /// Opens the source at a path. INVALID_ARGUMENT, or DATA_LOSS for truncated
  /// files, naming the file.
  absl::StatusOr<SourceGraph> (*open)(ImportContext& context,
                                      const std::string& source,
                                      const FormatOptions& options);
};

/// All formats that can be read, by name. A new format needs a value in the
/// proto's enum and an entry here.
absl::Span<const Format> Formats();

/// Format of a source, and how it was recognized.
struct RecognizedFormat {
  /// Name of the format.
  std::string format;
  /// Reason: "it has node_feat.npy and edge_index.npy".
  std::string reason;
};

/// Recognizes the format of the folder or file `source`. INVALID_ARGUMENT if it
/// looks like no format, listing the marks of all, or like several.
absl::StatusOr<RecognizedFormat> RecognizeFormat(io::FileSystem& files,
                                                 const std::string& source);

/// Opens `source` as the named format. Errors of Format::open; INVALID_ARGUMENT
/// for an unknown name.
absl::StatusOr<SourceGraph> OpenFormat(ImportContext& context,
                                       absl::string_view format,
                                       const std::string& source,
                                       const FormatOptions& options = {});

/// Format of a source with its options.
struct FormatChoice {
  /// Name of a format; empty = the one that the source looks like.
  std::string format;
  FormatOptions options = {};
};

/// Imports the graph at options.source. If its format was recognized, the first
/// transform in the manifest says which format and why. Errors of ImportGraph
/// and OpenFormat.
absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           const FormatChoice& choice,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FORMATS_H_
