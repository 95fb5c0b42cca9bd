#include "engine/base/wait_cause.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hearth {
namespace {

// Set by ErrnoStatus, which has a copy: everything depends on it, and so it
// depends on nothing.
constexpr char kDiskFullPayload[] = "hearth/disk-full";
// Their values are the number of bytes.
constexpr char kMemoryPayload[] = "hearth/memory-needed";
constexpr char kGpuMemoryPayload[] = "hearth/gpu-memory";
constexpr char kPlanSpacePayload[] = "hearth/plan-space-needed";

}  // namespace

WaitCause WaitCauseOf(const absl::Status& status) {
  if (status.GetPayload(kMemoryPayload).has_value()) return WaitCause::kMemory;
  if (status.GetPayload(kGpuMemoryPayload).has_value()) {
    return WaitCause::kGpuMemory;
  }
  if (status.GetPayload(kDiskFullPayload).has_value()) {
    return WaitCause::kDiskSpace;
  }
  if (status.GetPayload(kPlanSpacePayload).has_value()) {
    return WaitCause::kPlanSpace;
  }
  return absl::IsUnavailable(status) ? WaitCause::kDisk : WaitCause::kNone;
}

absl::Status WaitForMemoryError(absl::string_view message,
                                uint64_t needed_bytes) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kMemoryPayload, absl::Cord(absl::StrCat(needed_bytes)));
  return status;
}

absl::Status WaitForGpuMemoryError(absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kGpuMemoryPayload, absl::Cord());
  return status;
}

absl::Status WaitForDiskSpace(absl::Status status) {
  status.SetPayload(kDiskFullPayload, absl::Cord());
  return status;
}

absl::Status WaitForPlanSpace(absl::Status status, uint64_t needed_bytes) {
  status.SetPayload(kPlanSpacePayload, absl::Cord(absl::StrCat(needed_bytes)));
  return status;
}

uint64_t BytesNeededBy(const absl::Status& status) {
  auto payload = status.GetPayload(kMemoryPayload);
  if (!payload.has_value()) payload = status.GetPayload(kPlanSpacePayload);
  uint64_t bytes = 0;
  if (!payload.has_value() ||
      !absl::SimpleAtoi(std::string(*payload), &bytes)) {
    return 0;
  }
  return bytes;
}

}  // namespace hearth
