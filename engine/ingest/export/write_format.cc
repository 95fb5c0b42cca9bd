#include "engine/ingest/export/write_format.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/csc_writers.h"
#include "engine/ingest/export/edge_list_writer.h"
#include "engine/ingest/export/format_bytes.h"
#include "engine/ingest/export/graphbolt_writer.h"
#include "engine/ingest/export/igb_writer.h"
#include "engine/ingest/export/mag240m_writer.h"
#include "engine/ingest/export/numpy_writer.h"
#include "engine/ingest/export/ogb_writer.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/atomic_file.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kMinMemoryBytes = 1 << 20;

struct FormatWriter {
  /// The name that the format's reader has.
  absl::string_view format;
  absl::Status (*write)(ImportContext& context, SourceGraph& graph,
                        const std::string& destination);
  FormatSize size;
};

/// The formats that can be written: not all that are read need be here.
constexpr FormatWriter kWriters[] = {
    {"diskgnn", WriteDiskGnn, {.edges = EdgeForm::kSortedCsc}},
    {"edge-list",
     WriteEdgeList,
     {.edges = EdgeForm::kText, .has_node_data = false}},
    {"ginex",
     WriteGinex,
     {.edges = EdgeForm::kSortedCsc, .feature_bytes = sizeof(float)}},
    {"graphbolt", WriteGraphBolt, {}},
    {"igb", WriteIgb, {.feature_bytes = sizeof(float)}},
    {"mag240m", WriteMag240m, {.feature_bytes = sizeof(uint16_t)}},
    {"numpy", WriteNumpyFolder, {.edges = EdgeForm::kAsGiven}},
    {"ogb",
     WriteOgb,
     {.edges = EdgeForm::kGzipText, .feature_bytes = kGzipFeatureBytes}},
};

absl::StatusOr<const FormatWriter*> FindWriter(absl::string_view format) {
  for (const FormatWriter& writer : kWriters) {
    if (writer.format == format) return &writer;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the format ", format, " cannot be written; ",
                   absl::StrJoin(kWriters, ", ",
                                 [](std::string* out, const FormatWriter& one) {
                                   absl::StrAppend(out, one.format);
                                 }),
                   " can"));
}

/// The path without slashes at its end.
std::string Trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::Status CheckOptions(io::FileSystem& files, const std::string& destination,
                          const WriteFormatOptions& options) {
  if (destination.empty()) {
    return absl::InvalidArgumentError("an export needs a destination");
  }
  if (options.memory_limit_bytes < kMinMemoryBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("an export needs a memory limit of at least ",
                     FormatByteSize(kMinMemoryBytes)));
  }
  const absl::Status there = files.Stat(destination).status();
  if (there.ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, ": already exists"));
  }
  return absl::IsNotFound(there) ? absl::OkStatus() : there;
}

absl::string_view DefaultFormat(const SourceGraph& graph) {
  return graph.nodes.size() == 1 && graph.edges.size() == 1 ? "numpy"
                                                            : "graphbolt";
}

}  // namespace

absl::Status WriteFormat(io::FileSystem& files,
                         const WriteFormatOptions& options, OpenSource open,
                         const ImportProgress& progress, std::stop_token stop) {
  const std::string destination = Trimmed(options.destination);
  HEARTH_RETURN_IF_ERROR(CheckOptions(files, destination, options));
  const FormatWriter* writer = nullptr;
  if (!options.format.empty()) {
    HEARTH_ASSIGN_OR_RETURN(writer, FindWriter(options.format));
  }
  // Apart from the folder being written, which is emptied first.
  const std::string folder =
      absl::StrCat(destination, ".scratch", io::kTemporarySuffix);
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder));
  const auto write = [&]() -> absl::Status {
    ImportContext context(files, options.memory_limit_bytes,
                          io::JoinPath(folder, "scratch"), progress,
                          std::move(stop));
    HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, open(context));
    HEARTH_RETURN_IF_ERROR(graph.CheckTypes("the graph"));
    HEARTH_RETURN_IF_ERROR(CheckHeaders(graph, false));
    if (writer == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(writer, FindWriter(DefaultFormat(graph)));
    }
    HEARTH_RETURN_IF_ERROR(
        context.CheckSpace(BytesToWrite(graph, writer->size), "the export"));
    return writer->write(context, graph, destination);
  };
  const absl::Status status = write();
  // The folder was written whole, or the error of writing is the one to report.
  files.RemoveTree(folder).IgnoreError();
  return status;
}

}  // namespace hearth::ingest
