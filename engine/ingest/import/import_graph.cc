#include "engine/ingest/import/import_graph.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/edge_import.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/file_prefixes.h"
#include "engine/ingest/import/id_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/import/split_import.h"
#include "engine/ingest/inspect/graph_scan.h"
#include "engine/ingest/inspect/labeled_feature_scan.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/io/atomic_file.h"
#include "engine/store/array_writer.h"

// Protocol:
// 1. Remove a leftover `destination`.tmp.
// 2. Open the source: all its arrays, whose headers are checked against each
//    other. Most mistakes show here, before anything is written; only text and
//    the like is unpacked, to the scratch folder in `destination`.tmp.
// 3. Check that memory limit and disk suffice for all of it.
// 4. Write labels, split, topology, features there, each file synced. Small
//    arrays first: their mistakes show before the long work.
// 5. Remove the scratch folder. Read labels and topology once more for the
//    statistics; write and sync these, then the manifest; sync the folder.
// 6. Rename the folder to `destination`; sync its parent.
// An error removes the folder again. A kill leaves the leftover of step 1.

namespace hearth::ingest {
namespace {

constexpr uint64_t kMinMemoryBytes = 1 << 20;
constexpr char kScratchFolder[] = "scratch";

std::string BaseName(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// Whether names, transforms and paths are the same in both.
bool HasSameTexts(const store::Manifest& one, const store::Manifest& other) {
  const auto same_nodes = [](const store::NodeTypeEntry& a,
                             const store::NodeTypeEntry& b) {
    return a.name == b.name && a.features.path == b.features.path;
  };
  const auto same_edges = [](const store::EdgeTypeEntry& a,
                             const store::EdgeTypeEntry& b) {
    return a.name == b.name;
  };
  return one.name == other.name && one.transforms == other.transforms &&
         std::equal(one.node_types.begin(), one.node_types.end(),
                    other.node_types.begin(), other.node_types.end(),
                    same_nodes) &&
         std::equal(one.edge_types.begin(), one.edge_types.end(),
                    other.edge_types.begin(), other.edge_types.end(),
                    same_edges);
}

/// Writes the arrays of a graph and collects their entries.
class GraphWriter {
 public:
  GraphWriter(ImportContext& context, const ImportOptions& options,
              std::string folder)
      : context_(context), options_(options), folder_(std::move(folder)) {}

  absl::StatusOr<ImportResult> Write(SourceGraph graph) {
    store::Manifest& manifest = result_.manifest;
    manifest.transforms = graph.transforms;
    for (SourceNodes& nodes : graph.nodes) {
      store::NodeTypeEntry entry;
      entry.name = nodes.type;
      entry.num_nodes = nodes.num_nodes;
      place_ = NewPlace(nodes.type);
      HEARTH_RETURN_IF_ERROR(WriteLabelsAndSplit(nodes, entry));
      HEARTH_RETURN_IF_ERROR(WriteIds(nodes, entry));
      places_.push_back(place_);
      manifest.node_types.push_back(std::move(entry));
    }
    for (SourceEdges& edges : graph.edges) {
      HEARTH_RETURN_IF_ERROR(WriteTopology(edges, graph.EndsOf(edges)));
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      place_ = places_[i];
      HEARTH_RETURN_IF_ERROR(
          WriteFeatures(graph.nodes[i], manifest.node_types[i]));
    }
    return std::move(result_);
  }

  /// Digests of the checksum files, in the order of writing.
  const std::vector<std::string>& checksums() const { return checksums_; }

  /// The scan of each node type's features; null without any.
  const std::vector<std::unique_ptr<LabeledFeatureScan>>& feature_scans()
      const {
    return feature_scans_;
  }

 private:
  store::ArrayPlace NewPlace(const std::string& type) {
    return {folder_, options_.name, prefixes_.New(type)};
  }

  absl::Status WriteLabelsAndSplit(SourceNodes& nodes,
                                   store::NodeTypeEntry& entry) {
    uint64_t elements = 0;
    if (nodes.labels != nullptr) {
      elements = static_cast<uint64_t>(nodes.labels->header().NumElements());
    }
    for (const auto& part : nodes.split) {
      if (part == nullptr) continue;
      elements += static_cast<uint64_t>(part->header().shape[0]);
    }
    context_.Begin("labels", elements * sizeof(int64_t));
    if (nodes.labels != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(
          ImportedLabels labels,
          ImportLabels(context_, *nodes.labels, nodes.label_kind, place_));
      entry.label_kind = labels.kind;
      entry.label_width = labels.width;
      entry.labels = Take(std::move(labels.array));
    }
    const std::array<std::pair<store::ArrayFile*, const char*>, 3> parts = {
        {{&entry.train, "train"},
         {&entry.valid, "valid"},
         {&entry.test, "test"}}};
    std::vector<SplitPart> done;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (nodes.split[i] == nullptr) continue;
      HEARTH_ASSIGN_OR_RETURN(
          SplitPart part,
          ReadSplitPart(context_, *nodes.split[i], nodes.num_nodes, done));
      HEARTH_ASSIGN_OR_RETURN(
          store::FinishedArray array,
          WriteSplitPart(context_, part, place_, parts[i].second));
      *parts[i].first = Take(std::move(array));
      if (!part.was_sorted) Record(absl::StrCat(part.name, ": sorted"));
      done.push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  absl::Status WriteIds(SourceNodes& nodes, store::NodeTypeEntry& entry) {
    if (nodes.ids != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array,
                              CopyIds(context_, *nodes.ids, place_));
      entry.ids = Take(std::move(array));
    }
    if (nodes.id_text != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(
          store::FinishedArray array,
          CopyIdText(context_, *nodes.id_text, nodes.num_nodes, place_));
      entry.id_text = Take(std::move(array));
    }
    return absl::OkStatus();
  }

  absl::Status WriteTopology(SourceEdges& edges, const EdgeEnds& ends) {
    store::EdgeTypeEntry entry;
    entry.name = edges.type;
    entry.source_type = edges.source_type;
    entry.destination_type = edges.destination_type;
    place_ = NewPlace(edges.type);
    HEARTH_ASSIGN_OR_RETURN(
        ImportedEdges imported,
        ImportEdges(context_, edges, ends, options_.edges, place_));
    for (std::string& done : imported.transforms) Record(std::move(done));
    CscArrays& arrays = imported.arrays;
    entry.num_edges = arrays.indices.file.shape[0];
    entry.indptr = Take(std::move(arrays.indptr));
    entry.indices = Take(std::move(arrays.indices));
    result_.manifest.edge_types.push_back(std::move(entry));
    return absl::OkStatus();
  }

  absl::Status WriteFeatures(SourceNodes& nodes, store::NodeTypeEntry& entry) {
    feature_scans_.emplace_back();
    if (nodes.features == nullptr) return absl::OkStatus();
    ArrayReader& features = *nodes.features;
    const std::string name = BaseName(features.path());
    HEARTH_ASSIGN_OR_RETURN(
        feature_scans_.back(),
        LabeledFeatureScan::Create(context_.files(), folder_, entry,
                                   StoredType(features.header()),
                                   features.header().shape[1]));
    const FeatureChoices choices{options_.non_finite,
                                 [this](const RowBlock& rows) {
                                   return feature_scans_.back()->Add(rows);
                                 }};
    if (options_.in_place) {
      HEARTH_ASSIGN_OR_RETURN(const std::string path,
                              context_.files().RealPath(features.path()));
      HEARTH_ASSIGN_OR_RETURN(
          store::FinishedArray array,
          RegisterFeatures(context_, features, choices, path, place_));
      entry.features = Take(std::move(array));
      Record(absl::StrCat(name, ": used in place"));
      return absl::OkStatus();
    }
    HEARTH_ASSIGN_OR_RETURN(ImportedFeatures imported,
                            CopyFeatures(context_, features, choices, place_));
    entry.features = Take(std::move(imported.array));
    if (imported.num_zeroed > 0) {
      Record(absl::StrCat(imported.num_zeroed, " values of ", name,
                          " that were NaN or infinite became 0"));
    }
    if (features.header().fortran_order) {
      Record(absl::StrCat(name, ": Fortran order to C order"));
    }
    if (features.header().type.item_bytes > 4) {
      Record(absl::StrCat(name, ": float64 to float32"));
    }
    return absl::OkStatus();
  }

  /// The array's entry; its checksums go into the fingerprint.
  store::ArrayFile Take(store::FinishedArray array) {
    checksums_.push_back(std::move(array.checksums_sha256));
    return std::move(array.file);
  }

  void Record(std::string transform) {
    result_.manifest.transforms.push_back(std::move(transform));
  }

  ImportContext& context_;
  const ImportOptions& options_;
  const std::string folder_;
  FilePrefixes prefixes_;
  store::ArrayPlace place_;
  /// The place of each node type.
  std::vector<store::ArrayPlace> places_;
  std::vector<std::string> checksums_;
  std::vector<std::unique_ptr<LabeledFeatureScan>> feature_scans_;
  ImportResult result_;
};

class GraphImport {
 public:
  GraphImport(io::FileSystem& files, const ImportOptions& options,
              const ImportProgress& progress, std::stop_token stop)
      : files_(files),
        options_(options),
        folder_(absl::StrCat(options.destination, io::kTemporarySuffix)),
        scratch_folder_(io::JoinPath(folder_, kScratchFolder)),
        context_(files, options.memory_limit_bytes, scratch_folder_, progress,
                 std::move(stop)) {}

  absl::StatusOr<ImportResult> Run(OpenSource open) {
    HEARTH_RETURN_IF_ERROR(CheckOptions());
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(folder_));
    absl::StatusOr<ImportResult> result = Import(open);
    // The first error is the one to tell.
    if (!result.ok()) files_.RemoveTree(folder_).IgnoreError();
    return result;
  }

 private:
  absl::Status CheckOptions() const {
    if (options_.name.empty() || options_.destination.empty()) {
      return absl::InvalidArgumentError(
          "an import needs a name and a destination");
    }
    if (options_.in_place && options_.non_finite == NonFinite::kZero) {
      return absl::InvalidArgumentError(
          "values of features that are used in place cannot become 0: copy "
          "them, or keep what is NaN or infinite");
    }
    if (options_.memory_limit_bytes < kMinMemoryBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("an import needs a memory limit of at least ",
                       FormatByteSize(kMinMemoryBytes)));
    }
    const absl::Status there = files_.Stat(options_.destination).status();
    if (there.ok()) {
      return absl::AlreadyExistsError(
          absl::StrCat(options_.destination, ": already exists"));
    }
    if (!absl::IsNotFound(there)) return there;
    return CheckSourceIsApart();
  }

  /// The temporary folder is emptied: the source must not lie within.
  absl::Status CheckSourceIsApart() const {
    const absl::StatusOr<std::string> folder = files_.RealPath(folder_);
    if (absl::IsNotFound(folder.status())) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(folder.status());
    const absl::StatusOr<std::string> source = files_.RealPath(options_.source);
    if (absl::IsNotFound(source.status())) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(source.status());
    if (absl::StartsWith(absl::StrCat(*source, "/"),
                         absl::StrCat(*folder, "/"))) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.source, ": lies within the folder for unfinished files"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ImportResult> Import(OpenSource open) {
    HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, open(context_));
    HEARTH_RETURN_IF_ERROR(graph.CheckTypes(options_.source));
    for (SourceNodes& nodes : graph.nodes) {
      if (options_.label_kind) nodes.label_kind = options_.label_kind;
    }
    if (options_.bfloat16_features) graph.TakeFeaturesAsBFloat16();
    HEARTH_RETURN_IF_ERROR(CheckHeaders(graph, options_.in_place));
    HEARTH_RETURN_IF_ERROR(
        PrepareEdges(graph, options_.edges, options_.source));
    HEARTH_RETURN_IF_ERROR(CheckMemory(graph));
    uint64_t bytes = BytesToImport(graph, options_.in_place);
    if (options_.edges.ChangesLists()) bytes += BytesOfTransforms(graph);
    HEARTH_RETURN_IF_ERROR(context_.CheckSpace(bytes, "the import"));
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
    GraphWriter writer(context_, options_, folder_);
    HEARTH_ASSIGN_OR_RETURN(ImportResult result,
                            writer.Write(std::move(graph)));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(scratch_folder_));
    HEARTH_RETURN_IF_ERROR(WriteStatistics(writer, result));
    HEARTH_RETURN_IF_ERROR(WriteManifest(writer.checksums(), result));
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
    HEARTH_RETURN_IF_ERROR(Publish());
    return result;
  }

  /// Three sets of nodes are held for a split, one type at a time.
  absl::Status CheckMemory(const SourceGraph& graph) const {
    int64_t num_nodes = 0;
    for (const SourceNodes& nodes : graph.nodes) {
      num_nodes = std::max(num_nodes, nodes.num_nodes);
    }
    const uint64_t needed = static_cast<uint64_t>(num_nodes) / 8 * 3;
    const uint64_t available = options_.memory_limit_bytes / 2;
    if (needed <= available) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.source, ": checking the split of ", num_nodes, " nodes needs ",
        FormatByteSize(needed), ", the import's memory limit leaves ",
        FormatByteSize(available)));
  }

  /// Bytes of the sorted edges before their lists change, and of self loops.
  static uint64_t BytesOfTransforms(const SourceGraph& graph) {
    int64_t numbers = 0;
    for (const SourceNodes& nodes : graph.nodes) numbers += 2 * nodes.num_nodes;
    for (const SourceEdges& edges : graph.edges) numbers += edges.num_edges();
    return static_cast<uint64_t>(numbers) * sizeof(int64_t);
  }

  absl::Status WriteStatistics(const GraphWriter& writer,
                               ImportResult& result) {
    HEARTH_ASSIGN_OR_RETURN(
        const DatasetStatistics statistics,
        ScanGraph(context_, folder_, result.manifest, writer.feature_scans()));
    const std::string text = SerializeStatistics(statistics);
    result.bytes_written += text.size();
    return io::WriteFileAtomically(
        files_, io::JoinPath(folder_, DatasetStatistics::kFileName), text);
  }

  absl::Status WriteManifest(const std::vector<std::string>& checksums,
                             ImportResult& result) {
    store::Manifest& manifest = result.manifest;
    manifest.name = options_.name;
    manifest.fingerprint = store::Fingerprint(manifest, checksums);
    manifest.created_unix_seconds = absl::ToUnixSeconds(Clock::Real().Now());
    const std::string text = store::SerializeManifest(manifest);
    const std::string path = io::JoinPath(folder_, store::Manifest::kFileName);
    // Text that is not UTF-8 does not survive.
    const absl::StatusOr<store::Manifest> read =
        store::ParseManifest(text, path);
    HEARTH_RETURN_IF_ERROR(read.status());
    if (!HasSameTexts(*read, manifest)) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.source,
          ": the names of dataset and types, and the paths of features used "
          "in place, must be UTF-8"));
    }
    result.bytes_written += manifest.SizeBytes() + text.size();
    return io::WriteFileAtomically(files_, path, text);
  }

  absl::Status Publish() {
    HEARTH_RETURN_IF_ERROR(files_.Rename(folder_, options_.destination));
    const absl::Status status =
        files_.SyncDirectory(io::ParentDirectory(options_.destination));
    // It is unknown whether the name is durable: take it back.
    if (!status.ok()) files_.RemoveTree(options_.destination).IgnoreError();
    return status;
  }

  io::FileSystem& files_;
  const ImportOptions& options_;
  const std::string folder_;
  const std::string scratch_folder_;
  ImportContext context_;
};

}  // namespace

absl::StatusOr<ImportResult> ImportGraph(io::FileSystem& files,
                                         const ImportOptions& options,
                                         OpenSource open,
                                         const ImportProgress& progress,
                                         std::stop_token stop) {
  return GraphImport(files, options, progress, std::move(stop)).Run(open);
}

}  // namespace hearth::ingest
