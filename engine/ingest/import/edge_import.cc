#include "engine/ingest/import/edge_import.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/csc_builder.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/array_writer.h"

namespace hearth::ingest {

namespace {

struct TransformedCsc {
  CscArrays arrays;
  int64_t duplicates_removed = 0;
  int64_t self_loops_removed = 0;
  int64_t self_loops_added = 0;
};

constexpr int64_t kBlockElements = 64 << 10;
constexpr int64_t kMinListElements = 4 << 10;

/// Takes a piece of a node's new list. A list comes in one or more pieces, of
/// which the last is marked.
using TakePiece = absl::FunctionRef<absl::Status(
    absl::Span<const int64_t> piece, bool is_last)>;

// All lists are read twice: first to count what is left of each, which gives
// indptr, then to write it. So the sizes of both arrays are known before they
// are written.
class ListTransformer {
 public:
  ListTransformer(ImportContext& context, ArrayReader& indptr,
                  ArrayReader& indices, const EdgeTransforms& transforms)
      : context_(context),
        indptr_(indptr),
        indices_(indices),
        transforms_(transforms),
        num_nodes_(indptr.header().shape[0] - 1),
        num_edges_(indices.header().shape[0]),
        list_elements_(
            std::max(kMinListElements,
                     static_cast<int64_t>(context.memory_limit_bytes() / 8 /
                                          sizeof(int64_t)))) {}

  int64_t num_nodes() const { return num_nodes_; }

  /// Passes the new lists of all nodes to `take`.
  absl::Status Run(const char* phase, TakePiece take) {
    counts_ = {};
    buffer_.clear();
    buffer_first_ = 0;
    context_.Begin(phase, static_cast<uint64_t>(num_edges_) * sizeof(int64_t));
    std::vector<int64_t> offsets;
    for (int64_t node = 0; node < num_nodes_; node += kBlockElements) {
      const int64_t count = std::min(kBlockElements, num_nodes_ - node);
      offsets.resize(static_cast<size_t>(count) + 1);
      HEARTH_RETURN_IF_ERROR(indptr_.ReadInts(node, absl::MakeSpan(offsets)));
      for (int64_t i = 0; i < count; ++i) {
        HEARTH_RETURN_IF_ERROR(
            Transform(node + i, offsets[static_cast<size_t>(i)],
                      offsets[static_cast<size_t>(i) + 1], take));
      }
    }
    return absl::OkStatus();
  }

  /// Counts of the last run; its arrays are not set.
  const TransformedCsc& counts() const { return counts_; }

 private:
  absl::Status Transform(int64_t node, int64_t begin, int64_t end,
                         TakePiece take) {
    if (begin < 0 || end < begin || end > num_edges_) {
      return indptr_.Error("was changed while it was read");
    }
    if (end - begin > list_elements_) {
      return transforms_.remove_duplicates
                 ? TransformAsSet(node, begin, end, take)
                 : TransformInPieces(node, begin, end, take);
    }
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const int64_t> given,
                            Read(begin, end));
    list_.assign(given.begin(), given.end());
    const int64_t loops = TakeOutLoops(node, list_);
    if (transforms_.remove_duplicates) {
      std::sort(list_.begin(), list_.end());
      const auto unique_end = std::unique(list_.begin(), list_.end());
      counts_.duplicates_removed += list_.end() - unique_end;
      list_.erase(unique_end, list_.end());
    }
    if (CountLoops(loops)) {
      const auto place =
          transforms_.remove_duplicates
              ? std::lower_bound(list_.begin(), list_.end(), node)
              : list_.end();
      list_.insert(place, node);
    }
    return take(list_, true);
  }

  /// Transforms a list that does not fit memory and keeps its order.
  absl::Status TransformInPieces(int64_t node, int64_t begin, int64_t end,
                                 TakePiece take) {
    int64_t loops = 0;
    for (int64_t at = begin; at < end; at += list_elements_) {
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const int64_t> given,
                              Read(at, std::min(end, at + list_elements_)));
      list_.assign(given.begin(), given.end());
      loops += TakeOutLoops(node, list_);
      HEARTH_RETURN_IF_ERROR(take(list_, false));
    }
    list_.clear();
    if (CountLoops(loops)) list_.push_back(node);
    return take(list_, true);
  }

  /// Transforms a list that does not fit memory and becomes ascending.
  absl::Status TransformAsSet(int64_t node, int64_t begin, int64_t end,
                              TakePiece take) {
    HEARTH_RETURN_IF_ERROR(CheckSetFits(end - begin));
    std::vector<bool> set(static_cast<size_t>(num_nodes_));
    int64_t loops = 0, left = 0, kept = 0;
    for (int64_t at = begin; at < end; at += list_elements_) {
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const int64_t> given,
                              Read(at, std::min(end, at + list_elements_)));
      list_.assign(given.begin(), given.end());
      loops += TakeOutLoops(node, list_);
      left += static_cast<int64_t>(list_.size());
      for (const int64_t source : list_) {
        kept += set[static_cast<size_t>(source)] ? 0 : 1;
        set[static_cast<size_t>(source)] = true;
      }
    }
    counts_.duplicates_removed += left - kept;
    if (CountLoops(loops)) set[static_cast<size_t>(node)] = true;
    list_.clear();
    for (int64_t source = 0; source < num_nodes_; ++source) {
      if (set[static_cast<size_t>(source)]) list_.push_back(source);
      if (static_cast<int64_t>(list_.size()) < list_elements_) continue;
      HEARTH_RETURN_IF_ERROR(take(list_, false));
      list_.clear();
    }
    return take(list_, true);
  }

  /// Removes the node itself from `list` unless self loops are kept; returns
  /// how many there were.
  int64_t TakeOutLoops(int64_t node, std::vector<int64_t>& list) const {
    if (transforms_.self_loops == SelfLoops::kKeep) return 0;
    return static_cast<int64_t>(std::erase(list, node));
  }

  /// Counts the changes to self loops of a node that had `loops`; returns
  /// whether the node gets one.
  bool CountLoops(int64_t loops) {
    if (transforms_.self_loops != SelfLoops::kAdd) {
      counts_.self_loops_removed += loops;
      return false;
    }
    counts_.self_loops_removed += std::max<int64_t>(0, loops - 1);
    counts_.self_loops_added += loops == 0 ? 1 : 0;
    return true;
  }

  absl::Status CheckSetFits(int64_t degree) const {
    const uint64_t needed = static_cast<uint64_t>(num_nodes_) / 8;
    const uint64_t available = context_.memory_limit_bytes() / 4;
    if (needed <= available) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "removing duplicates among ", degree, " edges into one node of ",
        num_nodes_, " needs ", FormatByteSize(needed),
        ", the import's memory limit leaves ", FormatByteSize(available)));
  }

  /// Elements `begin` .. `end` - 1 of indices, read through a buffer; a run
  /// asks for them in order. Valid until the next call. REQUIRES: at most
  /// list_elements_.
  absl::StatusOr<absl::Span<const int64_t>> Read(int64_t begin, int64_t end) {
    const auto buffered = static_cast<int64_t>(buffer_.size());
    if (end > buffer_first_ + buffered || begin < buffer_first_) {
      buffer_.resize(
          static_cast<size_t>(std::min(list_elements_, num_edges_ - begin)));
      buffer_first_ = begin;
      HEARTH_RETURN_IF_ERROR(indices_.ReadInts(begin, absl::MakeSpan(buffer_)));
      for (const int64_t source : buffer_) {
        if (source >= 0 && source < num_nodes_) continue;
        return indices_.Error("was changed while it was read");
      }
    }
    HEARTH_RETURN_IF_ERROR(
        context_.Advance(static_cast<uint64_t>(end - begin) * sizeof(int64_t)));
    return absl::MakeConstSpan(buffer_).subspan(
        static_cast<size_t>(begin - buffer_first_),
        static_cast<size_t>(end - begin));
  }

  ImportContext& context_;
  ArrayReader& indptr_;
  ArrayReader& indices_;
  const EdgeTransforms transforms_;
  const int64_t num_nodes_;
  const int64_t num_edges_;
  /// Most elements of a list, or of a block of lists, in memory.
  const int64_t list_elements_;
  TransformedCsc counts_;
  std::vector<int64_t> buffer_;
  int64_t buffer_first_ = 0;
  std::vector<int64_t> list_;
};

/// Writes indptr of the new lists; returns its last element.
absl::StatusOr<int64_t> WriteIndptr(ListTransformer& lists,
                                    store::ArrayWriter& indptr) {
  int64_t sum = 0;
  std::vector<int64_t> offsets = {0};
  HEARTH_RETURN_IF_ERROR(
      lists.Run("counting", [&](absl::Span<const int64_t> piece, bool is_last) {
        sum += static_cast<int64_t>(piece.size());
        if (is_last) offsets.push_back(sum);
        if (static_cast<int64_t>(offsets.size()) < kBlockElements) {
          return absl::OkStatus();
        }
        const absl::Status status = indptr.AppendValues<int64_t>(offsets);
        offsets.clear();
        return status;
      }));
  HEARTH_RETURN_IF_ERROR(indptr.AppendValues<int64_t>(offsets));
  return sum;
}

/// Writes the new lists as elements of type `Id`.
template <typename Id>
absl::Status WriteIndices(ListTransformer& lists, store::ArrayWriter& indices) {
  std::vector<Id> buffer;
  HEARTH_RETURN_IF_ERROR(
      lists.Run("edges", [&](absl::Span<const int64_t> piece, bool) {
        for (const int64_t id : piece) buffer.push_back(static_cast<Id>(id));
        if (static_cast<int64_t>(buffer.size()) < kBlockElements) {
          return absl::OkStatus();
        }
        const absl::Status status = indices.AppendValues<Id>(buffer);
        buffer.clear();
        return status;
      }));
  return indices.AppendValues<Id>(buffer);
}

/// Removes duplicates and removes or adds self loops, in the neighbors of one
/// node after another. `indptr` and `indices` are a topology of one node type
/// that the import wrote itself. Neighbors keep their order unless duplicates
/// are removed; an added self loop comes last, or in its place among ascending
/// neighbors. The result does not depend on the memory limit: neighbors that do
/// not fit an eighth of it become a set of one bit per node.
/// RESOURCE_EXHAUSTED, with the numbers, if that set does not fit a quarter.
absl::StatusOr<TransformedCsc> TransformCsc(ImportContext& context,
                                            ArrayReader& indptr,
                                            ArrayReader& indices,
                                            const EdgeTransforms& transforms,
                                            const store::ArrayPlace& place) {
  ListTransformer lists(context, indptr, indices, transforms);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::ArrayWriter> new_indptr,
      store::ArrayWriter::Create(context.files(), place, "indptr",
                                 store::DType::kInt64, {lists.num_nodes() + 1},
                                 store::kStreamAccess));
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_edges,
                          WriteIndptr(lists, *new_indptr));
  const store::DType type = IndexType(lists.num_nodes());
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::ArrayWriter> new_indices,
      store::ArrayWriter::Create(context.files(), place, "indices", type,
                                 {num_edges}, store::kStreamAccess));
  HEARTH_RETURN_IF_ERROR(type == store::DType::kInt32
                             ? WriteIndices<int32_t>(lists, *new_indices)
                             : WriteIndices<int64_t>(lists, *new_indices));
  TransformedCsc transformed = lists.counts();
  HEARTH_ASSIGN_OR_RETURN(transformed.arrays.indptr, new_indptr->Finish());
  HEARTH_ASSIGN_OR_RETURN(transformed.arrays.indices, new_indices->Finish());
  return transformed;
}

bool JoinsOneType(const SourceEdges& edges) {
  return edges.source_type == edges.destination_type;
}

/// Sorts the edges into a folder of their own, then transforms their lists.
absl::StatusOr<TransformedCsc> BuildAndTransform(
    ImportContext& context, EdgeSource& edges, const EdgeEnds& ends,
    const EdgeTransforms& transforms, const store::ArrayPlace& place) {
  HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                          context.NewScratchPath("sorted"));
  io::FileSystem& files = context.files();
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  HEARTH_ASSIGN_OR_RETURN(
      const CscArrays sorted,
      BuildCsc(context, edges, ends, {folder, place.dataset, place.prefix}));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> indptr,
                          OpenWritten(files, folder, sorted.indptr.file));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ArrayReader> indices,
                          OpenWritten(files, folder, sorted.indices.file));
  HEARTH_ASSIGN_OR_RETURN(
      TransformedCsc transformed,
      TransformCsc(context, *indptr, *indices, transforms, place));
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder));
  return transformed;
}

void AddTransforms(const std::string& type, const TransformedCsc& transformed,
                   const EdgeTransforms& transforms,
                   std::vector<std::string>& told) {
  if (transforms.remove_duplicates) {
    told.push_back(absl::StrCat(type, ": ", transformed.duplicates_removed,
                                " duplicate edges removed"));
  }
  if (transforms.self_loops != SelfLoops::kKeep) {
    told.push_back(absl::StrCat(type, ": ", transformed.self_loops_removed,
                                " self loops removed"));
  }
  if (transforms.self_loops == SelfLoops::kAdd) {
    told.push_back(absl::StrCat(type, ": ", transformed.self_loops_added,
                                " self loops added"));
  }
}

}  // namespace

absl::Status PrepareEdges(SourceGraph& graph, const EdgeTransforms& transforms,
                          const std::string& source) {
  if (!transforms.IsAny()) return absl::OkStatus();
  bool found = false;
  for (SourceEdges& edges : graph.edges) {
    if (!JoinsOneType(edges)) continue;
    found = true;
    if (edges.edges == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(
          edges.edges,
          NewCscEdgeSource(std::move(edges.indptr), std::move(edges.indices),
                           graph.EndsOf(edges)));
    }
    if (transforms.add_reverse) {
      edges.edges = NewEdgesWithReverse(std::move(edges.edges));
    }
  }
  if (found || !transforms.ChangesLists()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source,
                   ": no edges join nodes of one type; duplicates are removed "
                   "from such edges alone, and self loops are such edges"));
}

absl::StatusOr<ImportedEdges> ImportEdges(ImportContext& context,
                                          SourceEdges& edges,
                                          const EdgeEnds& ends,
                                          const EdgeTransforms& transforms,
                                          const store::ArrayPlace& place) {
  ImportedEdges imported;
  if (edges.edges == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(
        imported.arrays,
        CopyCsc(context, *edges.indptr, *edges.indices, ends, place));
    return imported;
  }
  if (transforms.add_reverse && JoinsOneType(edges)) {
    imported.transforms.push_back(absl::StrCat(edges.type, ": ",
                                               edges.edges->num_edges() / 2,
                                               " reverse edges added"));
  }
  imported.transforms.push_back(
      absl::StrCat(edges.type, ": sorted by destination"));
  if (!transforms.ChangesLists() || !JoinsOneType(edges)) {
    HEARTH_ASSIGN_OR_RETURN(imported.arrays,
                            BuildCsc(context, *edges.edges, ends, place));
    return imported;
  }
  HEARTH_ASSIGN_OR_RETURN(
      TransformedCsc transformed,
      BuildAndTransform(context, *edges.edges, ends, transforms, place));
  AddTransforms(edges.type, transformed, transforms, imported.transforms);
  imported.arrays = std::move(transformed.arrays);
  return imported;
}

namespace {

constexpr char kPrefix[] = "rev_";

/// "writes" of "author:writes:paper"; the whole name if it has another form.
absl::string_view RelationOf(const SourceEdges& edges) {
  absl::string_view relation = edges.type;
  const std::string source = absl::StrCat(edges.source_type, ":");
  const std::string destination = absl::StrCat(":", edges.destination_type);
  if (relation.size() > source.size() + destination.size() &&
      absl::StartsWith(relation, source) &&
      absl::EndsWith(relation, destination)) {
    relation.remove_prefix(source.size());
    relation.remove_suffix(destination.size());
  }
  return relation;
}

/// Name of the reverse of `edges` with `relation` as its relation.
std::string NameOfReverse(const SourceEdges& edges,
                          absl::string_view relation) {
  return RelationOf(edges) == edges.type
             ? std::string(relation)
             : absl::StrCat(edges.destination_type, ":", relation, ":",
                            edges.source_type);
}

EdgeEnds Swapped(const EdgeEnds& ends) {
  return {ends.num_destinations, ends.num_sources};
}

}  // namespace

std::vector<ReverseType> ReverseTypesOf(const SourceGraph& graph) {
  std::set<std::string> names;
  for (const SourceEdges& edges : graph.edges) names.insert(edges.type);
  std::vector<ReverseType> types;
  for (size_t i = 0; i < graph.edges.size(); ++i) {
    const SourceEdges& edges = graph.edges[i];
    if (JoinsOneType(edges)) continue;
    absl::string_view forward = RelationOf(edges);
    if (absl::ConsumePrefix(&forward, kPrefix) &&
        names.contains(NameOfReverse(edges, forward))) {
      continue;
    }
    std::string name =
        NameOfReverse(edges, absl::StrCat(kPrefix, RelationOf(edges)));
    if (!names.contains(name)) types.push_back({i, std::move(name)});
  }
  return types;
}

uint64_t BytesOfReverse(const SourceGraph& graph,
                        const std::vector<ReverseType>& types) {
  uint64_t bytes = 0;
  for (const ReverseType& type : types) {
    const SourceEdges& edges = graph.edges[type.edge_type];
    bytes += BytesToSort(edges.num_edges(), Swapped(graph.EndsOf(edges)));
  }
  return bytes;
}

absl::StatusOr<CscArrays> ReverseWritten(ImportContext& context,
                                         const std::string& folder,
                                         const store::EdgeTypeEntry& edges,
                                         const EdgeEnds& ends,
                                         const store::ArrayPlace& place) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> indptr,
                          OpenWritten(context.files(), folder, edges.indptr));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> indices,
                          OpenWritten(context.files(), folder, edges.indices));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<EdgeSource> forward,
      NewCscEdgeSource(std::move(indptr), std::move(indices), ends));
  const std::unique_ptr<EdgeSource> reversed =
      NewReversedEdges(std::move(forward));
  return BuildCsc(context, *reversed, Swapped(ends), place);
}

}  // namespace hearth::ingest
