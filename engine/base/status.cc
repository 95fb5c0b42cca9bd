#include "engine/base/status.h"

#include <cerrno>
#include <exception>
#include <new>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hearth {

namespace {

// Payloads by which WaitCauseOf finds the cause. The values of the first two
// are the bytes needed, in decimal digits.
constexpr char kMemoryPayload[] = "hearth/memory-needed";
constexpr char kPlanSpacePayload[] = "hearth/plan-space-needed";
constexpr char kGpuMemoryPayload[] = "hearth/gpu-memory";
constexpr char kDiskFullPayload[] = "hearth/disk-full";
constexpr char kClientPayload[] = "hearth/client";
constexpr char kPeerPayload[] = "hearth/peer";

absl::Status DiskFull(absl::string_view message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kDiskFullPayload, absl::Cord());
  return status;
}

}  // namespace

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(),
                         absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

absl::Status ErrnoStatus(int error, absl::string_view subject,
                         absl::string_view operation) {
  const absl::Status status =
      absl::ErrnoToStatus(error, absl::StrCat(subject, ": ", operation));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return DiskFull(status.message());
    case ENOMEM:
      return absl::ResourceExhaustedError(status.message());
    case EIO:
      return absl::UnavailableError(status.message());
    default:
      return status;
  }
}

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
  if (status.GetPayload(kClientPayload).has_value()) return WaitCause::kClient;
  if (status.GetPayload(kPeerPayload).has_value()) return WaitCause::kPeer;
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

absl::Status WaitForClientError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kClientPayload, absl::Cord());
  return status;
}

absl::Status WaitForPeerError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kPeerPayload, absl::Cord());
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

absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("an exception of unknown type");
  }
}

}  // namespace hearth
