#ifndef HEARTH_ENGINE_INGEST_FORMATS_OGB_CSV_H_
#define HEARTH_ENGINE_INGEST_FORMATS_OGB_CSV_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// The files of an OGB folder that several of its forms share.

namespace hearth::ingest {

/// `folder`/`name`.csv.gz, or `folder`/`name`.csv if only that is there.
absl::StatusOr<std::string> FindCsv(io::FileSystem& files,
                                    const std::string& folder,
                                    const std::string& name);

/// The columns of a file with a line of names and one of values.
struct NamedValues {
  std::string path;
  std::vector<std::string> names;
  std::vector<std::string> values;
};
absl::StatusOr<NamedValues> ReadNamedValues(ImportContext& context,
                                            const std::string& path);

/// The names whose value is "True"; INVALID_ARGUMENT for any but "False" else.
absl::StatusOr<std::vector<std::string>> ReadMarkedNames(
    ImportContext& context, const std::string& path);

/// The folder in `source`/split that is to be read: the one that is asked for,
/// or the only one. INVALID_ARGUMENT, with their names, if that is not clear.
absl::StatusOr<std::string> FindSplitFolder(io::FileSystem& files,
                                            const std::string& source,
                                            const OgbOptions& options);

/// Opens the split in `folder`: split_dict.pt, which ogb prefers, too, or
/// train, valid and test as CSV files.
absl::Status OpenSplit(ImportContext& context, const std::string& folder,
                       SourceNodes& nodes);

/// The same of a graph of several types: CSV files lie in a folder for each
/// type that has a split.
absl::Status OpenTypedSplit(ImportContext& context, const std::string& folder,
                            SourceGraph& graph);

/// The nodes of that type; INVALID_ARGUMENT, naming the file, if there is none.
absl::StatusOr<SourceNodes*> FindType(SourceGraph& graph,
                                      const std::string& path,
                                      const std::string& type);

/// The nodes and edges of an OGB graph of several types, in CSV files in the
/// folder `raw`: num-node-dict, triplet-type-list, relations/S___R___D/edge,
/// node-feat/TYPE/node-feat, node-label/TYPE/node-label, nodetype-has-label.
/// Edge types are called "S:R:D". Errors as OpenOgb's.
absl::StatusOr<SourceGraph> OpenOgbHeterogeneous(ImportContext& context,
                                                 const std::string& raw);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_OGB_CSV_H_
