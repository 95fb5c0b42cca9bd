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

/// Parts of a source in the forms that formats need: checks, edges as a list or
/// in CSC, and arrays as bytes or .npy files.

namespace hearth::ingest {

/// Parts of a graph that a format needs.
struct NeededParts {
  bool one_type = true;
  bool features = true;
  bool labels = true;
  bool split = true;
  /// Whether labels may be of any kind; otherwise they must be classes.
  bool any_label_kind = false;
  /// Whether all parts of the split are needed, or only the training nodes.
  bool whole_split = true;
};

/// INVALID_ARGUMENT, naming the format and the part that the graph lacks;
/// errors of CheckTypes and CheckHeaders.
absl::Status CheckParts(const SourceGraph& graph, absl::string_view format,
                        const NeededParts& needed = {});

/// INVALID_ARGUMENT, naming the format, unless the nodes of one type have the
/// needed parts.
absl::Status CheckNodeParts(const SourceNodes& nodes, absl::string_view format,
                            const NeededParts& needed = {});

/// Edges as a list, in whichever form they are given. `edges` must outlive the
/// list.
class EdgeList {
 public:
  explicit EdgeList(SourceEdges& edges);

  EdgeSource& operator*() const { return *list_; }
  EdgeSource* operator->() const { return list_; }

 private:
  std::unique_ptr<EdgeSource> owned_;
  EdgeSource* list_;
};

/// Turns edges in a list into CSC, in scratch files of the context; leaves
/// other edges as they are. Errors of BuildCsc.
absl::Status CompressEdges(ImportContext& context, const EdgeEnds& ends,
                           SourceEdges& edges);

/// Copies of a source's arrays, block by block, in element types that formats
/// ask for. All report progress to the context: CANCELLED after a stop.

/// Calls `visit` with all features as float32, row-major, some rows at a time,
/// and with the position of the first element. A float64 beyond float32's range
/// becomes infinite.
absl::Status ForEachFeatureBlock(
    ImportContext& context, ArrayReader& features,
    absl::FunctionRef<absl::Status(int64_t, absl::Span<const float>)> visit);

/// Writes features row-major, as `wanted`: float32, float16, or their own type.
/// Values are rounded to float16; INVALID_ARGUMENT for one beyond its range.
absl::Status WriteFeatures(ImportContext& context, ArrayReader& features,
                           store::DType wanted, ByteSink& sink);

/// Writes integers as int32 or int64. INVALID_ARGUMENT for one that does not
/// fit.
absl::Status WriteIntegers(ImportContext& context, ArrayReader& integers,
                           store::DType wanted, ByteSink& sink);

/// Labels of the nodes from `first` on, -1 for nodes without a label.
/// INVALID_ARGUMENT for a value that is no label.
absl::Status ReadLabels(ArrayReader& labels, int64_t first,
                        absl::Span<int64_t> out);

/// Calls `visit` with all labels, block by block, as ReadLabels returns them.
absl::Status ForEachLabelBlock(
    ImportContext& context, ArrayReader& labels,
    absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> visit);

/// Writes labels as int64, -1 for nodes without a label, or as float32 with
/// NaN.
absl::Status WriteLabels(ImportContext& context, ArrayReader& labels,
                         store::DType wanted, ByteSink& sink);

/// The largest label plus 1.
absl::StatusOr<int64_t> CountClasses(ImportContext& context,
                                     ArrayReader& labels);

/// Calls `visit` with all edges, block by block; reads on the caller's thread.
absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit);

/// Writes all sources as int64, then all destinations: the elements of a (2, E)
/// array. Reads the edges twice.
absl::Status WriteEdgeRows(ImportContext& context, EdgeSource& edges,
                           ByteSink& sink);

/// Calls `visit` with all rows of labels that are no classes, block by block,
/// as floats: 0 or 1, or targets; a row of NaN is unlabeled. INVALID_ARGUMENT,
/// naming the first element that is no such label. REQUIRES: kind != kClasses.
absl::Status ForEachLabelRowBlock(
    ImportContext& context, ArrayReader& labels, store::LabelKind kind,
    absl::FunctionRef<absl::Status(absl::Span<const float> rows)> visit);

/// Name, type and shape of an .npy file to write. Headers take 128 bytes, as
/// numpy's do.
struct NpyFile {
  std::string path;
  store::DType dtype = store::DType::kInt64;
  std::vector<int64_t> shape;
};

/// Writes an .npy file whose elements `write` appends.
absl::Status WriteNpy(OutputFolder& folder, const NpyFile& file,
                      absl::FunctionRef<absl::Status(ByteSink&)> write);

/// Writes features (N, dim) in their own type; float64 as float32.
absl::Status WriteFeatureNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& features, const std::string& path);

/// Writes labels (N) as int64 or float32; see WriteLabels.
absl::Status WriteLabelNpy(ImportContext& context, OutputFolder& folder,
                           ArrayReader& labels, const NpyFile& file);

/// Writes integers (K) as int64.
absl::Status WriteIntegerNpy(ImportContext& context, OutputFolder& folder,
                             ArrayReader& integers, const std::string& path);

/// Writes edges (2, E) as int64.
absl::Status WriteEdgeNpy(ImportContext& context, OutputFolder& folder,
                          EdgeSource& edges, const std::string& path);

/// Writes the ids that the source gave its nodes beside the format's files,
/// since no format has a place for them: for each type with ids TYPE.ids.npy
/// (int64), or TYPE.ids.txt with one id per line for ids that are text. Line or
/// element i is node i.
absl::Status WriteNodeIds(ImportContext& context, SourceGraph& graph,
                          OutputFolder& folder);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_SOURCE_OUTPUT_H_
