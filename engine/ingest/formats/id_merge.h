#ifndef HEARTH_ENGINE_INGEST_FORMATS_ID_MERGE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_ID_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/id_runs.h"
#include "engine/ingest/source/import_context.h"

namespace hearth::ingest {

/// For every run, the nodes that the ids of its table are: in one scratch file.
struct NodeMaps {
  struct Extent {
    int64_t num_ids = 0;
    uint64_t offset = 0;
    /// CRC32C of its bytes.
    uint32_t crc32c = 0;
  };
  std::string path;
  std::vector<Extent> extents;
  /// Distinct ids in all runs.
  int64_t num_nodes = 0;
};

/// Bytes of an id in a map's file.
inline constexpr uint64_t kNodeMapEntryBytes = 16;

/// How many runs can be merged in half of the memory limit: 2 KiB each.
size_t MaxRunsToMerge(const ImportContext& context);

/// Merges runs: nodes are numbered 0, 1, 2, ... in ascending order of their
/// ids, and `visit` is called with each id in that order. Advances the
/// context's phase by the bytes of the runs. DATA_LOSS if they are not those
/// that were written. REQUIRES: at most MaxRunsToMerge of them.
absl::StatusOr<NodeMaps> MergeIdRuns(
    ImportContext& context, const IdRunWriter& runs,
    absl::FunctionRef<absl::Status(absl::string_view id)> visit);

/// Makes `nodes` the node of each id of the table that became run `run`, by
/// the id's number there. DATA_LOSS if the map is not what was written.
absl::Status LoadNodeMap(io::ReadableFile& file, const NodeMaps::Extent& extent,
                         std::vector<int64_t>& nodes);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_ID_MERGE_H_
