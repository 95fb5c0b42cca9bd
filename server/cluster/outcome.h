#ifndef HEARTH_SERVER_CLUSTER_OUTCOME_H_
#define HEARTH_SERVER_CLUSTER_OUTCOME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/train/train_step.h"

/// Texts of the messages by which machines agree on a batch.

namespace hearth::server {

/// What a rank tells of a batch.
struct Outcome {
  uint64_t epoch = 0;
  uint64_t batch = 0;
  /// CRC32C of the sums that its last call gave.
  uint32_t sums_crc = 0;
  /// Whether the rank asks all to leave after the batch.
  bool leaves = false;
  absl::StatusOr<train::BatchResult> result = train::BatchResult();
};

/// What rank 0 answers.
struct Decision {
  /// The results of all ranks, by rank, or the error.
  absl::StatusOr<std::vector<train::BatchResult>> results =
      std::vector<train::BatchResult>();
  /// Whether all ranks leave after the batch.
  bool leaves = false;
};

std::string Encode(const Outcome& outcome);
std::string Encode(const Decision& decision);

/// DATA_LOSS unless `text` is what Encode gives.
absl::StatusOr<Outcome> DecodeOutcome(absl::string_view text);
absl::StatusOr<Decision> DecodeDecision(absl::string_view text);

/// The results of all outcomes, which are by rank, or the error of the first
/// rank that has one; ABORTED if ranks are at different batches, or their sums
/// differ. All leave if one asks for it.
Decision Decide(const std::vector<Outcome>& outcomes);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_OUTCOME_H_
