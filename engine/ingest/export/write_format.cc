#include "engine/ingest/export/write_format.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/ingest/export/format_writers.h"
#include "engine/ingest/export/paper_writers.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

/// Form in which a format writes edges.
enum class EdgeForm {
  kPairs,      // Both ends of each edge, 8 bytes each.
  kAsGiven,    // CSC where the source has it, else pairs.
  kSortedCsc,  // CSC; a list is sorted in scratch files first.
  kText,       // A line of text for each edge.
  kGzipText,   // kText, compressed by gzip.
};

/// Properties of a format that determine the bytes of its files.
struct FormatSize {
  EdgeForm edges = EdgeForm::kPairs;
  /// Bytes per feature; nullopt = as many as the source's type takes when
  /// stored.
  std::optional<uint64_t> feature_bytes = std::nullopt;
  /// Whether features, labels and split are written.
  bool has_node_data = true;
};

/// Bytes per feature as text such as "-1.17549435e-38,", compressed to half.
constexpr uint64_t kGzipFeatureBytes = 8;

// Headers, metadata, and rounding of file sizes to disk blocks.
constexpr uint64_t kOverheadBytes = 1 << 20;
constexpr uint64_t kIdBytes = sizeof(int64_t);

uint64_t NumElements(const ArrayReader& array) {
  return static_cast<uint64_t>(array.header().NumElements());
}

uint64_t BytesOfNodes(const SourceNodes& nodes, const FormatSize& size) {
  uint64_t bytes = 0;
  if (nodes.ids != nullptr) bytes += NumElements(*nodes.ids) * kIdBytes;
  if (nodes.id_text != nullptr) bytes += NumElements(*nodes.id_text);
  if (!size.has_node_data) return bytes;
  if (nodes.features != nullptr) {
    bytes += NumElements(*nodes.features) *
             size.feature_bytes.value_or(static_cast<uint64_t>(
                 store::SizeOf(StoredType(nodes.features->header()))));
  }
  if (nodes.labels != nullptr) bytes += NumElements(*nodes.labels) * kIdBytes;
  for (const auto& part : nodes.split) {
    // An id, and its label in GraphBolt's sets.
    if (part != nullptr) bytes += NumElements(*part) * 2 * kIdBytes;
  }
  return bytes;
}

/// Bytes of a line with both ids, a separator and the line's end.
uint64_t TextBytes(const EdgeEnds& ends) {
  const int64_t largest = std::max(ends.num_sources, ends.num_destinations);
  return 2 * (absl::StrCat(largest).size() + 1);
}

uint64_t BytesOfEdges(const SourceEdges& edges, const EdgeEnds& ends,
                      EdgeForm form) {
  const auto num_edges = static_cast<uint64_t>(edges.num_edges());
  const bool is_list = edges.edges != nullptr;
  const uint64_t as_pairs = num_edges * 2 * kIdBytes;
  const uint64_t as_csc =
      (static_cast<uint64_t>(ends.num_destinations) + 1 + num_edges) * kIdBytes;
  switch (form) {
    case EdgeForm::kPairs:
      return as_pairs;
    case EdgeForm::kAsGiven:
      return is_list ? as_pairs : as_csc;
    case EdgeForm::kSortedCsc:
      if (!is_list) return as_csc;
      return 2 * as_csc +
             num_edges * static_cast<uint64_t>(ScratchEdgeBytes(ends));
    case EdgeForm::kText:
      return num_edges * TextBytes(ends);
    case EdgeForm::kGzipText:
      return num_edges * TextBytes(ends) / 2;
  }
  return as_pairs;
}

/// Upper bound of the bytes that writing a graph takes on the disk, scratch
/// files included, from the headers. For compressed text an estimate: half of
/// the text. REQUIRES: CheckHeaders.
uint64_t BytesToWrite(const SourceGraph& graph, const FormatSize& size) {
  uint64_t bytes = kOverheadBytes;
  for (const SourceNodes& nodes : graph.nodes) {
    bytes += BytesOfNodes(nodes, size);
  }
  for (const SourceEdges& edges : graph.edges) {
    bytes += BytesOfEdges(edges, graph.EndsOf(edges), size.edges);
  }
  return bytes;
}

constexpr uint64_t kMinMemoryBytes = 1 << 20;

struct FormatWriter {
  /// Name of the format, as its reader has it.
  absl::string_view format;
  absl::Status (*write)(ImportContext& context, SourceGraph& graph,
                        const std::string& destination);
  FormatSize size;
};

/// Formats that can be written; a format that can be read need not be here.
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
  // Beside the folder being written, which is emptied first.
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
  // Either the folder was written whole, or the error of writing is the one to
  // report.
  files.RemoveTree(folder).IgnoreError();
  return status;
}

}  // namespace hearth::ingest
