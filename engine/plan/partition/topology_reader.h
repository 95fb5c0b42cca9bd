#ifndef HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_READER_H_
#define HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_READER_H_

#include <cstdint>
#include <memory>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/plan/partition/list_window.h"
#include "engine/store/array_stream.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"

namespace hearth::plan {

/// All lists of a graph with one node type and one edge type, node after node,
/// from its files: past the page cache, against their checksums. DATA_LOSS,
/// naming the file, too, for an indptr that descends and for a neighbor that is
/// no node.
class TopologyReader final : public ListReader {
 public:
  /// Memory that a reader holds.
  static constexpr uint64_t kMemoryBytes = 2 * store::ArrayStream::kBufferBytes;

  /// Both outlive the reader. CANCELLED after a stop. REQUIRES: the dataset has
  /// one node type and one edge type.
  static absl::StatusOr<std::unique_ptr<TopologyReader>> Open(
      io::FileSystem& files, const store::Dataset& dataset,
      const std::stop_token& stop);

  absl::Status Next(ListWindow& window) override;

  /// Bytes read so far, and in all.
  uint64_t position() const {
    return indptr_->position() + indices_->position();
  }
  static uint64_t TotalBytes(const store::EdgeTypeEntry& edges);

 private:
  TopologyReader(const store::EdgeTypeEntry& edges, int64_t num_nodes,
                 std::unique_ptr<store::ArrayStream> indptr,
                 std::unique_ptr<store::ArrayStream> indices);

  // Reads the next value of indptr: where the list of node_ ends.
  absl::Status NextList();
  // Appends `count` neighbors to the window.
  absl::Status ReadNeighbors(ListWindow& window, uint64_t count);

  const int64_t num_nodes_;
  const int64_t num_edges_;
  const int id_bytes_;
  const std::unique_ptr<store::ArrayStream> indptr_;
  const std::unique_ptr<store::ArrayStream> indices_;
  // Values of indptr that are yet to be used.
  absl::Span<const std::byte> ends_;
  // The node whose list comes next, the end of that before, and what is left
  // of a list that a window has cut.
  store::NodeId node_ = 0;
  int64_t end_ = 0;
  int64_t left_ = 0;
  bool in_list_ = false;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_TOPOLOGY_READER_H_
