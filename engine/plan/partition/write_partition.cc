#include "engine/plan/partition/write_partition.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/pipeline/pipeline.h"
#include "engine/plan/partition/fennel.h"
#include "engine/plan/partition/list_scatter.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/partition/partition.h"
#include "engine/plan/partition/partition_context.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/partition_passes.h"
#include "engine/plan/partition/topology_scan.h"

// All passes but the second level read the topology sequentially, past the page
// cache; nothing in memory grows with the edges.
// 1. First level: place all nodes (PlaceFirstLevel).
// 2. Scatter: read the topology again and append each list to its first-level
//    part, in a scratch file (ListScatter). This also counts the edges of each
//    part, and how many of them are within it.
// 3. Second level, each part by itself, several at a time: place its nodes
//    (PlaceSecondLevel), then sort its lists into the file of lists
//    (WriteArea), at a place that follows from the sizes of the parts before
//    it.
// 4. Cross counts: with all parts known, read the topology a last time.
// 5. Write the parts and the training nodes; rename the files, the index last.

namespace hearth::plan {

namespace {

using store::NodeId;

constexpr const char* kDataFiles[] = {kPartListsFile, kTrainingNodesFile,
                                      kPartsFile, kCrossCountsFile};
constexpr const char* kScratchFile = "partition.scatter";

/// Files of a partition while it is made: they get their names when all of them
/// are durable, the index last. Single-owner.
class PartitionFiles {
 public:
  /// `files` must outlive the object.
  PartitionFiles(io::FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  /// Removes all files of the partition, unless it was committed.
  ~PartitionFiles();

  PartitionFiles(const PartitionFiles&) = delete;
  PartitionFiles& operator=(const PartitionFiles&) = delete;

  /// Creates the folder if need be, and removes the files of an earlier
  /// partition: its index first, so that it never stands next to files of
  /// another partition.
  absl::Status Begin();

  /// Path under which the file `name` is written.
  std::string Temporary(const char* name) const;

  /// Path of the scattered lists.
  std::string Scratch() const;
  absl::Status RemoveScratch() { return files_.RemoveTree(Scratch()); }

  /// Renames all files, and writes the index. REQUIRES: they are durable.
  absl::Status Commit(const PartitionIndex& index);

 private:
  absl::Status RemoveAll();

  io::FileSystem& files_;
  const std::string folder_;
  bool committed_ = false;
};

PartitionFiles::~PartitionFiles() {
  // The error of the run has been returned already.
  if (!committed_) RemoveAll().IgnoreError();
}

absl::Status PartitionFiles::Begin() {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return RemoveAll();
}

absl::Status PartitionFiles::RemoveAll() {
  HEARTH_RETURN_IF_ERROR(
      files_.RemoveTree(io::JoinPath(folder_, kPartitionIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(kPartitionIndexFile)));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(Temporary(name)));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder_, name)));
  }
  return RemoveScratch();
}

std::string PartitionFiles::Temporary(const char* name) const {
  return absl::StrCat(io::JoinPath(folder_, name), io::kTemporarySuffix);
}

std::string PartitionFiles::Scratch() const { return Temporary(kScratchFile); }

absl::Status PartitionFiles::Commit(const PartitionIndex& index) {
  for (const char* name : kDataFiles) {
    HEARTH_RETURN_IF_ERROR(
        files_.Rename(Temporary(name), io::JoinPath(folder_, name)));
  }
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  HEARTH_RETURN_IF_ERROR(WritePartitionIndex(files_, folder_, index));
  committed_ = true;
  return absl::OkStatus();
}

absl::Status CheckTrainingNodes(absl::Span<const NodeId> training_nodes,
                                int64_t nodes) {
  NodeId before = -1;
  for (const NodeId node : training_nodes) {
    if (node <= before || node >= nodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("training_nodes: ", node, " after ", before,
                       " is not ascending, or no node of ", nodes));
    }
    before = node;
  }
  return absl::OkStatus();
}

/// A first-level part on its way through the second level.
struct FirstPartItem final : pipeline::Item {
  explicit FirstPartItem(size_t number) : first(number) {}

  const size_t first;
};

/// Calls `work` for every first-level part, several at a time.
absl::Status ForEachFirstPart(
    const PartitionContext& context, int parts,
    const std::function<absl::Status(int thread, size_t first)>& work) {
  std::vector<pipeline::Stage> stages;
  stages.push_back({.name = "second level",
                    .width = context.threads(),
                    .work = [&](int thread, pipeline::Item& item) {
                      return work(thread,
                                  static_cast<FirstPartItem&>(item).first);
                    }});
  return pipeline::NewPipeline(std::move(stages), "done", *context.run.clock,
                               pipeline::Order::kAsDone)
      ->Run(
          parts,
          [](int64_t number) {
            return std::make_unique<FirstPartItem>(static_cast<size_t>(number));
          },
          [](std::unique_ptr<pipeline::Item>) { return absl::OkStatus(); },
          context.run.stop);
}

/// Makes one partition.
class PartitionWriter {
 public:
  PartitionWriter(const PartitionContext& context, PartitionFiles& files)
      : context_(context), files_(files), split_(context.options.parts) {}

  absl::StatusOr<PartitionSummary> Write(
      absl::Span<const NodeId> training_nodes) {
    const double begin = context_.run.clock->SteadySeconds();
    HEARTH_RETURN_IF_ERROR(MakeParts());
    HEARTH_RETURN_IF_ERROR(WriteCross());
    HEARTH_RETURN_IF_ERROR(WriteLabels());
    HEARTH_RETURN_IF_ERROR(WriteTrainingNodes(training_nodes));
    Summarize();
    index_.summary.seconds = context_.run.clock->SteadySeconds() - begin;
    HEARTH_RETURN_IF_ERROR(files_.Commit(index_));
    return index_.summary;
  }

 private:
  // Steps 1 to 3.
  absl::Status MakeParts() {
    HEARTH_ASSIGN_OR_RETURN(const FirstLevel level, PlaceFirstLevel(context_));
    index_.summary.rounds = level.rounds;
    EdgeCounts edges(split_.first_parts());
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ScatteredLists> lists,
                            Scatter(level, edges));
    HEARTH_RETURN_IF_ERROR(MakeSecondLevel(level, *lists, edges));
    return files_.RemoveScratch();
  }

  // Step 2.
  absl::StatusOr<std::unique_ptr<ScatteredLists>> Scatter(
      const FirstLevel& level, EdgeCounts& edges) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<ListScatter> scatter,
        ListScatter::Create(
            context_.files, files_.Scratch(), split_.first_parts(),
            context_.id_bytes(),
            PartitionScratchBytes(context_.shape, context_.options)));
    std::vector<EdgeCounts> of_thread(static_cast<size_t>(context_.threads()),
                                      edges);
    HEARTH_RETURN_IF_ERROR(ScanTopology(
        context_, {.stage = "scattering",
                   .make = [] { return std::make_unique<WindowItem>(); },
                   .work =
                       [&](int thread, WindowItem& item) {
                         AddEdges(item.window, level.labels,
                                  of_thread[static_cast<size_t>(thread)]);
                         return absl::OkStatus();
                       },
                   .use =
                       [&](WindowItem& item) {
                         return Append(item.window, level, *scatter);
                       }}));
    for (const EdgeCounts& some : of_thread) edges += some;
    return scatter->Finish();
  }

  static absl::Status Append(const ListWindow& window, const FirstLevel& level,
                             ListScatter& scatter) {
    for (size_t i = 0; i < window.size(); ++i) {
      const NodeId node = window.nodes[i];
      HEARTH_RETURN_IF_ERROR(scatter.Append(
          level.labels.Get(node), node, window.list(i), window.ends_here(i)));
    }
    return absl::OkStatus();
  }

  // Step 3.
  absl::Status MakeSecondLevel(const FirstLevel& level,
                               const ScatteredLists& lists,
                               const EdgeCounts& edges) {
    HEARTH_ASSIGN_OR_RETURN(labels_,
                            NodeLabels<uint16_t>::Make(context_.shape.nodes));
    std::fill(labels_.all().begin(), labels_.all().end(), kNoPart);
    index_.parts.resize(static_cast<size_t>(split_.parts()));
    const std::vector<PartArea> areas = Areas(level, edges);
    const uint64_t bytes = areas.back().offset + areas.back().bytes;
    HEARTH_ASSIGN_OR_RETURN(
        file_, PartListsFile::Create(context_.files,
                                     files_.Temporary(kPartListsFile), bytes));
    StageProgress progress(context_.run, "second level", bytes);
    std::vector<io::AlignedMemory> windows(
        static_cast<size_t>(context_.threads()));
    std::vector<uint64_t> ends(areas.size());
    HEARTH_RETURN_IF_ERROR(ForEachFirstPart(
        context_, split_.first_parts(),
        [&](int thread, size_t first) -> absl::Status {
          const SecondLevelInput input = {.first = static_cast<int>(first),
                                          .size = level.parts[first],
                                          .lists = lists,
                                          .inner_edges = edges.inner[first],
                                          .first_labels = level.labels};
          HEARTH_ASSIGN_OR_RETURN(
              ends[first], MakePart(input, areas[first],
                                    windows[static_cast<size_t>(thread)]));
          progress.Advance(areas[first].bytes);
          return absl::OkStatus();
        }));
    index_.lists_bytes = *std::max_element(ends.begin(), ends.end());
    return file_->Finish();
  }

  // Areas of the first-level parts in the file of lists.
  std::vector<PartArea> Areas(const FirstLevel& level,
                              const EdgeCounts& edges) {
    std::vector<PartArea> areas;
    uint64_t offset = 0;
    for (int first = 0; first < split_.first_parts(); ++first) {
      const auto index = static_cast<size_t>(first);
      const int parts = split_.second_parts(first);
      areas.push_back(
          {.first = first,
           .begin = split_.begin(first),
           .offset = offset,
           .bytes = AreaBytes(level.parts[index].nodes, edges.all[index], parts,
                              context_.id_bytes()),
           .parts = absl::MakeSpan(index_.parts)
                        .subspan(static_cast<size_t>(split_.begin(first)),
                                 static_cast<size_t>(parts))});
      offset += areas.back().bytes;
    }
    return areas;
  }

  // Makes the parts of one first-level part. Returns the end of its area, 0 if
  // nothing is in it.
  absl::StatusOr<uint64_t> MakePart(const SecondLevelInput& input,
                                    const PartArea& area,
                                    io::AlignedMemory& window) {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<PartEntry> sizes,
                            PlaceSecondLevel(context_, input, labels_));
    std::copy(sizes.begin(), sizes.end(), area.parts.begin());
    if (input.size.nodes == 0) return 0;
    const uint64_t most = AreaWindowBytes(context_.threads());
    if (window.bytes().size() < std::min(area.bytes, most)) {
      window = io::AlignedMemory();
      HEARTH_ASSIGN_OR_RETURN(
          window, io::AlignedMemory::Allocate(std::min(area.bytes, most)));
    }
    return WriteArea(context_, input.lists, labels_, area, window.bytes(),
                     *file_);
  }

  // Step 4.
  absl::Status WriteCross() {
    HEARTH_ASSIGN_OR_RETURN(
        const CrossCounts counts,
        WriteCrossCounts(context_, labels_,
                         files_.Temporary(kCrossCountsFile)));
    index_.cross_crc32c = counts.crc32c;
    index_.summary.inner_edges = counts.inner_edges;
    index_.summary.cut_edges = counts.cut_edges;
    return absl::OkStatus();
  }

  // Step 5.
  absl::Status WriteLabels() {
    const absl::Span<const uint16_t> labels = std::as_const(labels_).all();
    const absl::Span<const std::byte> bytes = {
        reinterpret_cast<const std::byte*>(labels.data()),
        labels.size() * sizeof(uint16_t)};
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<io::StreamWriter> file,
        io::StreamWriter::Create(context_.files, files_.Temporary(kPartsFile),
                                 bytes.size()));
    HEARTH_RETURN_IF_ERROR(file->Append(bytes));
    HEARTH_RETURN_IF_ERROR(file->Finish());
    index_.parts_crc32c = file->crc();
    return absl::OkStatus();
  }

  // Second half of a counting sort, piece of the output by piece.
  absl::Status WriteTrainingNodes(absl::Span<const NodeId> training_nodes) {
    constexpr uint64_t kPieceNodes = 8 << 20;
    const auto id_bytes = static_cast<uint64_t>(context_.id_bytes());
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<io::StreamWriter> file,
        io::StreamWriter::Create(context_.files,
                                 files_.Temporary(kTrainingNodesFile),
                                 training_nodes.size() * id_bytes));
    std::vector<std::byte> piece;
    for (uint64_t begin = 0; begin < training_nodes.size();
         begin += kPieceNodes) {
      std::vector<uint64_t> places;
      uint64_t place = 0;
      for (const PartEntry& part : index_.parts) {
        places.push_back(place);
        place += static_cast<uint64_t>(part.training_nodes);
      }
      const uint64_t count =
          std::min<uint64_t>(kPieceNodes, training_nodes.size() - begin);
      piece.resize(count * id_bytes);
      for (const NodeId node : training_nodes) {
        const uint64_t to = places[labels_.Get(node)]++ - begin;
        if (to >= count) continue;
        EncodeIds(&node, 1, context_.id_bytes(), piece.data() + to * id_bytes);
      }
      HEARTH_RETURN_IF_ERROR(file->Append(piece));
    }
    HEARTH_RETURN_IF_ERROR(file->Finish());
    index_.training_crc32c = file->crc();
    return absl::OkStatus();
  }

  void Summarize() {
    PartitionSummary& summary = index_.summary;
    summary.options = context_.options;
    summary.nodes = context_.shape.nodes;
    summary.training_nodes = context_.shape.training_nodes;
    summary.edges = context_.shape.edges;
    const auto [min_nodes, max_nodes] = std::minmax_element(
        index_.parts.begin(), index_.parts.end(),
        [](const auto& a, const auto& b) { return a.nodes < b.nodes; });
    summary.min_part_nodes = min_nodes->nodes;
    summary.max_part_nodes = max_nodes->nodes;
    const auto [min_training, max_training] =
        std::minmax_element(index_.parts.begin(), index_.parts.end(),
                            [](const auto& a, const auto& b) {
                              return a.training_nodes < b.training_nodes;
                            });
    summary.min_part_training_nodes = min_training->training_nodes;
    summary.max_part_training_nodes = max_training->training_nodes;
  }

  const PartitionContext& context_;
  PartitionFiles& files_;
  const LevelSplit split_;
  PartitionIndex index_;
  // Part of each node.
  NodeLabels<uint16_t> labels_;
  std::unique_ptr<PartListsFile> file_;
};

}  // namespace

absl::StatusOr<PartitionSummary> WritePartition(
    io::FileSystem& files, const store::Dataset& dataset,
    absl::Span<const NodeId> training_nodes, const PartitionOptions& options,
    const PartitionRun& run) {
  const auto shape =
      PartitionShape::Of(dataset.manifest(), std::ssize(training_nodes));
  HEARTH_RETURN_IF_ERROR(CheckPartitionOptions(options, shape.nodes));
  HEARTH_RETURN_IF_ERROR(CheckTrainingNodes(training_nodes, shape.nodes));
  HEARTH_ASSIGN_OR_RETURN(const NodeSet members,
                          NodeSet::Make(training_nodes, shape.nodes));
  const PartitionContext context = {.files = files,
                                    .dataset = dataset,
                                    .options = options,
                                    .run = run,
                                    .shape = shape,
                                    .training_nodes = members};
  PartitionFiles partition_files(files, run.folder);
  absl::StatusOr<PartitionSummary> summary = absl::UnknownError("not made");
  HEARTH_RETURN_IF_ERROR(CatchExceptions([&] {
    HEARTH_RETURN_IF_ERROR(partition_files.Begin());
    summary = PartitionWriter(context, partition_files).Write(training_nodes);
    return summary.status();
  }));
  return summary;
}

}  // namespace hearth::plan
