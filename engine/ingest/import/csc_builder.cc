#include "engine/ingest/import/csc_builder.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/range_sorter.h"
#include "engine/io/file_system.h"

// 1. Survey: read all edges once, checking every id, and count them in up to
//    65,536 slices of the nodes.
// 2. Join slices to ranges that can be sorted in memory. If one range is all,
//    sort it right from the source.
// 3. Otherwise distribute: read all edges again and append each, through a
//    buffer per range, to its range's extent of the scratch file, whose place
//    the counts tell. A stable distribution, as the sort is.
// 4. Sort range after range from the scratch file, checking its checksum at
//    each pass; remove the file.
// The memory limit is spent on: an eighth each for blocks of edges and for the
// counts of slices, a quarter each for the buffers of step 3 and for a sort.

namespace hearth::ingest {
namespace {

constexpr uint64_t kMaxSlices = 64 << 10;
constexpr uint64_t kBytesPerSlice = sizeof(NodeRange) + sizeof(uint32_t);
constexpr uint64_t kMinBufferBytes = 4 << 10;

/// The nodes cut into slices of 2^shift.
struct Slices {
  int shift = 0;
  std::vector<NodeRange> ranges;
};

/// The steps of a sort, known after the survey.
struct Plan {
  EdgeEnds ends;
  Slices slices;
  std::vector<NodeRange> ranges;
  SortBudget budget;
};

Slices CutNodes(int64_t num_nodes, uint64_t memory_bytes) {
  const uint64_t most =
      std::clamp<uint64_t>(memory_bytes / kBytesPerSlice, 1, kMaxSlices);
  const auto last = static_cast<uint64_t>(num_nodes - 1);
  Slices slices;
  while ((last >> slices.shift) + 1 > most) ++slices.shift;
  const int64_t width = int64_t{1} << slices.shift;
  for (int64_t first = 0; first < num_nodes; first += width) {
    slices.ranges.push_back({first, std::min(width, num_nodes - first), 0});
  }
  return slices;
}

absl::Status Survey(ImportContext& context, EdgeSource& edges, Slices& slices) {
  return ForEachBlock(context, edges, [&](const EdgeBlock& block) {
    for (const int64_t node : block.destinations) {
      ++slices.ranges[static_cast<size_t>(node >> slices.shift)].num_edges;
    }
    return absl::OkStatus();
  });
}

/// Writes edges to their ranges' extents of the scratch file. Single-owner.
class Distributor {
 public:
  Distributor(std::unique_ptr<io::WritableFile> file, const Plan& plan)
      : file_(std::move(file)),
        ends_(plan.ends),
        shift_(plan.slices.shift),
        buffers_(plan.ranges.size()),
        written_(plan.ranges.size()) {
    const std::vector<NodeRange>& ranges = plan.ranges;
    int64_t first_edge = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      extents_.push_back({first_edge, ranges[i].num_edges, 0});
      first_edge += ranges[i].num_edges;
      const auto covered = static_cast<size_t>(
          (ranges[i].num_nodes + (int64_t{1} << shift_) - 1) >> shift_);
      range_of_slice_.insert(range_of_slice_.end(), covered,
                             static_cast<uint32_t>(i));
    }
  }

  /// RESOURCE_EXHAUSTED if `memory_bytes` are too few for this many ranges.
  absl::Status Reserve(uint64_t memory_bytes) {
    buffer_bytes_ = memory_bytes / buffers_.size();
    buffer_bytes_ -=
        buffer_bytes_ % static_cast<uint64_t>(ScratchEdgeBytes(ends_));
    if (buffer_bytes_ < kMinBufferBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "sorting the edges takes ", buffers_.size(), " ranges of nodes with ",
          FormatByteSize(kMinBufferBytes),
          " of buffer each; the import's memory limit leaves ",
          FormatByteSize(memory_bytes)));
    }
    for (std::vector<std::byte>& buffer : buffers_) {
      buffer.reserve(buffer_bytes_);
    }
    const ScratchExtent& last = extents_.back();
    return file_->Allocate(Bytes(last.first_edge + last.num_edges));
  }

  absl::Status Add(const EdgeBlock& block) {
    for (size_t i = 0; i < block.size(); ++i) {
      const int64_t node = block.destinations[i];
      const uint32_t range =
          range_of_slice_[static_cast<size_t>(node >> shift_)];
      AppendScratchEdge(ends_, block.sources[i], node, buffers_[range]);
      if (buffers_[range].size() >= buffer_bytes_) {
        HEARTH_RETURN_IF_ERROR(Flush(range));
      }
    }
    return absl::OkStatus();
  }

  /// Where the edges of each range are now.
  absl::StatusOr<std::vector<ScratchExtent>> Finish() {
    for (size_t range = 0; range < buffers_.size(); ++range) {
      HEARTH_RETURN_IF_ERROR(Flush(range));
      if (written_[range] != Bytes(extents_[range].num_edges)) {
        return ChangedError();
      }
    }
    HEARTH_RETURN_IF_ERROR(file_->Close());
    return std::move(extents_);
  }

 private:
  absl::Status Flush(size_t range) {
    std::vector<std::byte>& buffer = buffers_[range];
    ScratchExtent& extent = extents_[range];
    // More edges than were counted would run into the next range's.
    if (written_[range] + buffer.size() > Bytes(extent.num_edges)) {
      return ChangedError();
    }
    HEARTH_RETURN_IF_ERROR(
        file_->Write(Bytes(extent.first_edge) + written_[range], buffer));
    extent.crc32c = Crc32c(buffer, extent.crc32c);
    written_[range] += buffer.size();
    buffer.clear();
    return absl::OkStatus();
  }

  uint64_t Bytes(int64_t num_edges) const {
    return static_cast<uint64_t>(num_edges * ScratchEdgeBytes(ends_));
  }

  static absl::Status ChangedError() {
    return absl::FailedPreconditionError(
        "the edges were changed while they were read");
  }

  const std::unique_ptr<io::WritableFile> file_;
  const EdgeEnds ends_;
  const int shift_;
  uint64_t buffer_bytes_ = 0;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<ScratchExtent> extents_;
  std::vector<uint64_t> written_;
  std::vector<uint32_t> range_of_slice_;
};

uint64_t BytesOfEdges(int64_t count) {
  return static_cast<uint64_t>(count) * 2 * sizeof(int64_t);
}

absl::StatusOr<std::vector<ScratchExtent>> Distribute(
    ImportContext& context, EdgeSource& edges, const Plan& plan,
    const std::string& scratch_path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          context.files().Create(scratch_path));
  Distributor distributor(std::move(file), plan);
  HEARTH_RETURN_IF_ERROR(distributor.Reserve(context.memory_limit_bytes() / 4));
  context.Begin("sorting", BytesOfEdges(edges.num_edges()));
  HEARTH_RETURN_IF_ERROR(ForEachBlock(
      context, edges,
      [&](const EdgeBlock& block) { return distributor.Add(block); }));
  return distributor.Finish();
}

void BeginSorting(ImportContext& context, const Plan& plan) {
  uint64_t total = 0;
  for (const NodeRange& range : plan.ranges) {
    total += BytesOfEdges(range.num_edges) *
             static_cast<uint64_t>(plan.budget.Passes(range));
  }
  context.Begin("edges", total);
}

/// Steps 1 and 2.
absl::StatusOr<Plan> MakePlan(ImportContext& context, EdgeSource& edges,
                              const EdgeEnds& ends) {
  const uint64_t limit = context.memory_limit_bytes();
  Plan plan;
  plan.ends = ends;
  plan.slices = CutNodes(ends.num_destinations, limit / 8);
  plan.budget = {store::SizeOf(IndexType(ends.num_sources)),
                 static_cast<int64_t>(limit / 4)};
  context.Begin("checking", BytesOfEdges(edges.num_edges()));
  HEARTH_RETURN_IF_ERROR(Survey(context, edges, plan.slices));
  plan.ranges = JoinRanges(plan.slices.ranges, plan.budget);
  for (const NodeRange& range : plan.ranges) {
    HEARTH_RETURN_IF_ERROR(plan.budget.Check(range));
  }
  return plan;
}

/// Steps 3 and 4.
absl::Status SortByRanges(ImportContext& context, EdgeSource& edges,
                          const Plan& plan, const std::string& scratch_path,
                          RangeSorter& sorter) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<ScratchExtent> extents,
                          Distribute(context, edges, plan, scratch_path));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          context.files().OpenForRead(scratch_path));
  BeginSorting(context, plan);
  for (size_t i = 0; i < plan.ranges.size(); ++i) {
    const std::unique_ptr<EdgeSource> part =
        NewScratchEdgeSource(*file, plan.ends, extents[i]);
    HEARTH_RETURN_IF_ERROR(sorter.Sort(*part, plan.ranges[i]));
  }
  return context.files().RemoveTree(scratch_path);
}

}  // namespace

absl::StatusOr<CscArrays> BuildCsc(ImportContext& context, EdgeSource& edges,
                                   const EdgeEnds& ends,
                                   const store::ArrayPlace& place) {
  HEARTH_ASSIGN_OR_RETURN(const Plan plan, MakePlan(context, edges, ends));
  const int64_t num_edges = edges.num_edges();
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<CscWriter> writer,
      CscWriter::Create(context.files(), place, ends, num_edges));
  const std::unique_ptr<RangeSorter> sorter =
      NewRangeSorter(context, plan.budget, *writer);
  if (plan.ranges.size() == 1) {
    BeginSorting(context, plan);
    HEARTH_RETURN_IF_ERROR(sorter->Sort(edges, plan.ranges[0]));
  } else {
    HEARTH_RETURN_IF_ERROR(
        SortByRanges(context, edges, plan,
                     io::JoinPath(place.folder, kScratchName), *sorter));
  }
  HEARTH_RETURN_IF_ERROR(
      writer->AppendOffsets(absl::MakeConstSpan(&num_edges, 1)));
  return writer->Finish();
}

}  // namespace hearth::ingest
