#include "engine/store/numpy_import.h"

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
#include "engine/io/atomic_file.h"
#include "engine/store/array_writer.h"
#include "engine/store/csc_builder.h"
#include "engine/store/csc_copy.h"
#include "engine/store/edge_source.h"
#include "engine/store/feature_import.h"
#include "engine/store/label_import.h"
#include "engine/store/npy_reader.h"
#include "engine/store/numpy_source.h"

// Protocol:
// 1. Open all sources and check their headers against each other: most mistakes
//    show here, before anything is written.
// 2. Check that the disk has room for all of it.
// 3. Remove a leftover `destination`.tmp and create it anew.
// 4. Write labels, split, topology, features there, each file synced. Small
//    arrays first: their mistakes show before the long work.
// 5. Write and sync the manifest; sync the folder.
// 6. Rename the folder to `destination`; sync its parent.
// An error removes the folder again. A kill leaves the leftover of step 3.

namespace hearth::store {
namespace {

constexpr uint64_t kMinMemoryBytes = 1 << 20;
constexpr char kNodeType[] = "node";
constexpr char kEdgeType[] = "edge";

class NumpyImport {
 public:
  NumpyImport(io::FileSystem& files, const NumpyImportOptions& options,
              const ImportProgress& progress, std::stop_token stop)
      : files_(files),
        options_(options),
        context_(files, options.memory_limit_bytes, progress, std::move(stop)),
        place_{absl::StrCat(options.destination, io::kTemporarySuffix),
               options.name} {}

  absl::StatusOr<ImportResult> Run() {
    HEARTH_RETURN_IF_ERROR(CheckOptions());
    HEARTH_ASSIGN_OR_RETURN(
        source_, OpenNumpySource(files_, options_.source, options_.in_place));
    HEARTH_RETURN_IF_ERROR(CheckMemory());
    HEARTH_RETURN_IF_ERROR(CheckSpace());
    absl::Status status = WriteFolder();
    if (status.ok()) status = Publish();
    if (status.ok()) return std::move(result_);
    // The first error is the one to tell.
    files_.RemoveTree(place_.folder).IgnoreError();
    return status;
  }

 private:
  absl::Status CheckOptions() const {
    if (options_.name.empty() || options_.destination.empty()) {
      return absl::InvalidArgumentError(
          "an import needs a name and a destination");
    }
    if (options_.memory_limit_bytes < kMinMemoryBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("an import needs a memory limit of at least ",
                       FormatByteSize(kMinMemoryBytes)));
    }
    const absl::Status there = files_.Stat(options_.destination).status();
    if (there.ok()) {
      return absl::AlreadyExistsError(
          absl::StrCat(options_.destination, ": is there already"));
    }
    if (!absl::IsNotFound(there)) return there;
    return CheckSourceIsApart();
  }

  /// The temporary folder is emptied: the source must not lie within.
  absl::Status CheckSourceIsApart() const {
    const absl::StatusOr<std::string> folder = files_.RealPath(place_.folder);
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

  /// Four sets of nodes are held for labels and split.
  absl::Status CheckMemory() const {
    const uint64_t needed = static_cast<uint64_t>(source_.num_nodes()) / 2;
    const uint64_t available = options_.memory_limit_bytes / 2;
    if (needed <= available) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.source, ": checking the split of ", source_.num_nodes(),
        " nodes needs ", FormatByteSize(needed),
        ", the import's memory limit leaves ", FormatByteSize(available)));
  }

  absl::Status CheckSpace() {
    const uint64_t needed = BytesToImport(source_, options_.in_place);
    const std::string parent = io::ParentDirectory(options_.destination);
    HEARTH_ASSIGN_OR_RETURN(const uint64_t free, files_.FreeBytes(parent));
    if (needed <= free) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(parent, ": the import needs ", needed, " bytes (",
                     FormatByteSize(needed), "), ", free, " (",
                     FormatByteSize(free), ") are free"));
  }

  absl::Status WriteFolder() {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(place_.folder));
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(place_.folder));
    NodeTypeEntry node;
    node.name = kNodeType;
    node.num_nodes = source_.num_nodes();
    HEARTH_RETURN_IF_ERROR(WriteLabelsAndSplit(node));
    EdgeTypeEntry edge;
    edge.name = kEdgeType;
    edge.source_type = kNodeType;
    edge.destination_type = kNodeType;
    edge.num_edges = source_.num_edges();
    HEARTH_RETURN_IF_ERROR(WriteTopology(edge));
    HEARTH_RETURN_IF_ERROR(WriteFeatures(node));
    result_.manifest.node_types.push_back(std::move(node));
    result_.manifest.edge_types.push_back(std::move(edge));
    HEARTH_RETURN_IF_ERROR(WriteManifest());
    return files_.SyncDirectory(place_.folder);
  }

  absl::Status WriteLabelsAndSplit(NodeTypeEntry& node) {
    uint64_t elements = static_cast<uint64_t>(source_.num_nodes());
    for (const auto& part : source_.split) {
      elements += static_cast<uint64_t>(part->header().shape[0]);
    }
    context_.Begin("labels", elements * sizeof(int64_t));
    HEARTH_ASSIGN_OR_RETURN(ImportedLabels labels,
                            ImportLabels(context_, *source_.labels, place_));
    node.num_classes = labels.num_classes;
    node.labels = Take(std::move(labels.array));
    const std::array<std::pair<ArrayFile*, const char*>, 3> parts = {{
        {&node.train, "node.train.npy"},
        {&node.valid, "node.valid.npy"},
        {&node.test, "node.test.npy"},
    }};
    std::vector<SplitPart> done;
    for (size_t i = 0; i < parts.size(); ++i) {
      HEARTH_ASSIGN_OR_RETURN(
          SplitPart part,
          ReadSplitPart(context_, *source_.split[i], labels.labeled, done));
      HEARTH_ASSIGN_OR_RETURN(
          FinishedArray array,
          WriteSplitPart(context_, part, place_, parts[i].second));
      *parts[i].first = Take(std::move(array));
      if (!part.was_sorted) Record(absl::StrCat(part.name, ": sorted"));
      done.push_back(std::move(part));
    }
    return absl::OkStatus();
  }

  absl::Status WriteTopology(EdgeTypeEntry& edge) {
    CscArrays arrays;
    if (source_.edges != nullptr) {
      const std::unique_ptr<EdgeSource> edges =
          NewNpyEdgeSource(*source_.edges, source_.num_nodes());
      HEARTH_ASSIGN_OR_RETURN(
          arrays, BuildCsc(context_, *edges, source_.num_nodes(), place_));
      Record("edge_index.npy: edges sorted by destination");
    } else {
      HEARTH_ASSIGN_OR_RETURN(
          arrays, CopyCsc(context_, *source_.indptr, *source_.indices, place_));
    }
    edge.indptr = Take(std::move(arrays.indptr));
    edge.indices = Take(std::move(arrays.indices));
    return absl::OkStatus();
  }

  absl::Status WriteFeatures(NodeTypeEntry& node) {
    NpyReader& features = *source_.features;
    if (options_.in_place) {
      HEARTH_ASSIGN_OR_RETURN(const std::string path,
                              files_.RealPath(features.path()));
      HEARTH_ASSIGN_OR_RETURN(
          FinishedArray array,
          RegisterFeatures(context_, features, path, place_));
      node.features = Take(std::move(array));
      Record("node_feat.npy: used in place");
      return absl::OkStatus();
    }
    HEARTH_ASSIGN_OR_RETURN(FinishedArray array,
                            CopyFeatures(context_, features, place_));
    node.features = Take(std::move(array));
    if (features.header().fortran_order) {
      Record("node_feat.npy: Fortran order to C order");
    }
    if (features.header().type.item_bytes > 4) {
      Record("node_feat.npy: float64 to float32");
    }
    return absl::OkStatus();
  }

  absl::Status WriteManifest() {
    Manifest& manifest = result_.manifest;
    manifest.name = options_.name;
    manifest.fingerprint = Fingerprint(manifest, checksums_);
    manifest.created_unix_seconds = absl::ToUnixSeconds(Clock::Real().Now());
    const std::string text = SerializeManifest(manifest);
    const std::string path = io::JoinPath(place_.folder, Manifest::kFileName);
    // A name or path that is not UTF-8 does not survive.
    const absl::StatusOr<Manifest> read = ParseManifest(text, path);
    HEARTH_RETURN_IF_ERROR(read.status());
    if (read->name != manifest.name ||
        read->node_types[0].features.path !=
            manifest.node_types[0].features.path) {
      return absl::InvalidArgumentError(
          absl::StrCat(options_.source,
                       ": the dataset's name and the path of features used "
                       "in place must be UTF-8"));
    }
    result_.bytes_written = manifest.SizeBytes() + text.size();
    return io::WriteFileAtomically(files_, path, text);
  }

  absl::Status Publish() {
    HEARTH_RETURN_IF_ERROR(files_.Rename(place_.folder, options_.destination));
    const absl::Status status =
        files_.SyncDirectory(io::ParentDirectory(options_.destination));
    // Whether the name is durable is unknown: take it back.
    if (!status.ok()) files_.RemoveTree(options_.destination).IgnoreError();
    return status;
  }

  /// The array's entry; its checksums go into the fingerprint.
  ArrayFile Take(FinishedArray array) {
    checksums_.push_back(std::move(array.checksums_sha256));
    return std::move(array.file);
  }

  void Record(std::string transform) {
    result_.manifest.transforms.push_back(std::move(transform));
  }

  io::FileSystem& files_;
  const NumpyImportOptions& options_;
  ImportContext context_;
  const ArrayPlace place_;
  NumpySource source_;
  std::vector<std::string> checksums_;
  ImportResult result_;
};

}  // namespace

absl::StatusOr<ImportResult> ImportNumpyFolder(
    io::FileSystem& files, const NumpyImportOptions& options,
    const ImportProgress& progress, std::stop_token stop) {
  return NumpyImport(files, options, progress, std::move(stop)).Run();
}

}  // namespace hearth::store
