#ifndef HEARTH_ENGINE_STRATEGY_GIDS_NODE_SCORES_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_NODE_SCORES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"

namespace hearth::strategy {

/// [num_nodes] how hot each node is; more is hotter.
using NodeScores = std::vector<float>;

/// The `count` hottest nodes, of equally hot ones those of smaller number, in
/// ascending order. Takes 8 bytes a node.
std::vector<store::NodeId> HottestNodes(const NodeScores& scores,
                                        int64_t count);

/// Bytes of the file of a graph of `num_nodes`.
uint64_t NodeScoresFileBytes(int64_t num_nodes);

/// Replaces the file `path` by the scores, durably.
absl::Status WriteNodeScores(io::FileSystem& files, const std::string& path,
                             const NodeScores& scores);

/// Reads what WriteNodeScores wrote for a graph of `num_nodes`. NOT_FOUND if it
/// is not there; DATA_LOSS, naming the file, if it is damaged or of another
/// size; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<NodeScores> ReadNodeScores(io::FileSystem& files,
                                          const std::string& path,
                                          int64_t num_nodes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_NODE_SCORES_H_
