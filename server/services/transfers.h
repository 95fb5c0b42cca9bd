#ifndef HEARTH_SERVER_SERVICES_TRANSFERS_H_
#define HEARTH_SERVER_SERVICES_TRANSFERS_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/jobs/event_hub.h"

namespace hearth::server {

/// Downloads and uploads that are under way at a time, at most: each holds a
/// file, or two, and a piece of it.
inline constexpr int kMostTransfers = 128;

/// UNAVAILABLE if there are more `transfers` than that.
inline absl::Status CheckRoom(const EventHub& transfers) {
  if (transfers.size() <= kMostTransfers) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      kMostTransfers, " downloads and uploads are under way; try again later"));
}

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SERVICES_TRANSFERS_H_
