#include "engine/ingest/export/source_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/import/csc_builder.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/labels.h"
#include "engine/store/npy.h"

namespace hearth::ingest {

namespace {

constexpr std::array<absl::string_view, 3> kPartNames = {
    "training nodes", "validation nodes", "test nodes"};

/// Most formats have one class per node; other labels would be read as classes.
absl::Status CheckLabelsAreClasses(const SourceGraph& graph,
                                   absl::string_view format) {
  for (const SourceNodes& nodes : graph.nodes) {
    if (nodes.labels == nullptr) continue;
    const store::LabelKind kind =
        KindOfLabels(nodes.labels->header(), nodes.label_kind);
    if (kind == store::LabelKind::kClasses) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the labels of \"", nodes.type, "\" are ", Name(kind),
                     "; the format ", format, " has room for classes only"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNodeParts(const SourceNodes& nodes, absl::string_view format,
                            const NeededParts& needed) {
  const auto missing = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has no ", what, "; the format ", format, " needs them"));
  };
  if (needed.features && nodes.features == nullptr) return missing("features");
  if (needed.labels && nodes.labels == nullptr) return missing("labels");
  const size_t parts = needed.whole_split ? kPartNames.size() : 1;
  for (size_t i = 0; needed.split && i < parts; ++i) {
    if (nodes.split[i] == nullptr) return missing(kPartNames[i]);
  }
  return absl::OkStatus();
}

absl::Status CheckParts(const SourceGraph& graph, absl::string_view format,
                        const NeededParts& needed) {
  HEARTH_RETURN_IF_ERROR(graph.CheckTypes("the graph"));
  HEARTH_RETURN_IF_ERROR(CheckHeaders(graph, false));
  if (needed.labels && !needed.any_label_kind) {
    HEARTH_RETURN_IF_ERROR(CheckLabelsAreClasses(graph, format));
  }
  if (!needed.one_type) return absl::OkStatus();
  if (graph.nodes.size() != 1 || graph.edges.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the graph has ", graph.nodes.size(), " node and ", graph.edges.size(),
        " edge types; the format ", format, " has one of each"));
  }
  return CheckNodeParts(graph.nodes[0], format, needed);
}

EdgeList::EdgeList(SourceEdges& edges)
    : owned_(edges.edges != nullptr
                 ? nullptr
                 : NewCscEdgeSource(*edges.indptr, *edges.indices)),
      list_(owned_ != nullptr ? owned_.get() : edges.edges.get()) {}

absl::Status CompressEdges(ImportContext& context, const EdgeEnds& ends,
                           SourceEdges& edges) {
  if (edges.edges == nullptr) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const std::string path,
                          context.NewScratchPath("csc"));
  HEARTH_RETURN_IF_ERROR(context.files().CreateDirectory(path));
  const store::ArrayPlace place{path, "scratch", "edge"};
  HEARTH_ASSIGN_OR_RETURN(const CscArrays arrays,
                          BuildCsc(context, *edges.edges, ends, place));
  HEARTH_ASSIGN_OR_RETURN(
      edges.indptr,
      ArrayReader::OpenNpy(context.files(),
                           io::JoinPath(path, arrays.indptr.file.path)));
  HEARTH_ASSIGN_OR_RETURN(
      edges.indices,
      ArrayReader::OpenNpy(context.files(),
                           io::JoinPath(path, arrays.indices.file.path)));
  edges.edges = nullptr;
  return absl::OkStatus();
}

namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr int64_t kBlockBytes = 256 << 10;
constexpr int64_t kUnlabeled = -1;
constexpr uint64_t kHeaderBytes = 128;

template <typename Bits, typename ToFloat>
void Convert(absl::Span<const std::byte> from, std::vector<float>& to,
             ToFloat to_float) {
  to.resize(from.size() / sizeof(Bits));
  for (size_t i = 0; i < to.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, from.data() + i * sizeof(Bits), sizeof(Bits));
    to[i] = static_cast<float>(to_float(bits));
  }
}

void ToFloat32(absl::Span<const std::byte> from, store::ElementType type,
               std::vector<float>& to) {
  if (type.kind == store::ElementType::Kind::kBFloat) {
    return Convert<uint16_t>(from, to, store::BFloat16ToFloat);
  }
  const auto same = [](auto value) { return value; };
  if (type.item_bytes == 2)
    return Convert<uint16_t>(from, to, store::Float16ToFloat);
  if (type.item_bytes == 4) return Convert<float>(from, to, same);
  Convert<double>(from, to, same);
}

/// Calls `visit` with the first position and the count of each block.
absl::Status ForEachBlock(
    ImportContext& context, int64_t count,
    absl::FunctionRef<absl::Status(int64_t, int64_t)> visit) {
  for (int64_t first = 0; first < count; first += kBlockElements) {
    const int64_t size = std::min(kBlockElements, count - first);
    HEARTH_RETURN_IF_ERROR(visit(first, size));
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(size) * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

absl::Status ReadFloatLabels(ArrayReader& labels, int64_t first,
                             absl::Span<int64_t> out) {
  std::vector<double> floats(out.size());
  HEARTH_RETURN_IF_ERROR(labels.ReadFloats(first, absl::MakeSpan(floats)));
  for (size_t i = 0; i < out.size(); ++i) {
    const double value = floats[i];
    if (std::isnan(value)) {
      out[i] = kUnlabeled;
    } else if (value >= kUnlabeled && value < kMaxClasses &&
               value == std::floor(value)) {
      out[i] = static_cast<int64_t>(value);
    } else {
      return labels.ErrorAt(first + static_cast<int64_t>(i),
                            absl::StrCat("is ", value, ", no label"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadIntegerLabels(ArrayReader& labels, int64_t first,
                               absl::Span<int64_t> out) {
  HEARTH_RETURN_IF_ERROR(labels.ReadInts(first, out));
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= kUnlabeled && out[i] < kMaxClasses) continue;
    return labels.ErrorAt(first + static_cast<int64_t>(i),
                          absl::StrCat("is ", out[i], ", no label"));
  }
  return absl::OkStatus();
}

/// Writes the features as float16.
absl::Status NarrowFeatures(ImportContext& context, ArrayReader& features,
                            ByteSink& sink) {
  std::vector<uint16_t> narrow;
  const auto write = [&](int64_t first, absl::Span<const float> floats) {
    narrow.resize(floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      narrow[i] = store::FloatToFloat16(floats[i]);
      if (!std::isinf(store::Float16ToFloat(narrow[i]))) continue;
      return features.ErrorAt(
          first + static_cast<int64_t>(i),
          absl::StrCat("is ", floats[i], ", which float16 cannot hold"));
    }
    return sink.AppendValues<uint16_t>(narrow);
  };
  return ForEachFeatureBlock(context, features, write);
}

/// Whether `value` is a label of that kind; in multi-label rows NaN is an
/// unknown label.
bool IsLabel(float value, store::LabelKind kind) {
  return kind == store::LabelKind::kMultiLabel
             ? value == 0 || value == 1 || std::isnan(value)
             : std::isfinite(value);
}

absl::Status CheckRow(const LabelRows& labels, store::LabelKind kind,
                      int64_t row, const double* values) {
  bool unlabeled = false;
  if (kind == store::LabelKind::kTargets) {
    HEARTH_ASSIGN_OR_RETURN(unlabeled, labels.IsUnlabeled(row, values));
  }
  for (int64_t column = 0; !unlabeled && column < labels.width(); ++column) {
    if (IsLabel(static_cast<float>(values[column]), kind)) continue;
    return labels.ErrorAt(row, column, ", no label");
  }
  return absl::OkStatus();
}

absl::Status WriteText(ImportContext& context, ArrayReader& text,
                       ByteSink& sink) {
  const int64_t size = text.header().NumElements();
  std::vector<std::byte> block;
  for (int64_t first = 0; first < size; first += kBlockBytes) {
    block.resize(static_cast<size_t>(std::min(kBlockBytes, size - first)));
    HEARTH_RETURN_IF_ERROR(text.ReadBytes(first, absl::MakeSpan(block)));
    HEARTH_RETURN_IF_ERROR(sink.Append(block));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size()));
  }
  // Line feeds separate ids; none follows the last.
  HEARTH_RETURN_IF_ERROR(sink.AppendText("\n"));
  return sink.Finish();
}

}  // namespace

absl::Status ForEachFeatureBlock(
    ImportContext& context, ArrayReader& features,
    absl::FunctionRef<absl::Status(int64_t, absl::Span<const float>)> visit) {
  const int64_t columns = features.header().shape[1];
  std::vector<float> floats;
  return ForEachRowBlock(context, features, [&](const RowBlock& block) {
    ToFloat32(block.bytes, features.header().type, floats);
    return visit(block.first_row * columns, floats);
  });
}

absl::Status WriteFeatures(ImportContext& context, ArrayReader& features,
                           store::DType wanted, ByteSink& sink) {
  const store::ElementType type = features.header().type;
  if (wanted == StoredType(features.header()) && type.item_bytes <= 4) {
    return ForEachRowBlock(context, features, [&](const RowBlock& block) {
      return sink.Append(block.bytes);
    });
  }
  if (wanted == store::DType::kFloat16)
    return NarrowFeatures(context, features, sink);
  return ForEachFeatureBlock(context, features,
                             [&](int64_t, absl::Span<const float> floats) {
                               return sink.AppendValues<float>(floats);
                             });
}

absl::Status WriteIntegers(ImportContext& context, ArrayReader& integers,
                           store::DType wanted, ByteSink& sink) {
  std::vector<int64_t> block;
  std::vector<int32_t> narrow;
  const auto write = [&](int64_t first, int64_t count) -> absl::Status {
    block.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(integers.ReadInts(first, absl::MakeSpan(block)));
    if (wanted == store::DType::kInt64)
      return sink.AppendValues<int64_t>(block);
    narrow.resize(block.size());
    for (size_t i = 0; i < block.size(); ++i) {
      narrow[i] = static_cast<int32_t>(block[i]);
      if (narrow[i] == block[i]) continue;
      return integers.ErrorAt(first + static_cast<int64_t>(i),
                              absl::StrCat("is ", block[i], ", no int32"));
    }
    return sink.AppendValues<int32_t>(narrow);
  };
  return ForEachBlock(context, integers.header().NumElements(), write);
}

absl::Status ReadLabels(ArrayReader& labels, int64_t first,
                        absl::Span<int64_t> out) {
  return labels.header().type.IsFloat() ? ReadFloatLabels(labels, first, out)
                                        : ReadIntegerLabels(labels, first, out);
}

absl::Status ForEachLabelBlock(
    ImportContext& context, ArrayReader& labels,
    absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> visit) {
  std::vector<int64_t> block;
  const auto read = [&](int64_t first, int64_t count) -> absl::Status {
    block.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(ReadLabels(labels, first, absl::MakeSpan(block)));
    return visit(block);
  };
  return ForEachBlock(context, labels.header().NumElements(), read);
}

absl::Status WriteLabels(ImportContext& context, ArrayReader& labels,
                         store::DType wanted, ByteSink& sink) {
  std::vector<float> floats;
  return ForEachLabelBlock(
      context, labels, [&](absl::Span<const int64_t> block) {
        if (wanted == store::DType::kInt64)
          return sink.AppendValues<int64_t>(block);
        floats.clear();
        for (const int64_t label : block) {
          floats.push_back(label < 0 ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(label));
        }
        return sink.AppendValues<float>(floats);
      });
}

absl::StatusOr<int64_t> CountClasses(ImportContext& context,
                                     ArrayReader& labels) {
  int64_t most = kUnlabeled;
  HEARTH_RETURN_IF_ERROR(
      ForEachLabelBlock(context, labels, [&](absl::Span<const int64_t> block) {
        most = std::max(most, *std::max_element(block.begin(), block.end()));
        return absl::OkStatus();
      }));
  return most + 1;
}

absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit) {
  EdgeBlock block;
  return ForEachBlock(context, edges.num_edges(),
                      [&](int64_t first, int64_t count) -> absl::Status {
                        HEARTH_RETURN_IF_ERROR(edges.Read(first, count, block));
                        return visit(block);
                      });
}

absl::Status WriteEdgeRows(ImportContext& context, EdgeSource& edges,
                           ByteSink& sink) {
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeBlock(context, edges, [&](const EdgeBlock& block) {
        return sink.AppendValues<int64_t>(block.sources);
      }));
  return ForEachEdgeBlock(context, edges, [&](const EdgeBlock& block) {
    return sink.AppendValues<int64_t>(block.destinations);
  });
}

absl::Status ForEachLabelRowBlock(
    ImportContext& context, ArrayReader& labels, store::LabelKind kind,
    absl::FunctionRef<absl::Status(absl::Span<const float> rows)> visit) {
  HEARTH_ASSIGN_OR_RETURN(LabelRows rows, LabelRows::Open(context, labels));
  std::vector<float> floats;
  for (int64_t first = 0; first < rows.num_rows(); first += rows.block_rows()) {
    const int64_t count = std::min(rows.block_rows(), rows.num_rows() - first);
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const double> values,
                            rows.Read(first, count));
    for (int64_t row = 0; row < count; ++row) {
      HEARTH_RETURN_IF_ERROR(CheckRow(rows, kind, first + row,
                                      values.data() + row * rows.width()));
    }
    floats.assign(values.begin(), values.end());
    HEARTH_RETURN_IF_ERROR(visit(floats));
    HEARTH_RETURN_IF_ERROR(context.Advance(floats.size() * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::Status WriteNpy(OutputFolder& folder, const NpyFile& file,
                      absl::FunctionRef<absl::Status(ByteSink&)> write) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                          folder.NewSink(file.path));
  HEARTH_RETURN_IF_ERROR(sink->AppendText(
      store::FormatNpyHeader(file.dtype, file.shape, kHeaderBytes)));
  HEARTH_RETURN_IF_ERROR(write(*sink));
  return sink->Finish();
}

absl::Status WriteFeatureNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& features, const std::string& path) {
  const NpyFile file{path, StoredType(features.header()),
                     features.header().shape};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteFeatures(context, features, file.dtype, sink);
  });
}

absl::Status WriteLabelNpy(ImportContext& context, OutputFolder& folder,
                           ArrayReader& labels, const NpyFile& file) {
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteLabels(context, labels, file.dtype, sink);
  });
}

absl::Status WriteIntegerNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& integers, const std::string& path) {
  const NpyFile file{
      path, store::DType::kInt64, {integers.header().NumElements()}};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteIntegers(context, integers, file.dtype, sink);
  });
}

absl::Status WriteEdgeNpy(ImportContext& context, OutputFolder& folder,
                          EdgeSource& edges, const std::string& path) {
  const NpyFile file{path, store::DType::kInt64, {2, edges.num_edges()}};
  return WriteNpy(folder, file, [&](ByteSink& sink) {
    return WriteEdgeRows(context, edges, sink);
  });
}

absl::Status WriteNodeIds(ImportContext& context, SourceGraph& graph,
                          OutputFolder& folder) {
  FilePrefixes prefixes;
  for (SourceNodes& nodes : graph.nodes) {
    const std::string prefix = prefixes.New(nodes.type);
    context.Begin("ids", 0);
    if (nodes.ids != nullptr) {
      HEARTH_RETURN_IF_ERROR(WriteIntegerNpy(context, folder, *nodes.ids,
                                             absl::StrCat(prefix, ".ids.npy")));
    }
    if (nodes.id_text != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                              folder.NewSink(absl::StrCat(prefix, ".ids.txt")));
      HEARTH_RETURN_IF_ERROR(WriteText(context, *nodes.id_text, *sink));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
