#include "engine/ingest/export/ogb_writer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/array_output.h"
#include "engine/ingest/export/id_output.h"
#include "engine/ingest/export/label_output.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_edges.h"
#include "engine/ingest/export/source_parts.h"
#include "engine/ingest/formats/ogb.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/label_kind.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};

/// A file NAME.csv.gz, whose text `write` appends.
absl::Status WriteCsv(OutputFolder& folder, const std::string& name,
                      absl::FunctionRef<absl::Status(ByteSink&)> write) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> file,
                          folder.NewSink(absl::StrCat(name, ".csv.gz")));
  const std::unique_ptr<ByteSink> sink = NewGzipSink(std::move(file));
  HEARTH_RETURN_IF_ERROR(write(*sink));
  return sink->Finish();
}

absl::Status WriteCount(OutputFolder& folder, const std::string& name,
                        int64_t count) {
  return WriteCsv(folder, name, [&](ByteSink& sink) {
    return sink.AppendText(absl::StrCat(count, "\n"));
  });
}

absl::Status AppendLines(absl::Span<const int64_t> values, ByteSink& sink) {
  std::string lines;
  for (const int64_t value : values) absl::StrAppend(&lines, value, "\n");
  return sink.AppendText(lines);
}

absl::Status WriteIds(ImportContext& context, ArrayReader& ids,
                      ByteSink& sink) {
  const int64_t count = ids.header().NumElements();
  std::vector<int64_t> block;
  for (int64_t first = 0; first < count; first += kBlockElements) {
    block.resize(static_cast<size_t>(std::min(kBlockElements, count - first)));
    HEARTH_RETURN_IF_ERROR(ids.ReadInts(first, absl::MakeSpan(block)));
    HEARTH_RETURN_IF_ERROR(AppendLines(block, sink));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

void AppendFloat(float value, std::string& text) {
  std::array<char, 32> digits;
  const auto [end, error] =
      std::to_chars(digits.data(), digits.data() + digits.size(), value);
  text.append(digits.data(), end);
}

/// Whole rows, with commas between their values.
absl::Status AppendRows(absl::Span<const float> values, size_t columns,
                        ByteSink& sink) {
  std::string lines;
  for (size_t i = 0; i < values.size(); ++i) {
    AppendFloat(values[i], lines);
    lines.push_back((i + 1) % columns == 0 ? '\n' : ',');
  }
  return sink.AppendText(lines);
}

absl::Status WriteLabelLines(ImportContext& context, SourceNodes& nodes,
                             ByteSink& sink) {
  ArrayReader& labels = *nodes.labels;
  const store::LabelKind kind = KindOfLabels(labels.header(), nodes.label_kind);
  if (kind == store::LabelKind::kClasses) {
    return ForEachLabelBlock(context, labels,
                             [&](absl::Span<const int64_t> block) {
                               return AppendLines(block, sink);
                             });
  }
  const auto columns =
      static_cast<size_t>(labels.header().NumElements() / nodes.num_nodes);
  return ForEachLabelRowBlock(context, labels, kind,
                              [&](absl::Span<const float> rows) {
                                return AppendRows(rows, columns, sink);
                              });
}

absl::Status WriteLabelsAndSplit(ImportContext& context, SourceNodes& nodes,
                                 OutputFolder& folder) {
  context.Begin("labels", 0);
  HEARTH_RETURN_IF_ERROR(WriteCsv(
      folder, "raw/node-label",
      [&](ByteSink& sink) { return WriteLabelLines(context, nodes, sink); }));
  for (size_t i = 0; i < kParts.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(WriteCsv(
        folder, absl::StrCat("split/given/", kParts[i]), [&](ByteSink& sink) {
          return WriteIds(context, *nodes.split[i], sink);
        }));
  }
  return WriteCount(folder, "raw/num-node-list", nodes.num_nodes);
}

absl::Status WriteEdges(ImportContext& context, SourceEdges& source,
                        OutputFolder& folder) {
  const EdgeList edges(source);
  context.Begin("edges", 0);
  std::string lines;
  HEARTH_RETURN_IF_ERROR(WriteCsv(folder, "raw/edge", [&](ByteSink& sink) {
    return ForEachEdgeBlock(context, *edges, [&](const EdgeBlock& block) {
      lines.clear();
      for (size_t i = 0; i < block.size(); ++i) {
        absl::StrAppend(&lines, block.sources[i], ",", block.destinations[i],
                        "\n");
      }
      return sink.AppendText(lines);
    });
  }));
  return WriteCount(folder, "raw/num-edge-list", edges->num_edges());
}

absl::Status WriteFeatureLines(ImportContext& context, ArrayReader& features,
                               ByteSink& sink) {
  const auto columns = static_cast<size_t>(features.header().shape[1]);
  // Blocks are of whole rows.
  const auto write = [&](int64_t, absl::Span<const float> values) {
    return AppendRows(values, columns, sink);
  };
  return ForEachFeatureBlock(context, features, write);
}

absl::Status Check(const SourceGraph& graph, const std::string& destination) {
  NeededParts needed;
  needed.features = false;
  needed.any_label_kind = true;
  HEARTH_RETURN_IF_ERROR(CheckParts(graph, "ogb", needed));
  if (graph.edges[0].num_edges() == 0) {
    return absl::InvalidArgumentError(
        "the graph has no edges; the format ogb needs them");
  }
  if (!OgbAddsInverseEdges(destination)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(destination,
                   ": in the format ogb, to a folder of this name the inverse "
                   "of each edge is added when it is read; choose another"));
}

}  // namespace

absl::Status WriteOgb(ImportContext& context, SourceGraph& graph,
                      const std::string& destination) {
  HEARTH_RETURN_IF_ERROR(Check(graph, destination));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFolder> folder,
                          OutputFolder::Create(context.files(), destination));
  // The version that ogb looks for.
  HEARTH_RETURN_IF_ERROR(folder->WriteText("RELEASE_v1.txt", "v1\n"));
  SourceNodes& nodes = graph.nodes[0];
  HEARTH_RETURN_IF_ERROR(WriteLabelsAndSplit(context, nodes, *folder));
  HEARTH_RETURN_IF_ERROR(WriteEdges(context, graph.edges[0], *folder));
  if (nodes.features != nullptr) {
    context.Begin("features", 0);
    HEARTH_RETURN_IF_ERROR(
        WriteCsv(*folder, "raw/node-feat", [&](ByteSink& sink) {
          return WriteFeatureLines(context, *nodes.features, sink);
        }));
  }
  HEARTH_RETURN_IF_ERROR(WriteNodeIds(context, graph, *folder));
  return folder->Publish();
}

}  // namespace hearth::ingest
