#include "engine/ingest/formats/layout.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/diskgnn_layout.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/ginex_layout.h"
#include "engine/ingest/formats/graphbolt_layout.h"
#include "engine/ingest/formats/igb_layout.h"
#include "engine/ingest/formats/mag240m_layout.h"
#include "engine/ingest/formats/numpy_layout.h"
#include "engine/ingest/formats/ogb_layout.h"

namespace hearth::ingest {
namespace {

constexpr Layout kLayouts[] = {
    Layout::kDiskGnn, Layout::kEdgeList, Layout::kGinex, Layout::kGraphBolt,
    Layout::kIgb,     Layout::kMag240m,  Layout::kNumpy, Layout::kOgb,
};

/// Whether the layout is a file's, not a folder's.
bool IsFile(Layout layout) { return layout == Layout::kEdgeList; }

/// Why `source` looks like `layout`; empty if it does not.
absl::StatusOr<std::string> Recognize(io::FileSystem& files, Layout layout,
                                      const std::string& source) {
  switch (layout) {
    case Layout::kDiskGnn:
      return RecognizeDiskGnn(files, source);
    case Layout::kEdgeList:
      return RecognizeEdgeList(files, source);
    case Layout::kGinex:
      return RecognizeGinex(files, source);
    case Layout::kGraphBolt:
      return RecognizeGraphBolt(files, source);
    case Layout::kIgb:
      return RecognizeIgb(files, source);
    case Layout::kMag240m:
      return RecognizeMag240m(files, source);
    case Layout::kNumpy:
      return RecognizeNumpyFolder(files, source);
    case Layout::kOgb:
      return RecognizeOgb(files, source);
  }
  return absl::InternalError("unknown layout");
}

/// What to look for.
absl::string_view Mark(Layout layout) {
  switch (layout) {
    case Layout::kDiskGnn:
      return "a folder with features.bin and conf.json";
    case Layout::kEdgeList:
      return "a text file, plain or gzip, of two ids a line";
    case Layout::kGinex:
      return "a folder with indptr.dat and indices.dat";
    case Layout::kGraphBolt:
      return "a folder with metadata.yaml";
    case Layout::kIgb:
      return "a folder with processed/paper";
    case Layout::kMag240m:
      return "a folder with meta.pt and processed/paper";
    case Layout::kNumpy:
      return "a folder with node_feat.npy";
    case Layout::kOgb:
      return "a folder with raw and split";
  }
  return "";
}

}  // namespace

absl::string_view Name(Layout layout) {
  switch (layout) {
    case Layout::kDiskGnn:
      return "diskgnn";
    case Layout::kEdgeList:
      return "edge-list";
    case Layout::kGinex:
      return "ginex";
    case Layout::kGraphBolt:
      return "graphbolt";
    case Layout::kIgb:
      return "igb";
    case Layout::kMag240m:
      return "mag240m";
    case Layout::kNumpy:
      return "numpy";
    case Layout::kOgb:
      return "ogb";
  }
  return "";
}

absl::StatusOr<RecognizedLayout> RecognizeLayout(io::FileSystem& files,
                                                 const std::string& source) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(source);
  const bool is_file = info.ok() && !info->is_directory;
  std::vector<RecognizedLayout> found;
  for (const Layout layout : kLayouts) {
    if (IsFile(layout) != is_file) continue;
    HEARTH_ASSIGN_OR_RETURN(std::string reason,
                            Recognize(files, layout, source));
    if (!reason.empty()) found.push_back({layout, std::move(reason)});
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": looks like none of: ",
        absl::StrJoin(kLayouts, "; ", [](std::string* out, Layout layout) {
          absl::StrAppend(out, Name(layout), " (", Mark(layout), ")");
        })));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": could be ",
      absl::StrJoin(found, " or ",
                    [](std::string* out, const RecognizedLayout& one) {
                      absl::StrAppend(out, Name(one.layout), " (", one.reason,
                                      ")");
                    }),
      "; say which it is"));
}

absl::StatusOr<SourceGraph> OpenLayout(ImportContext& context, Layout layout,
                                       const std::string& source,
                                       const LayoutOptions& options) {
  switch (layout) {
    case Layout::kDiskGnn:
      return OpenDiskGnn(context, source);
    case Layout::kEdgeList:
      return OpenEdgeList(context, source, options.edge_list);
    case Layout::kGinex:
      return OpenGinex(context, source);
    case Layout::kGraphBolt:
      return OpenGraphBolt(context, source);
    case Layout::kIgb:
      return OpenIgb(context, source, options.igb);
    case Layout::kMag240m:
      return OpenMag240m(context, source);
    case Layout::kNumpy:
      return OpenNumpyFolder(context, source);
    case Layout::kOgb:
      return OpenOgb(context, source, options.ogb);
  }
  return absl::InternalError("unknown layout");
}

}  // namespace hearth::ingest
