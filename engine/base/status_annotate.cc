#include "engine/base/status_annotate.h"

#include <cerrno>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace hearth {
namespace {

// Read by WaitCauseOf.
constexpr char kDiskFullPayload[] = "hearth/disk-full";

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

}  // namespace hearth
