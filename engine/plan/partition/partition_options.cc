#include "engine/plan/partition/partition_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace hearth::plan {
absl::Status CheckPartitionOptions(const PartitionOptions& options,
                                   int64_t nodes) {
  const int64_t most = std::min<int64_t>(PartitionOptions::kMaxParts, nodes);
  if (options.parts < 1 || options.parts > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts: ", options.parts, " is not between 1 and ", most,
                     most == nodes ? ", the number of nodes" : ""));
  }
  if (options.rounds < 1 || options.rounds > PartitionOptions::kMaxRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("rounds: ", options.rounds, " is not between 1 and ",
                     PartitionOptions::kMaxRounds));
  }
  if (options.rounds > 1 && options.membership == Membership::kBloom) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rounds: ", options.rounds,
        " cannot be made with Bloom filters, which forget no node; 1 can"));
  }
  return absl::OkStatus();
}

int DefaultParts(int64_t training_nodes, int64_t batch_size, int64_t nodes) {
  const int64_t most =
      std::max<int64_t>(1, std::min<int64_t>(10'000, nodes / 16));
  // As one number of batches and a rest, so that no product is too large.
  const int64_t batches = std::min(training_nodes / batch_size, most);
  return static_cast<int>(std::clamp<int64_t>(
      10 * batches + 10 * (training_nodes % batch_size) / batch_size, 1, most));
}

}  // namespace hearth::plan
