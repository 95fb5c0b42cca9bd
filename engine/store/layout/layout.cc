#include "engine/store/layout/layout.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/store/layout/diskgnn_layout.h"
#include "engine/store/layout/ginex_layout.h"
#include "engine/store/layout/graphbolt_layout.h"
#include "engine/store/layout/igb_layout.h"
#include "engine/store/layout/numpy_layout.h"

namespace hearth::store {
namespace {

constexpr Layout kLayouts[] = {
    Layout::kDiskGnn, Layout::kGinex, Layout::kGraphBolt,
    Layout::kIgb,     Layout::kNumpy,
};

/// Why `source` looks like `layout`; empty if it does not.
absl::StatusOr<std::string> Recognize(io::FileSystem& files, Layout layout,
                                      const std::string& source) {
  switch (layout) {
    case Layout::kDiskGnn:
      return RecognizeDiskGnn(files, source);
    case Layout::kGinex:
      return RecognizeGinex(files, source);
    case Layout::kGraphBolt:
      return RecognizeGraphBolt(files, source);
    case Layout::kIgb:
      return RecognizeIgb(files, source);
    case Layout::kNumpy:
      return RecognizeNumpyFolder(files, source);
  }
  return absl::InternalError("unknown layout");
}

/// What to look for.
absl::string_view Mark(Layout layout) {
  switch (layout) {
    case Layout::kDiskGnn:
      return "a folder with features.bin and conf.json";
    case Layout::kGinex:
      return "a folder with indptr.dat and indices.dat";
    case Layout::kGraphBolt:
      return "a folder with metadata.yaml";
    case Layout::kIgb:
      return "a folder with processed/paper";
    case Layout::kNumpy:
      return "a folder with node_feat.npy";
  }
  return "";
}

}  // namespace

absl::string_view Name(Layout layout) {
  switch (layout) {
    case Layout::kDiskGnn:
      return "diskgnn";
    case Layout::kGinex:
      return "ginex";
    case Layout::kGraphBolt:
      return "graphbolt";
    case Layout::kIgb:
      return "igb";
    case Layout::kNumpy:
      return "numpy";
  }
  return "";
}

absl::StatusOr<RecognizedLayout> RecognizeLayout(io::FileSystem& files,
                                                 const std::string& source) {
  std::vector<RecognizedLayout> found;
  for (const Layout layout : kLayouts) {
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
    case Layout::kGinex:
      return OpenGinex(context, source);
    case Layout::kGraphBolt:
      return OpenGraphBolt(context, source);
    case Layout::kIgb:
      return OpenIgb(context, source, options.igb);
    case Layout::kNumpy:
      return OpenNumpyFolder(context, source);
  }
  return absl::InternalError("unknown layout");
}

}  // namespace hearth::store
