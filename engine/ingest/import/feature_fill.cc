#include "engine/ingest/import/feature_fill.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/edge_import.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"
#include "engine/store/stored_array.h"

namespace hearth::ingest {

namespace {

constexpr uint64_t kShareOfLimit = 16;
/// Nodes that can be collected in any case: a node takes memory even without
/// rows.
constexpr size_t kMinEnds = 1024;

/// Adds the values of a row to `sums`.
void AddRow(const std::byte* row, store::DType dtype,
            std::vector<double>& sums) {
  const auto item_bytes = static_cast<size_t>(store::SizeOf(dtype));
  for (size_t i = 0; i < sums.size(); ++i) {
    const std::byte* const at = row + i * item_bytes;
    float value;
    uint16_t bits;
    if (dtype == store::DType::kFloat32) {
      std::memcpy(&value, at, sizeof(value));
    } else {
      std::memcpy(&bits, at, sizeof(bits));
      value = dtype == store::DType::kFloat16 ? store::Float16ToFloat(bits)
                                              : store::BFloat16ToFloat(bits);
    }
    sums[i] += value;
  }
}

/// Writes sums / count in element type `dtype`.
void StoreMean(const std::vector<double>& sums, int64_t count,
               store::DType dtype, absl::Span<std::byte> to) {
  const auto item_bytes = static_cast<size_t>(store::SizeOf(dtype));
  for (size_t i = 0; i < sums.size(); ++i) {
    std::byte* const at = to.data() + i * item_bytes;
    const auto mean = static_cast<float>(
        count == 0 ? 0 : sums[i] / static_cast<double>(count));
    if (dtype == store::DType::kFloat32) {
      std::memcpy(at, &mean, sizeof(mean));
      continue;
    }
    const uint16_t bits = dtype == store::DType::kFloat16
                              ? store::FloatToFloat16(mean)
                              : store::FloatToBFloat16(mean);
    std::memcpy(at, &bits, sizeof(bits));
  }
}

/// A matrix, and its rows that are to be read.
struct Matrix {
  std::unique_ptr<io::ReadableFile> file;
  uint64_t data_offset = 0;
  io::RowLayout layout;
  std::vector<int64_t> rows;
  /// Index of each of these rows among the collected rows of all matrices.
  std::vector<size_t> slots;
};

/// Computes means of rows of feature matrices, one node after another. Rows are
/// collected until they fill a sixteenth of the memory limit, then read in the
/// order of their files, each at most once. Sums are taken in double and in the
/// order in which rows were added, so that means do not depend on the limit.
/// Single-owner.
class NeighborMeans {
 public:
  /// Takes the mean of the next node, in the matrices' element type; valid
  /// during the call.
  using TakeMean = std::function<absl::Status(absl::Span<const std::byte>)>;

  NeighborMeans(ImportContext& context, store::DType dtype, size_t num_columns,
                size_t capacity, std::vector<Matrix> matrices, TakeMean take)
      : context_(context),
        dtype_(dtype),
        row_bytes_(num_columns * static_cast<size_t>(store::SizeOf(dtype))),
        capacity_(capacity),
        max_ends_(std::max(capacity, kMinEnds)),
        matrices_(std::move(matrices)),
        take_(std::move(take)),
        sums_(num_columns),
        mean_(row_bytes_) {}

  /// Adds rows of the matrix at index `matrix` to the current node's mean.
  absl::Status Add(size_t matrix, absl::Span<const int64_t> rows) {
    for (const int64_t row : rows) {
      matrices_[matrix].rows.push_back(row);
      matrices_[matrix].slots.push_back(num_rows_++);
      if (num_rows_ == capacity_) HEARTH_RETURN_IF_ERROR(Empty());
    }
    return absl::OkStatus();
  }

  /// Ends the current node; the mean of no rows is 0.
  absl::Status EndNode() {
    ends_.push_back(num_rows_);
    return ends_.size() < max_ends_ ? absl::OkStatus() : Empty();
  }

  /// Passes on the means that are still collected.
  absl::Status Finish() { return Empty(); }

 private:
  /// Reads the collected rows and adds them up. The last node may get more
  /// rows.
  absl::Status Empty() {
    memory_.resize(num_rows_ * row_bytes_);
    for (Matrix& matrix : matrices_) HEARTH_RETURN_IF_ERROR(ReadRows(matrix));
    size_t next = 0;
    const auto add_until = [&](size_t end) {
      count_ += static_cast<int64_t>(end - next);
      for (; next < end; ++next) {
        AddRow(memory_.data() + next * row_bytes_, dtype_, sums_);
      }
    };
    for (const size_t end : ends_) {
      add_until(end);
      StoreMean(sums_, count_, dtype_, absl::MakeSpan(mean_));
      HEARTH_RETURN_IF_ERROR(take_(mean_));
      std::fill(sums_.begin(), sums_.end(), 0.0);
      count_ = 0;
    }
    add_until(num_rows_);
    ends_.clear();
    num_rows_ = 0;
    // Notices a stop also during a node with very many neighbors.
    return context_.Advance(0);
  }

  absl::Status ReadRows(Matrix& matrix) {
    HEARTH_RETURN_IF_ERROR(io::Coalesce(matrix.rows, matrix.layout,
                                        store::kRandomAccess.crc_block_bytes,
                                        io::ReadCost(), plan_));
    const uint64_t data_bytes = matrix.layout.RowOffset(matrix.layout.num_rows);
    for (const io::PlannedRead& read : plan_.reads) {
      // Reads whole blocks of checksums, of which the last block of a file may
      // be short.
      read_.resize(std::min(read.length, data_bytes - read.offset));
      HEARTH_RETURN_IF_ERROR(matrix.file->Read(matrix.data_offset + read.offset,
                                               absl::MakeSpan(read_)));
      for (size_t i = read.first_row; i < read.first_row + read.num_rows; ++i) {
        const auto& [row, position] = plan_.rows[i];
        std::memcpy(memory_.data() + matrix.slots[position] * row_bytes_,
                    read_.data() + (matrix.layout.RowOffset(row) - read.offset),
                    row_bytes_);
      }
    }
    matrix.rows.clear();
    matrix.slots.clear();
    return absl::OkStatus();
  }

  ImportContext& context_;
  const store::DType dtype_;
  const size_t row_bytes_;
  /// Most rows that are read together.
  const size_t capacity_;
  const size_t max_ends_;
  std::vector<Matrix> matrices_;
  const TakeMean take_;
  size_t num_rows_ = 0;
  /// For each ended node, the end of its rows among the collected ones.
  std::vector<size_t> ends_;
  std::vector<std::byte> memory_;
  io::ReadPlan plan_;
  std::vector<std::byte> read_;
  /// Sums and number of rows of the node being added up.
  std::vector<double> sums_;
  int64_t count_ = 0;
  std::vector<std::byte> mean_;
};

/// `matrices` have one element type and width, and are in the dataset's
/// `folder` or registered in place. `context` must outlive the result.
/// RESOURCE_EXHAUSTED if a row does not fit a sixteenth of the memory limit;
/// DATA_LOSS, here or later, if a matrix does not match its checksums.
absl::StatusOr<std::unique_ptr<NeighborMeans>> NewNeighborMeans(
    ImportContext& context, const std::string& folder,
    const std::vector<const store::ArrayFile*>& matrices,
    NeighborMeans::TakeMean take) {
  const store::ArrayFile& first = *matrices.front();
  const auto row_bytes =
      static_cast<uint64_t>(first.shape[1] * store::SizeOf(first.dtype));
  const uint64_t memory_bytes = context.memory_limit_bytes() / kShareOfLimit;
  const uint64_t bytes_each =
      row_bytes + io::kPlanBytesPerRow + sizeof(int64_t) + 2 * sizeof(size_t);
  if (bytes_each > memory_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        first.path, ": averaging rows of ", FormatByteSize(row_bytes),
        " needs ", FormatByteSize(bytes_each),
        ", the import's memory limit leaves ", FormatByteSize(memory_bytes)));
  }
  std::vector<Matrix> opened;
  for (const store::ArrayFile* const array : matrices) {
    Matrix& matrix = opened.emplace_back();
    HEARTH_ASSIGN_OR_RETURN(
        matrix.file, store::OpenVerifiedFile(context.files(), folder, *array));
    matrix.data_offset = array->data_offset;
    matrix.layout = {0, static_cast<uint32_t>(row_bytes), array->shape[0]};
  }
  return std::make_unique<NeighborMeans>(
      context, first.dtype, static_cast<size_t>(first.shape[1]),
      static_cast<size_t>(memory_bytes / bytes_each), std::move(opened),
      std::move(take));
}

// The edges of a node type are read node by node, all edge types side by side.
// Edge types that lead to the node type are read as they are in the dataset;
// edge types that come from it are first sorted by source, in the scratch
// folder. Memory does not grow with the number of nodes.

constexpr int64_t kBlockElements = 64 << 10;
constexpr uint64_t kBlocksInLimit = 16;
constexpr int64_t kPageBytes = 4096;

/// Element type and width of a feature matrix.
struct FeatureKind {
  store::DType dtype = store::DType::kFloat32;
  int64_t num_columns = 0;

  friend bool operator==(const FeatureKind&, const FeatureKind&) = default;
};

size_t IndexOf(const SourceGraph& graph, const std::string& type) {
  return static_cast<size_t>(graph.FindNodes(type) - graph.nodes.data());
}

/// The kind of rows that most edges lead to, among pairs of an edge type and
/// the kind of rows at its other end; the first of several with equally many
/// edges.
FeatureKind MostEdges(
    const SourceGraph& graph,
    const std::vector<std::pair<size_t, FeatureKind>>& others) {
  FeatureKind most = others.front().second;
  int64_t most_edges = -1;
  for (const auto& [unused, kind] : others) {
    int64_t edges = 0;
    for (const auto& [edge_type, other] : others) {
      if (other == kind) edges += graph.edges[edge_type].num_edges();
    }
    if (edges > most_edges) most = kind;
    most_edges = std::max(most_edges, edges);
  }
  return most;
}

/// The fill of a node type from types that have features; nullopt if no edges
/// join it with such a type.
std::optional<FeatureFill> PlanFill(
    const SourceGraph& graph, size_t node_type,
    const std::vector<std::optional<FeatureKind>>& kinds) {
  const std::string& name = graph.nodes[node_type].type;
  // Edge types of these nodes whose other ends have features, and their kinds.
  std::vector<std::pair<size_t, FeatureKind>> others;
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const SourceEdges& edges = graph.edges[i];
    if (edges.source_type != name && edges.destination_type != name) continue;
    const auto& kind =
        kinds[IndexOf(graph, edges.source_type == name ? edges.destination_type
                                                       : edges.source_type)];
    if (kind.has_value()) others.emplace_back(i, *kind);
  }
  if (others.empty()) return std::nullopt;
  const FeatureKind chosen = MostEdges(graph, others);
  FeatureFill fill;
  fill.node_type = node_type;
  fill.dtype = chosen.dtype;
  fill.num_columns = chosen.num_columns;
  for (const auto& [edge_type, kind] : others) {
    (kind == chosen ? fill.edge_types : fill.left_out).push_back(edge_type);
  }
  return fill;
}

/// Neighbors of each node in a topology, from the first node to the last.
class NeighborLists {
 public:
  NeighborLists(std::unique_ptr<ArrayReader> indptr,
                std::unique_ptr<ArrayReader> indices)
      : indptr_(std::move(indptr)), indices_(std::move(indices)) {}

  /// Calls `take` with the neighbors of the next node, in pieces.
  absl::Status Next(
      absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> take) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t end, NextEnd());
    while (at_ < end) {
      if (at_ == buffer_end_) {
        const int64_t left = indices_->header().shape[0] - at_;
        buffer_.resize(static_cast<size_t>(std::min(kBlockElements, left)));
        HEARTH_RETURN_IF_ERROR(
            indices_->ReadInts(at_, absl::MakeSpan(buffer_)));
        buffer_end_ = at_ + static_cast<int64_t>(buffer_.size());
      }
      const int64_t count = std::min(end, buffer_end_) - at_;
      HEARTH_RETURN_IF_ERROR(take(absl::MakeConstSpan(buffer_).subspan(
          buffer_.size() - static_cast<size_t>(buffer_end_ - at_),
          static_cast<size_t>(count))));
      at_ += count;
    }
    return absl::OkStatus();
  }

 private:
  /// The end of the next node's list in indices.
  absl::StatusOr<int64_t> NextEnd() {
    if (next_ == ends_.size()) {
      const int64_t left = indptr_->header().shape[0] - first_end_;
      ends_.resize(static_cast<size_t>(std::min(kBlockElements, left)));
      HEARTH_RETURN_IF_ERROR(
          indptr_->ReadInts(first_end_, absl::MakeSpan(ends_)));
      first_end_ += static_cast<int64_t>(ends_.size());
      next_ = 0;
    }
    const int64_t end = ends_[next_++];
    if (end >= at_ && end <= indices_->header().shape[0]) return end;
    return indptr_->Error("was changed while it was read");
  }

  std::unique_ptr<ArrayReader> indptr_;
  std::unique_ptr<ArrayReader> indices_;
  /// Index of the next offset of indptr to be read; offsets that are buffered.
  int64_t first_end_ = 1;
  std::vector<int64_t> ends_;
  size_t next_ = 0;
  /// Index of the next element of indices; elements that are buffered, and the
  /// index after them.
  int64_t at_ = 0;
  int64_t buffer_end_ = 0;
  std::vector<int64_t> buffer_;
};

/// Writes rows in blocks; a block is whole pages if its memory suffices.
class RowOutput {
 public:
  static absl::StatusOr<RowOutput> Create(ImportContext& context,
                                          FeatureWriter writer,
                                          int64_t row_bytes,
                                          const RowObserver& observer) {
    const int64_t limit = std::max<int64_t>(
        1, static_cast<int64_t>(context.memory_limit_bytes() / kBlocksInLimit) /
               row_bytes);
    const int64_t whole = kPageBytes / std::gcd(kPageBytes, row_bytes);
    const int64_t rows = limit < whole ? limit : limit / whole * whole;
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory memory,
        io::AlignedMemory::Allocate(static_cast<uint64_t>(rows * row_bytes)));
    return RowOutput(context, std::move(writer), row_bytes, observer,
                     std::move(memory));
  }

  absl::Status Append(absl::Span<const std::byte> row) {
    std::copy(row.begin(), row.end(), memory_.bytes().begin() + filled_);
    filled_ += static_cast<int64_t>(row.size());
    return filled_ < static_cast<int64_t>(memory_.bytes().size())
               ? absl::OkStatus()
               : Flush();
  }

  absl::StatusOr<store::FinishedArray> Finish() {
    HEARTH_RETURN_IF_ERROR(Flush());
    return writer_.Finish();
  }

 private:
  RowOutput(ImportContext& context, FeatureWriter writer, int64_t row_bytes,
            const RowObserver& observer, io::AlignedMemory memory)
      : context_(context),
        writer_(std::move(writer)),
        row_bytes_(row_bytes),
        observer_(observer),
        memory_(std::move(memory)) {}

  absl::Status Flush() {
    if (filled_ == 0) return absl::OkStatus();
    const RowBlock block{next_row_, filled_ / row_bytes_,
                         memory_.bytes().first(static_cast<size_t>(filled_))};
    HEARTH_RETURN_IF_ERROR(writer_.Append(block.bytes));
    if (observer_) HEARTH_RETURN_IF_ERROR(observer_(block));
    next_row_ += block.num_rows;
    filled_ = 0;
    return context_.Advance(block.bytes.size());
  }

  ImportContext& context_;
  FeatureWriter writer_;
  int64_t row_bytes_;
  const RowObserver& observer_;
  io::AlignedMemory memory_;
  int64_t filled_ = 0;
  int64_t next_row_ = 0;
};

const store::NodeTypeEntry& NodesOf(const store::Manifest& manifest,
                                    const std::string& type) {
  return *std::find_if(
      manifest.node_types.begin(), manifest.node_types.end(),
      [&](const store::NodeTypeEntry& nodes) { return nodes.name == type; });
}

/// Opens the lists of `edges` by the nodes of `type`, which is at one of their
/// ends.
absl::StatusOr<NeighborLists> OpenLists(ImportContext& context,
                                        const store::Manifest& manifest,
                                        const store::EdgeTypeEntry& edges,
                                        const std::string& type,
                                        const store::ArrayPlace& place) {
  std::string folder = place.folder;
  store::ArrayFile indptr = edges.indptr, indices = edges.indices;
  if (edges.destination_type != type) {
    HEARTH_ASSIGN_OR_RETURN(folder, context.NewScratchPath("reversed"));
    HEARTH_RETURN_IF_ERROR(context.files().CreateDirectory(folder));
    const EdgeEnds ends{NodesOf(manifest, edges.source_type).num_nodes,
                        NodesOf(manifest, edges.destination_type).num_nodes};
    HEARTH_ASSIGN_OR_RETURN(
        CscArrays arrays,
        ReverseWritten(context, place.folder, edges, ends,
                       {folder, place.dataset, place.prefix}));
    indptr = std::move(arrays.indptr.file);
    indices = std::move(arrays.indices.file);
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> opened_indptr,
                          OpenWritten(context.files(), folder, indptr));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> opened_indices,
                          OpenWritten(context.files(), folder, indices));
  return NeighborLists(std::move(opened_indptr), std::move(opened_indices));
}

}  // namespace

absl::StatusOr<std::vector<FeatureFill>> PlanFeatureFills(
    const SourceGraph& graph, const std::string& source) {
  std::vector<std::optional<FeatureKind>> kinds;
  for (const SourceNodes& nodes : graph.nodes) {
    kinds.emplace_back();
    if (nodes.features == nullptr) continue;
    const store::ArrayHeader& header = nodes.features->header();
    kinds.back() = FeatureKind{StoredType(header), header.shape[1]};
  }
  if (std::none_of(kinds.begin(), kinds.end(),
                   [](const auto& kind) { return kind.has_value(); })) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": no nodes have features, so none can be filled from them"));
  }
  std::vector<FeatureFill> fills;
  for (bool found = true; found;) {
    found = false;
    const std::vector<std::optional<FeatureKind>> before = kinds;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (before[i].has_value()) continue;
      std::optional<FeatureFill> fill = PlanFill(graph, i, before);
      if (!fill.has_value()) continue;
      found = true;
      kinds[i] = FeatureKind{fill->dtype, fill->num_columns};
      fills.push_back(*std::move(fill));
    }
  }
  return fills;
}

uint64_t BytesToFill(const SourceGraph& graph,
                     const std::vector<FeatureFill>& fills) {
  uint64_t bytes = 0;
  for (const FeatureFill& fill : fills) {
    const SourceNodes& nodes = graph.nodes[fill.node_type];
    bytes += FeatureBytes(nodes.num_nodes,
                          fill.num_columns * store::SizeOf(fill.dtype));
    for (const size_t i : fill.edge_types) {
      const SourceEdges& edges = graph.edges[i];
      if (edges.destination_type == nodes.type) continue;
      const EdgeEnds ends = graph.EndsOf(edges);
      bytes += BytesToSort(edges.num_edges(),
                           {ends.num_destinations, ends.num_sources});
    }
  }
  return bytes;
}

absl::StatusOr<store::FinishedArray> WriteFill(ImportContext& context,
                                               const store::Manifest& manifest,
                                               const FeatureFill& fill,
                                               const RowObserver& observer,
                                               const store::ArrayPlace& place) {
  const store::NodeTypeEntry& nodes = manifest.node_types[fill.node_type];
  std::vector<NeighborLists> lists;
  std::vector<const store::ArrayFile*> matrices;
  for (const size_t i : fill.edge_types) {
    const store::EdgeTypeEntry& edges = manifest.edge_types[i];
    HEARTH_ASSIGN_OR_RETURN(
        NeighborLists opened,
        OpenLists(context, manifest, edges, nodes.name, place));
    lists.push_back(std::move(opened));
    matrices.push_back(&NodesOf(manifest, edges.destination_type == nodes.name
                                              ? edges.source_type
                                              : edges.destination_type)
                            .features);
  }
  const int64_t row_bytes = fill.num_columns * store::SizeOf(fill.dtype);
  HEARTH_ASSIGN_OR_RETURN(
      FeatureWriter writer,
      FeatureWriter::Create(context.files(), place, fill.dtype,
                            {nodes.num_nodes, fill.num_columns}));
  HEARTH_ASSIGN_OR_RETURN(
      RowOutput output,
      RowOutput::Create(context, std::move(writer), row_bytes, observer));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<NeighborMeans> means,
      NewNeighborMeans(context, place.folder, matrices,
                       [&output](absl::Span<const std::byte> mean) {
                         return output.Append(mean);
                       }));
  context.Begin("features", static_cast<uint64_t>(nodes.num_nodes * row_bytes));
  for (int64_t node = 0; node < nodes.num_nodes; ++node) {
    for (size_t i = 0; i < lists.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(
          lists[i].Next([&](absl::Span<const int64_t> neighbors) {
            return means->Add(i, neighbors);
          }));
    }
    HEARTH_RETURN_IF_ERROR(means->EndNode());
  }
  HEARTH_RETURN_IF_ERROR(means->Finish());
  return output.Finish();
}

}  // namespace hearth::ingest
