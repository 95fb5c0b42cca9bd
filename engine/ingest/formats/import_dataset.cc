#include "engine/ingest/formats/import_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

absl::StatusOr<SourceGraph> OpenRecognized(ImportContext& context,
                                           const std::string& source,
                                           const LayoutOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(const RecognizedLayout found,
                          RecognizeLayout(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph,
                          OpenLayout(context, found.layout, source, options));
  graph.transforms.insert(
      graph.transforms.begin(),
      absl::StrCat("taken for ", Name(found.layout), ": ", found.reason));
  return graph;
}

}  // namespace

absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           const LayoutChoice& choice,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop) {
  const auto open = [&](ImportContext& context) {
    return choice.layout.has_value()
               ? OpenLayout(context, *choice.layout, options.source,
                            choice.options)
               : OpenRecognized(context, options.source, choice.options);
  };
  return ImportGraph(files, options, open, progress, std::move(stop));
}

}  // namespace hearth::ingest
