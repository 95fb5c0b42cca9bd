#include "engine/ingest/export/write_layout.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/csc_writers.h"
#include "engine/ingest/export/edge_list_writer.h"
#include "engine/ingest/export/graphbolt_writer.h"
#include "engine/ingest/export/igb_writer.h"
#include "engine/ingest/export/layout_bytes.h"
#include "engine/ingest/export/mag240m_writer.h"
#include "engine/ingest/export/numpy_writer.h"
#include "engine/ingest/export/ogb_writer.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/io/atomic_file.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kMinMemoryBytes = 1 << 20;

/// The path without slashes at its end.
std::string Trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

absl::Status CheckOptions(io::FileSystem& files, const std::string& destination,
                          const WriteLayoutOptions& options) {
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
        absl::StrCat(destination, ": is there already"));
  }
  return absl::IsNotFound(there) ? absl::OkStatus() : there;
}

Layout DefaultLayout(const SourceGraph& graph) {
  return graph.nodes.size() == 1 && graph.edges.size() == 1
             ? Layout::kNumpy
             : Layout::kGraphBolt;
}

absl::Status WriteAs(Layout layout, ImportContext& context, SourceGraph& graph,
                     const std::string& destination) {
  switch (layout) {
    case Layout::kDiskGnn:
      return WriteDiskGnn(context, graph, destination);
    case Layout::kEdgeList:
      return WriteEdgeList(context, graph, /*compressed=*/false, destination);
    case Layout::kGinex:
      return WriteGinex(context, graph, destination);
    case Layout::kGraphBolt:
      return WriteGraphBolt(context, graph, destination);
    case Layout::kNumpy:
      return WriteNumpyFolder(context, graph, destination);
    case Layout::kIgb:
      return WriteIgb(context, graph, destination);
    case Layout::kMag240m:
      return WriteMag240m(context, graph, destination);
    case Layout::kOgb:
      return WriteOgb(context, graph, destination);
  }
  return absl::InternalError("unknown layout");
}

}  // namespace

absl::Status WriteLayout(io::FileSystem& files,
                         const WriteLayoutOptions& options, OpenSource open,
                         const ImportProgress& progress, std::stop_token stop) {
  const std::string destination = Trimmed(options.destination);
  HEARTH_RETURN_IF_ERROR(CheckOptions(files, destination, options));
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
    const Layout layout = options.layout.value_or(DefaultLayout(graph));
    HEARTH_RETURN_IF_ERROR(
        context.CheckSpace(BytesToWrite(graph, layout), "the export"));
    return WriteAs(layout, context, graph, destination);
  };
  const absl::Status status = write();
  // What was written is whole, or its error is the one to tell.
  files.RemoveTree(folder).IgnoreError();
  return status;
}

}  // namespace hearth::ingest
