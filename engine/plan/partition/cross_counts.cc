#include "engine/plan/partition/cross_counts.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/io/stream_writer.h"
#include "engine/plan/partition/topology_scan.h"

namespace hearth::plan {
namespace {

using store::NodeId;

/// A window, and what was counted of each of its lists.
struct CrossWindow final : WindowItem {
  std::vector<int64_t> cross;
  // In all lists together.
  int64_t inner = 0;
};

void Count(const NodeLabels<uint16_t>& labels, CrossWindow& item) {
  const ListWindow& window = item.window;
  for (size_t i = 0; i < window.size(); ++i) {
    const NodeId node = window.nodes[i];
    const uint16_t label = labels.Get(node);
    int64_t cross = 0;
    int64_t loops = 0;
    const absl::Span<const NodeId> list = window.list(i);
    for (const NodeId neighbor : list) {
      cross += labels.Get(neighbor) != label ? 1 : 0;
      loops += neighbor == node ? 1 : 0;
    }
    item.cross.push_back(cross);
    item.inner += static_cast<int64_t>(list.size()) - cross - loops;
  }
}

/// Writes the counts, list after list. Single-owner.
class CountWriter {
 public:
  explicit CountWriter(io::StreamWriter& file) : file_(file) {}

  absl::Status Append(const CrossWindow& item) {
    const ListWindow& window = item.window;
    counts_.inner_edges += item.inner;
    values_.clear();
    for (size_t i = 0; i < window.size(); ++i) {
      cross_ += item.cross[i];
      if (!window.ends_here(i)) continue;
      counts_.cut_edges += cross_;
      values_.push_back(static_cast<uint32_t>(
          std::min<int64_t>(cross_, std::numeric_limits<uint32_t>::max())));
      cross_ = 0;
    }
    return file_.Append({reinterpret_cast<const std::byte*>(values_.data()),
                         values_.size() * sizeof(uint32_t)});
  }

  const CrossCounts& counts() const { return counts_; }

 private:
  io::StreamWriter& file_;
  CrossCounts counts_;
  // The count of the list that comes next, as far as it is known.
  int64_t cross_ = 0;
  std::vector<uint32_t> values_;
};

}  // namespace

absl::StatusOr<CrossCounts> WriteCrossCounts(const PartitionContext& context,
                                             const NodeLabels<uint16_t>& labels,
                                             const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::StreamWriter> file,
      io::StreamWriter::Create(
          context.files, path,
          static_cast<uint64_t>(context.shape.nodes) * sizeof(uint32_t)));
  CountWriter writer(*file);
  HEARTH_RETURN_IF_ERROR(ScanTopology(
      context, {.stage = "cross counts",
                .make = [] { return std::make_unique<CrossWindow>(); },
                .work =
                    [&](int, WindowItem& item) {
                      Count(labels, static_cast<CrossWindow&>(item));
                      return absl::OkStatus();
                    },
                .use =
                    [&](WindowItem& item) {
                      return writer.Append(static_cast<CrossWindow&>(item));
                    }}));
  HEARTH_RETURN_IF_ERROR(file->Finish());
  CrossCounts counts = writer.counts();
  counts.crc32c = file->crc();
  return counts;
}

}  // namespace hearth::plan
