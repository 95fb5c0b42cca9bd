#include "server/storage/job_state.h"

namespace hearth::server {

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

bool IsActive(v1::JobState state) {
  return state == v1::PREPARING || state == v1::RUNNING;
}

bool MayFollow(v1::JobState from, v1::JobState to) {
  switch (to) {
    case v1::PREPARING:
      return from == v1::QUEUED || from == v1::WAITING;
    case v1::RUNNING:
      return from == v1::PREPARING;
    case v1::SUCCEEDED:
      return from == v1::RUNNING;
    case v1::FAILED:
      return from == v1::QUEUED || from == v1::WAITING || IsActive(from);
    case v1::QUEUED:
      return IsActive(from) || from == v1::FAILED || from == v1::CANCELLED;
    case v1::WAITING:
      return IsActive(from);
    case v1::CANCELLED:
      return from == v1::QUEUED || from == v1::WAITING || IsActive(from);
    default:
      return false;
  }
}

}  // namespace hearth::server
