#include "engine/store/layout/import_dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::store {
namespace {

absl::StatusOr<SourceGraph> OpenRecognized(ImportContext& context,
                                           const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const RecognizedLayout found,
                          RecognizeLayout(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph,
                          OpenLayout(context, found.layout, source));
  graph.transforms.insert(
      graph.transforms.begin(),
      absl::StrCat("taken for ", Name(found.layout), ": ", found.reason));
  return graph;
}

}  // namespace

absl::StatusOr<ImportResult> ImportDataset(io::FileSystem& files,
                                           std::optional<Layout> layout,
                                           const ImportOptions& options,
                                           const ImportProgress& progress,
                                           std::stop_token stop) {
  const auto open = [&](ImportContext& context) {
    return layout.has_value() ? OpenLayout(context, *layout, options.source)
                              : OpenRecognized(context, options.source);
  };
  return ImportGraph(files, options, open, progress, std::move(stop));
}

}  // namespace hearth::store
