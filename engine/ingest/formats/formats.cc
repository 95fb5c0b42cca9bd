#include "engine/ingest/formats/formats.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/csc_formats.h"
#include "engine/ingest/formats/edge_list.h"
#include "engine/ingest/formats/edge_pieces.h"
#include "engine/ingest/formats/graphbolt.h"
#include "engine/ingest/formats/igb.h"
#include "engine/ingest/formats/numpy.h"
#include "engine/ingest/formats/ogb.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {

namespace {

/// Format::open of a format without options.
template <absl::StatusOr<SourceGraph> (*kOpen)(ImportContext&,
                                               const std::string&)>
absl::StatusOr<SourceGraph> Plain(ImportContext& context,
                                  const std::string& source,
                                  const FormatOptions&) {
  return kOpen(context, source);
}

// An edge list in pieces is the same graph as the text that the pieces were
// made of, and so of the same format.

absl::StatusOr<std::string> RecognizeWholeOrPieces(io::FileSystem& files,
                                                   const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::string reason,
                          RecognizeEdgePieces(files, source));
  return reason.empty() ? RecognizeEdgeList(files, source) : reason;
}

absl::StatusOr<SourceGraph> OpenWholeOrPieces(ImportContext& context,
                                              const std::string& source,
                                              const FormatOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(const std::string reason,
                          RecognizeEdgePieces(context.files(), source));
  return reason.empty() ? OpenEdgeList(context, source, options.edge_list)
                        : OpenEdgePieces(context, source, options.edge_list);
}

constexpr Format kFormats[] = {
    {.name = "diskgnn",
     .mark = "a folder with features.bin and conf.json",
     .recognize = RecognizeDiskGnn,
     .open = Plain<OpenDiskGnn>},
    {.name = "edge-list",
     .mark = "a text file, plain, gzip or zstd, of two ids a line; or a folder "
             "with pieces.json",
     .is_file = true,
     .recognize = RecognizeWholeOrPieces,
     .open = OpenWholeOrPieces},
    {.name = "ginex",
     .mark = "a folder with indptr.dat and indices.dat",
     .recognize = RecognizeGinex,
     .open = Plain<OpenGinex>},
    {.name = "graphbolt",
     .mark = "a folder with metadata.yaml",
     .recognize = RecognizeGraphBolt,
     .open =
         [](ImportContext& context, const std::string& source,
            const FormatOptions& options) {
           return OpenGraphBolt(context, source, options.graphbolt);
         }},
    {.name = "igb",
     .mark = "a folder with processed/paper",
     .recognize = RecognizeIgb,
     .open =
         [](ImportContext& context, const std::string& source,
            const FormatOptions& options) {
           return OpenIgb(context, source, options.igb);
         }},
    {.name = "mag240m",
     .mark = "a folder with meta.pt and processed/paper",
     .recognize = RecognizeMag240m,
     .open = Plain<OpenMag240m>},
    {.name = "numpy",
     .mark = "a folder with node_feat.npy",
     .recognize = RecognizeNumpyFolder,
     .open = Plain<OpenNumpyFolder>},
    {.name = "ogb",
     .mark = "a folder with raw and split",
     .recognize = RecognizeOgb,
     .open =
         [](ImportContext& context, const std::string& source,
            const FormatOptions& options) {
           return OpenOgb(context, source, options.ogb);
         }},
};

}  // namespace

absl::Span<const Format> Formats() { return kFormats; }

absl::StatusOr<RecognizedFormat> RecognizeFormat(io::FileSystem& files,
                                                 const std::string& source) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(source);
  const bool is_file = info.ok() && !info->is_directory;
  if (absl::IsNotFound(info.status())) {
    HEARTH_RETURN_IF_ERROR(CheckIsNoLink(files, source));
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": there is no such file or folder"));
  }
  std::vector<RecognizedFormat> found;
  for (const Format& format : kFormats) {
    if (!(is_file ? format.is_file : format.is_folder)) continue;
    HEARTH_ASSIGN_OR_RETURN(std::string reason,
                            format.recognize(files, source));
    if (reason.empty()) continue;
    found.push_back({std::string(format.name), std::move(reason)});
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": looks like none of: ",
        absl::StrJoin(kFormats, "; ", [](std::string* out, const Format& one) {
          absl::StrAppend(out, one.name, " (", one.mark, ")");
        })));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": could be ",
      absl::StrJoin(found, " or ",
                    [](std::string* out, const RecognizedFormat& one) {
                      absl::StrAppend(out, one.format, " (", one.reason, ")");
                    }),
      "; say which it is"));
}

absl::StatusOr<SourceGraph> OpenFormat(ImportContext& context,
                                       absl::string_view format,
                                       const std::string& source,
                                       const FormatOptions& options) {
  for (const Format& one : kFormats) {
    if (one.name == format) return one.open(context, source, options);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "no format is called \"", format, "\"; there are ",
      absl::StrJoin(kFormats, ", ", [](std::string* out, const Format& one) {
        absl::StrAppend(out, one.name);
      })));
}

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
