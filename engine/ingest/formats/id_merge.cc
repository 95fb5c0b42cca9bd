#include "engine/ingest/formats/id_merge.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {
namespace {

// For a run: three quarters to read it, a quarter to write its map.
constexpr uint64_t kMinShareBytes = 2 << 10;
constexpr uint64_t kMaxShareBytes = 1 << 20;
static_assert(kMinShareBytes / 4 * 3 >= kMinRunBufferBytes);
constexpr uint64_t kProgressBytes = 256 << 10;
constexpr size_t kLoadEntries = 4 << 10;

struct Entry {
  int64_t number;
  int64_t node;
};
static_assert(sizeof(Entry) == kNodeMapEntryBytes);

absl::Span<const std::byte> BytesOf(const std::vector<Entry>& entries) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(entries.data()),
                             entries.size() * sizeof(Entry));
}

uint64_t MergeBytes(const ImportContext& context) {
  return context.memory_limit_bytes() / 2;
}

class IdMerge {
 public:
  IdMerge(ImportContext& context, const IdRunWriter& runs)
      : context_(context), runs_(runs) {}

  absl::StatusOr<NodeMaps> Run(
      absl::FunctionRef<absl::Status(absl::string_view)> visit) {
    HEARTH_RETURN_IF_ERROR(Open());
    std::string id;
    while (!heap_.empty()) {
      const absl::string_view least = inputs_[heap_.front()].id();
      id.assign(least.data(), least.size());
      HEARTH_RETURN_IF_ERROR(visit(id));
      while (!heap_.empty() && inputs_[heap_.front()].id() == id) {
        HEARTH_RETURN_IF_ERROR(TakeFirst());
      }
      ++maps_.num_nodes;
    }
    for (size_t run = 0; run < inputs_.size(); ++run) {
      HEARTH_RETURN_IF_ERROR(Flush(run));
    }
    HEARTH_RETURN_IF_ERROR(map_file_->Close());
    HEARTH_RETURN_IF_ERROR(context_.Advance(unreported_));
    return std::move(maps_);
  }

 private:
  struct Output {
    std::vector<Entry> entries;
    uint64_t next_offset = 0;
  };

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(run_file_,
                            context_.files().OpenForRead(runs_.path()));
    HEARTH_ASSIGN_OR_RETURN(maps_.path, context_.NewScratchPath("nodes"));
    HEARTH_ASSIGN_OR_RETURN(map_file_, context_.files().Create(maps_.path));
    const std::vector<IdRun>& runs = runs_.runs();
    const uint64_t share =
        std::clamp(MergeBytes(context_) / std::max<size_t>(runs.size(), 1),
                   kMinShareBytes, kMaxShareBytes);
    buffered_entries_ = share / 4 / sizeof(Entry);
    uint64_t offset = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      inputs_.emplace_back(*run_file_, runs[i], share / 4 * 3);
      outputs_.emplace_back().next_offset = offset;
      maps_.extents.push_back({runs[i].num_ids, offset, 0});
      offset += static_cast<uint64_t>(runs[i].num_ids) * sizeof(Entry);
      HEARTH_RETURN_IF_ERROR(Push(i));
    }
    return absl::OkStatus();
  }

  /// The run whose next id is least comes first.
  auto Order() const {
    return [this](size_t a, size_t b) {
      return inputs_[b].id() < inputs_[a].id();
    };
  }

  /// Goes to the run's next id and puts it on the heap, if there is one.
  absl::Status Push(size_t run) {
    HEARTH_ASSIGN_OR_RETURN(const bool more, inputs_[run].Next());
    if (!more) return absl::OkStatus();
    heap_.push_back(run);
    std::push_heap(heap_.begin(), heap_.end(), Order());
    unreported_ += inputs_[run].id().size() + 2 * sizeof(uint32_t);
    if (unreported_ < kProgressBytes) return absl::OkStatus();
    return context_.Advance(std::exchange(unreported_, 0));
  }

  /// The first id of the heap is the current node.
  absl::Status TakeFirst() {
    const size_t run = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), Order());
    heap_.pop_back();
    std::vector<Entry>& entries = outputs_[run].entries;
    entries.push_back({inputs_[run].number(), maps_.num_nodes});
    if (entries.size() >= buffered_entries_) {
      HEARTH_RETURN_IF_ERROR(Flush(run));
    }
    return Push(run);
  }

  absl::Status Flush(size_t run) {
    Output& output = outputs_[run];
    const absl::Span<const std::byte> bytes = BytesOf(output.entries);
    uint32_t& crc32c = maps_.extents[run].crc32c;
    crc32c = Crc32c(bytes, crc32c);
    HEARTH_RETURN_IF_ERROR(map_file_->Write(output.next_offset, bytes));
    output.next_offset += bytes.size();
    output.entries.clear();
    return absl::OkStatus();
  }

  ImportContext& context_;
  const IdRunWriter& runs_;
  std::unique_ptr<io::ReadableFile> run_file_;
  std::unique_ptr<io::WritableFile> map_file_;
  std::vector<IdRunReader> inputs_;
  std::vector<Output> outputs_;
  size_t buffered_entries_ = 0;
  std::vector<size_t> heap_;
  uint64_t unreported_ = 0;
  NodeMaps maps_;
};

}  // namespace

size_t MaxRunsToMerge(const ImportContext& context) {
  return std::max<uint64_t>(MergeBytes(context) / kMinShareBytes, 1);
}

absl::StatusOr<NodeMaps> MergeIdRuns(
    ImportContext& context, const IdRunWriter& runs,
    absl::FunctionRef<absl::Status(absl::string_view id)> visit) {
  return IdMerge(context, runs).Run(visit);
}

absl::Status LoadNodeMap(io::ReadableFile& file, const NodeMaps::Extent& extent,
                         std::vector<int64_t>& nodes) {
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat(file.path(), ": the nodes from byte ", extent.offset,
                   " on differ from the ids that were written"));
  const auto count = static_cast<size_t>(extent.num_ids);
  nodes.resize(count);
  std::vector<Entry> entries;
  uint32_t crc32c = 0;
  for (size_t first = 0; first < count; first += entries.size()) {
    entries.resize(std::min(kLoadEntries, count - first));
    HEARTH_RETURN_IF_ERROR(
        file.Read(extent.offset + first * sizeof(Entry),
                  absl::MakeSpan(reinterpret_cast<std::byte*>(entries.data()),
                                 entries.size() * sizeof(Entry))));
    crc32c = Crc32c(BytesOf(entries), crc32c);
    for (const Entry& entry : entries) {
      if (entry.number < 0 || entry.number >= extent.num_ids) return damaged;
      nodes[static_cast<size_t>(entry.number)] = entry.node;
    }
  }
  return crc32c == extent.crc32c ? absl::OkStatus() : damaged;
}

}  // namespace hearth::ingest
