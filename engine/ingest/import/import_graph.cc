#include "engine/ingest/import/import_graph.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "engine/ingest/import/edge_import.h"
#include "engine/ingest/import/feature_fill.h"
#include "engine/ingest/import/graph_writer.h"
#include "engine/ingest/import/resumption.h"
#include "engine/ingest/import/source_checks.h"
#include "engine/ingest/inspect/graph_scan.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/io/whole_file.h"

// Protocol:
// 1. Remove everything in the unfinished folder except parts that an earlier
//    run of the same import recorded there (KeptParts).
// 2. Open the source with all its arrays, and check their headers against each
//    other. Most mistakes show here, before anything is written; only text and
//    the like is unpacked, to the scratch folder in the unfinished folder.
//    Remove recorded parts that are damaged, or made of files that have
// changed.
// 3. Check that memory limit and disk suffice for all of it.
// 4. Write labels, split, topology and features, each file synced, except parts
//    that are recorded. Small arrays come first: their mistakes show before the
//    long work. Features that are filled in come last, since they are made of
//    other features. Record whole parts, from which another run may go on.
// 5. Remove the scratch folder. Read labels and topology once more for the
//    statistics; write and sync the statistics, then the manifest; remove the
//    record; sync the folder.
// 6. Rename the folder to `destination`; sync its parent.
// An error removes the folder, except recorded parts. After a kill, step 1 of
// the next run removes it.

namespace hearth::ingest {
namespace {

constexpr uint64_t kMinMemoryBytes = 1 << 20;
constexpr char kScratchFolder[] = "scratch";

/// Whether names, transforms and paths are equal in both.
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

class GraphImport {
 public:
  GraphImport(io::FileSystem& files, const ImportOptions& options,
              const ImportProgress& progress, std::stop_token stop)
      : files_(files),
        options_(options),
        folder_(!options.unfinished.empty()
                    ? options.unfinished
                    : absl::StrCat(options.destination, io::kTemporarySuffix)),
        scratch_folder_(io::JoinPath(folder_, kScratchFolder)),
        parts_(files, folder_, options.resumption),
        noting_files_(files, folder_),
        progress_(progress),
        stop_(std::move(stop)),
        context_(noting_files_, options.memory_limit_bytes, scratch_folder_,
                 progress_, stop_) {}

  absl::StatusOr<ImportResult> Run(OpenSource open) {
    HEARTH_RETURN_IF_ERROR(CheckOptions());
    HEARTH_RETURN_IF_ERROR(parts_.Load());
    absl::StatusOr<ImportResult> result = Import(open);
    // Failures of the removal are ignored: the first error is the one to
    // report.
    if (!result.ok()) parts_.RemoveUnfinished();
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

  /// The unfinished folder is emptied, so the source must not lie in it.
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

  /// Opens the source, and drops parts that are damaged or were made of another
  /// source.
  absl::StatusOr<SourceGraph> OpenAndBind(OpenSource open) {
    if (!options_.resumption.has_value()) return open(context_);
    noting_files_.BeginNoting();
    absl::StatusOr<SourceGraph> graph = open(context_);
    noting_files_.EndNoting();
    HEARTH_RETURN_IF_ERROR(graph.status());
    const std::string& key = options_.resumption->key;
    Sha256 digest;
    digest.Update(absl::StrCat(kVersion, " ", key.size(), " ", key, "\n"));
    noting_files_.AddTo(digest);
    HEARTH_RETURN_IF_ERROR(parts_.BindTo(digest.HexDigest(), progress_, stop_));
    return graph;
  }

  absl::StatusOr<ImportResult> Import(OpenSource open) {
    HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, OpenAndBind(open));
    HEARTH_RETURN_IF_ERROR(graph.CheckTypes(options_.source));
    HEARTH_RETURN_IF_ERROR(graph.LeaveOutEmptyTypes(options_.source));
    for (SourceNodes& nodes : graph.nodes) {
      if (options_.label_kind) nodes.label_kind = options_.label_kind;
    }
    graph.TakeFeaturesAsColumns();
    if (options_.bfloat16_features) graph.TakeFeaturesAsBFloat16();
    HEARTH_RETURN_IF_ERROR(CheckHeaders(graph, options_.in_place));
    HEARTH_RETURN_IF_ERROR(
        PrepareEdges(graph, options_.edges, options_.source));
    HEARTH_RETURN_IF_ERROR(CheckMemory(graph));
    GraphAdditions additions;
    if (options_.edges.add_reverse) {
      additions.reverse_types = ReverseTypesOf(graph);
    }
    if (options_.fill_features) {
      HEARTH_ASSIGN_OR_RETURN(additions.fills,
                              PlanFeatureFills(graph, options_.source));
    }
    uint64_t bytes = BytesToImport(graph, options_.in_place);
    bytes += BytesOfReverse(graph, additions.reverse_types);
    bytes += BytesToFill(graph, additions.fills);
    if (options_.edges.ChangesLists()) bytes += BytesOfTransforms(graph);
    bytes -= std::min(bytes, parts_.bytes_found());
    HEARTH_RETURN_IF_ERROR(context_.CheckSpace(bytes, "the import"));
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
    GraphWriter writer(context_, options_, folder_, parts_);
    const std::vector<std::string> source_warnings = std::move(graph.warnings);
    ImportResult result;
    HEARTH_ASSIGN_OR_RETURN(result.manifest,
                            writer.Write(std::move(graph), additions));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(scratch_folder_));
    HEARTH_RETURN_IF_ERROR(WriteStatistics(writer, source_warnings, result));
    HEARTH_RETURN_IF_ERROR(WriteManifest(writer.checksums(), result));
    HEARTH_RETURN_IF_ERROR(parts_.RemoveRecord());
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
    HEARTH_RETURN_IF_ERROR(Publish());
    return result;
  }

  /// A split takes three sets of nodes, one node type at a time.
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

  /// Bytes of the sorted edges before their lists change, and of added self
  /// loops.
  static uint64_t BytesOfTransforms(const SourceGraph& graph) {
    int64_t numbers = 0;
    for (const SourceNodes& nodes : graph.nodes) numbers += 2 * nodes.num_nodes;
    for (const SourceEdges& edges : graph.edges) numbers += edges.num_edges();
    return static_cast<uint64_t>(numbers) * sizeof(int64_t);
  }

  absl::Status WriteStatistics(const GraphWriter& writer,
                               const std::vector<std::string>& source_warnings,
                               ImportResult& result) {
    HEARTH_ASSIGN_OR_RETURN(DatasetStatistics statistics,
                            ScanGraph(context_, folder_, result.manifest,
                                      writer.scanned_features()));
    statistics.warnings.insert(statistics.warnings.begin(),
                               source_warnings.begin(), source_warnings.end());
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
    // Text that is not UTF-8 does not survive in JSON.
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
    // It is unknown whether the rename is durable: take it back.
    if (!status.ok()) files_.RemoveTree(options_.destination).IgnoreError();
    return status;
  }

  io::FileSystem& files_;
  const ImportOptions& options_;
  const std::string folder_;
  const std::string scratch_folder_;
  KeptParts parts_;
  NotingFileSystem noting_files_;
  const ImportProgress& progress_;
  const std::stop_token stop_;
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
