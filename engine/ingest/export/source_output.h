#ifndef HEARTH_ENGINE_INGEST_EXPORT_SOURCE_OUTPUT_H_
#define HEARTH_ENGINE_INGEST_EXPORT_SOURCE_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"

namespace hearth::ingest {

/// The parts of a graph that a format needs.
struct NeededParts {
  bool one_type = true;
  bool features = true;
  bool labels = true;
  bool split = true;
  /// Otherwise labels that are written must be classes.
  bool any_label_kind = false;
  /// Of the split, all parts; otherwise the training nodes alone.
  bool whole_split = true;
};

/// INVALID_ARGUMENT, naming the format and what the graph lacks; and as
/// CheckTypes and CheckHeaders.
absl::Status CheckParts(const SourceGraph& graph, absl::string_view format,
                        const NeededParts& needed = {});

/// OK if the nodes of one type have the needed parts; errors as CheckParts.
absl::Status CheckNodeParts(const SourceNodes& nodes, absl::string_view format,
                            const NeededParts& needed = {});

/// Edges as a list, whichever way they are given: what it needs beyond
/// `edges`, which must outlive it, is owned.
class EdgeList {
 public:
  explicit EdgeList(SourceEdges& edges);

  EdgeSource& operator*() const { return *list_; }
  EdgeSource* operator->() const { return list_; }

 private:
  std::unique_ptr<EdgeSource> owned_;
  EdgeSource* list_;
};

/// Turns edges that are a list into CSC, in scratch files of the context; the
/// others stay. Errors as BuildCsc.
absl::Status CompressEdges(ImportContext& context, const EdgeEnds& ends,
                           SourceEdges& edges);

/// Copies of a source's arrays in the element types that formats ask for, block
/// by block. All tell the context of their bytes: CANCELLED.

/// Calls `visit` with all features as float32, some rows at a time, and with
/// the position of the first of them, row-major. A float64 beyond float32's
/// range becomes infinite.
absl::Status ForEachFeatureBlock(
    ImportContext& context, ArrayReader& features,
    absl::FunctionRef<absl::Status(int64_t, absl::Span<const float>)> visit);

/// Rows of features, row-major. `wanted` is float32, float16, or what they
/// are. To float16 they are rounded; INVALID_ARGUMENT for one beyond its range.
absl::Status WriteFeatures(ImportContext& context, ArrayReader& features,
                           store::DType wanted, ByteSink& sink);

/// Integers; of int32 or int64. INVALID_ARGUMENT for one that does not fit.
absl::Status WriteIntegers(ImportContext& context, ArrayReader& integers,
                           store::DType wanted, ByteSink& sink);

/// The labels of nodes `first` .., -1 where one has none. INVALID_ARGUMENT for
/// what is no label.
absl::Status ReadLabels(ArrayReader& labels, int64_t first,
                        absl::Span<int64_t> out);

/// Calls `visit` with all labels, block after block, as ReadLabels gives
/// them.
absl::Status ForEachLabelBlock(
    ImportContext& context, ArrayReader& labels,
    absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> visit);

/// Labels as int64, -1 where a node has none, or as float32 with NaN.
absl::Status WriteLabels(ImportContext& context, ArrayReader& labels,
                         store::DType wanted, ByteSink& sink);

/// The largest label and 1.
absl::StatusOr<int64_t> CountClasses(ImportContext& context,
                                     ArrayReader& labels);

/// Calls `visit` with all edges, block after block.
absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit);

/// All sources as int64, then all destinations: the elements of a (2, E) array.
/// Two passes.
absl::Status WriteEdgeRows(ImportContext& context, EdgeSource& edges,
                           ByteSink& sink);

/// Calls `visit` with all rows of labels that are no classes, block after
/// block, as floats: 0 or 1, or targets; a row of NaN is unlabeled.
/// INVALID_ARGUMENT naming the first element that is no such label.
/// REQUIRES: kind != kClasses.
absl::Status ForEachLabelRowBlock(
    ImportContext& context, ArrayReader& labels, store::LabelKind kind,
    absl::FunctionRef<absl::Status(absl::Span<const float> rows)> visit);

/// An .npy file being made. Headers take 128 bytes, as numpy's do.
struct NpyFile {
  std::string path;
  store::DType dtype = store::DType::kInt64;
  std::vector<int64_t> shape;
};

/// Writes a file whose elements `write` appends.
absl::Status WriteNpy(OutputFolder& folder, const NpyFile& file,
                      absl::FunctionRef<absl::Status(ByteSink&)> write);

/// Features (N, dim) in their own type, but float64 as float32.
absl::Status WriteFeatureNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& features, const std::string& path);

/// Labels (N) of type int64 or float32, see WriteLabels.
absl::Status WriteLabelNpy(ImportContext& context, OutputFolder& folder,
                           ArrayReader& labels, const NpyFile& file);

/// Integers (K) as int64.
absl::Status WriteIntegerNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& integers, const std::string& path);

/// Edges (2, E) as int64.
absl::Status WriteEdgeNpy(ImportContext& context, OutputFolder& folder,
                          EdgeSource& edges, const std::string& path);

/// Writes the ids that the source gave its nodes, for which no format has a
/// place, beside the format's files: for each type with ids TYPE.ids.npy
/// (int64), or TYPE.ids.txt where they are text, one a line. Line or element i
/// is node i.
absl::Status WriteNodeIds(ImportContext& context, SourceGraph& graph,
                          OutputFolder& folder);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_SOURCE_OUTPUT_H_
