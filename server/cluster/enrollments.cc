#include "server/cluster/enrollments.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::server {

absl::Status Enrollments::Note(const std::string& member,
                               const v1::EnrollRequest& request) {
  HEARTH_RETURN_IF_ERROR(failed_);
  if (request.size() != members_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(member, " counts ", request.size(), " members, ",
                     members_.front(), " counts ", members_.size()));
  }
  Entry& entry = entries_[member];
  if (entry.instance != request.instance()) {
    // A launcher that starts a member again has ended the process before it.
    if (entry.former.contains(request.instance())) {
      return absl::AlreadyExistsError(
          absl::StrCat("two processes are ", member));
    }
    entry.former.insert(entry.instance);
    entry.instance = request.instance();
    entry.is_told = false;
  }
  entry.heard = clock_.SteadySeconds();
  entry.address = request.address();
  if (!request.has_exit_code()) return absl::OkStatus();
  if (member == members_.front()) {
    exit_code_ = request.exit_code();
  } else if (!exit_code_.has_value()) {
    return absl::AbortedError(
        absl::StrCat(member, " has ended with ", request.exit_code()));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Enrolled> Enrollments::Take(
    const std::string& member, const v1::EnrollRequest& request) {
  absl::MutexLock lock(&mutex_);
  failed_ = Note(member, request);
  HEARTH_RETURN_IF_ERROR(failed_);
  if (exit_code_.has_value()) entries_[member].is_told = true;
  v1::Enrolled enrolled;
  if (exit_code_.has_value()) enrolled.set_exit_code(*exit_code_);
  const double now = clock_.SteadySeconds();
  for (const std::string& one : members_) {
    const auto found = entries_.find(one);
    if (found == entries_.end() ||
        now - found->second.heard > absl::ToDoubleSeconds(kSilence)) {
      enrolled.add_missing(one);
      continue;
    }
    if (found->second.address.empty()) enrolled.add_unready(one);
    if (exit_code_.has_value() && !found->second.is_told) {
      enrolled.add_untold(one);
    }
  }
  return enrolled;
}

std::string Enrollments::AddressOf(absl::string_view member) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(member);
  return found == entries_.end() ? "" : found->second.address;
}

}  // namespace hearth::server
