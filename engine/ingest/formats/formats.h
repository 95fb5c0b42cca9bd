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

namespace hearth::ingest {

/// A kind of files that people keep graphs in. Its reader knows which files
/// there are and what they mean; it checks no values and writes no dataset.
struct Format {
  /// "numpy": the value of the proto's enum Format, in small letters with '-'
  /// for '_'; as in `--format` and in messages.
  absl::string_view name;
  /// "a folder with node_feat.npy": how a source is recognized.
  absl::string_view mark;
  /// Whether a source is a file, not a folder.
  bool is_file = false;
  /// Why the source at that path looks like the format; empty if it does not.
  absl::StatusOr<std::string> (*recognize)(io::FileSystem& files,
                                           const std::string& source);
  /// Opens the source at that path. INVALID_ARGUMENT, or DATA_LOSS for
  /// truncated files, naming the file.
  absl::StatusOr<SourceGraph> (*open)(ImportContext& context,
                                      const std::string& source,
                                      const FormatOptions& options);
};

/// All formats that are read, by name. A new one needs a value in the proto's
/// enum, an entry here and a dependency of this library.
absl::Span<const Format> Formats();

/// The format that a source looks like, and why.
struct RecognizedFormat {
  /// Its name.
  std::string format;
  /// "it has node_feat.npy and edge_index.npy".
  std::string reason;
};

/// The format of the folder or file `source`. INVALID_ARGUMENT if it looks like
/// none, saying what would be looked for, or like several.
absl::StatusOr<RecognizedFormat> RecognizeFormat(io::FileSystem& files,
                                                 const std::string& source);

/// Opens `source` as the format of that name. Errors as Format::open;
/// INVALID_ARGUMENT for a name that no format has.
absl::StatusOr<SourceGraph> OpenFormat(ImportContext& context,
                                       absl::string_view format,
                                       const std::string& source,
                                       const FormatOptions& options = {});

/// The format of a source, and what there is to say about it.
struct FormatChoice {
  /// A name of Formats(); empty = the one that the source looks like.
  std::string format;
  FormatOptions options = {};
};

/// Imports the graph at options.source. If its format was recognized, the
/// manifest's first transform says which it is and why. See ImportGraph and
/// OpenFormat for errors.
absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           const FormatChoice& choice,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_FORMATS_H_
