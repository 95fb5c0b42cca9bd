#include "engine/strategy/superbatch/superbatch_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/io/read_queue.h"

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

namespace {

// Bytes of an entering row in the plan's file: two ids and a position.
constexpr uint64_t kFileBytesPerRow = 20;
constexpr uint64_t kMaxFileBytes = 100'000'000'000;
constexpr uint64_t kMinPlanBytes = 64 << 20;

// The number of batches that fit into `limit`, if `batches` of them take
// `bytes`.
int64_t Fitting(uint64_t limit, uint64_t bytes, int64_t batches) {
  const auto one =
      std::max<uint64_t>(1, (bytes + static_cast<uint64_t>(batches) - 1) /
                                static_cast<uint64_t>(batches));
  return static_cast<int64_t>(limit / one);
}

}  // namespace

int64_t SuperbatchSize(const SuperbatchProfile& profile,
                       const SuperbatchLimits& limits) {
  const auto rows = static_cast<uint64_t>(profile.rows);
  const int64_t by_disk =
      Fitting(limits.file_bytes / 2,
              profile.file_bytes + rows * kFileBytesPerRow, profile.batches);
  const int64_t by_memory =
      Fitting(limits.plan_bytes, rows * kPlanBytesPerRow, profile.batches);
  return std::max<int64_t>(1, std::min(by_disk, by_memory));
}

uint64_t PlanBytesFor(uint64_t cache_bytes) {
  return std::max(kMinPlanBytes, cache_bytes / 4);
}

SuperbatchLimits LimitsFor(uint64_t free_bytes, uint64_t cache_bytes) {
  return {.file_bytes = std::min(kMaxFileBytes, free_bytes / 4),
          .plan_bytes = PlanBytesFor(cache_bytes)};
}

}  // namespace hearth::strategy
