#include "engine/ingest/formats/import_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {
namespace {

absl::StatusOr<SourceGraph> OpenRecognized(ImportContext& context,
                                           const std::string& source,
                                           const FormatOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(const RecognizedFormat found,
                          RecognizeFormat(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph,
                          OpenFormat(context, found.format, source, options));
  graph.transforms.insert(
      graph.transforms.begin(),
      absl::StrCat("taken for ", found.format, ": ", found.reason));
  return graph;
}

}  // namespace

absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           const FormatChoice& choice,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop) {
  const auto open = [&](ImportContext& context) {
    return choice.format.empty()
               ? OpenRecognized(context, options.source, choice.options)
               : OpenFormat(context, choice.format, options.source,
                            choice.options);
  };
  return ImportGraph(files, options, open, progress, std::move(stop));
}

}  // namespace hearth::ingest
