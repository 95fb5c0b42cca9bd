#include "engine/strategy/superbatch/options.h"

#include "absl/strings/str_cat.h"
#include "engine/io/read_queues.h"

namespace hearth::strategy {

absl::Status SuperbatchOptions::Validate() const {
  if (superbatch < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "superbatch: ", superbatch, " batches; 0 or more are needed"));
  }
  const auto most = static_cast<int>(io::kMaxReadDepth);
  if (io_depth < 1 || io_depth > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("io_depth: ", io_depth, " is not within 1 .. ", most));
  }
  return absl::OkStatus();
}

}  // namespace hearth::strategy
