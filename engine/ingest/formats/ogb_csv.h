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

/// CSV files of OGB folders: parts that graphs of one and of several node types
/// share, and graphs of several node types.

namespace hearth::ingest {

/// Path of `folder`/`name`.csv.gz, or of `folder`/`name`.csv if only that
/// exists.
absl::StatusOr<std::string> FindCsv(io::FileSystem& files,
                                    const std::string& folder,
                                    const std::string& name);

/// A file with one line of names and one line of values.
struct NamedValues {
  std::string path;
  std::vector<std::string> names;
  std::vector<std::string> values;
};
absl::StatusOr<NamedValues> ReadNamedValues(ImportContext& context,
                                            const std::string& path);

/// Names whose value is "True"; INVALID_ARGUMENT if any other value is not
/// "False".
absl::StatusOr<std::vector<std::string>> ReadMarkedNames(
    ImportContext& context, const std::string& path);

/// The folder in `source`/split to read: the one that was asked for, or the
/// only one. INVALID_ARGUMENT, with their names, if there are several.
absl::StatusOr<std::string> FindSplitFolder(io::FileSystem& files,
                                            const std::string& source,
                                            const OgbOptions& options);

/// Opens the split in `folder`: split_dict.pt if there is one, as ogb does,
/// otherwise train, valid and test as CSV files.
absl::Status OpenSplit(ImportContext& context, const std::string& folder,
                       SourceNodes& nodes);

/// Opens the split of a graph of several types: its CSV files lie in a folder
/// for each type that has a split.
absl::Status OpenTypedSplit(ImportContext& context, const std::string& folder,
                            SourceGraph& graph);

/// The nodes of type `type`; INVALID_ARGUMENT, naming the file, if there is no
/// such type.
absl::StatusOr<SourceNodes*> FindType(SourceGraph& graph,
                                      const std::string& path,
                                      const std::string& type);

/// Opens an OGB graph of several types, in CSV files in the folder `raw`:
/// num-node-dict, triplet-type-list, relations/S___R___D/edge,
/// node-feat/TYPE/node-feat, node-label/TYPE/node-label, nodetype-has-label.
/// Edge types are called "S:R:D". Errors of OpenOgb.
absl::StatusOr<SourceGraph> OpenOgbHeterogeneous(ImportContext& context,
                                                 const std::string& raw);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_OGB_CSV_H_
