#ifndef HEARTH_ENGINE_JOB_HISTORY_CHOICE_H_
#define HEARTH_ENGINE_JOB_HISTORY_CHOICE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"

namespace hearth::job {

/// The embeddings of earlier batches that a job keeps, and why.
struct HistoryChoice {
  /// Embeddings, and the memory for them.
  int64_t embeddings = 0;
  uint64_t bytes = 0;
  /// Batches after which one is computed anew.
  int64_t staleness = 1;
  /// The part of the memory for rows that they got, within 0 .. 1 (alpha);
  /// absent where they have memory of their own.
  std::optional<double> share;
  /// The weight of a drawn neighbor against that of a row (beta).
  double sample_weight = 1;
  /// Rows for each seed without a history, in this order of the seeds, and if
  /// they were shuffled (the redundancy ratio of OUTRE, section 3.1).
  double redundancy = 0;
  double shuffled_redundancy = 0;
  /// The name of the profile that this follows from.
  std::string profile;

  bool operator==(const HistoryChoice&) const = default;
};

/// The same with the nodes whose embeddings these are, by slot: what a job goes
/// on with, whatever its budgets then.
struct KeptHistoryChoice {
  HistoryChoice choice;
  std::vector<store::NodeId> nodes;
};

/// Writes the choice in a job's folder, durably.
absl::Status WriteHistoryChoice(io::FileSystem& files,
                                const std::string& folder,
                                const KeptHistoryChoice& kept);

/// Reads it. NOT_FOUND if none was written; DATA_LOSS, naming the file, if it
/// is damaged; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<KeptHistoryChoice> ReadHistoryChoice(io::FileSystem& files,
                                                    const std::string& folder);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_HISTORY_CHOICE_H_
