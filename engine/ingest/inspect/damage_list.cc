#include "engine/ingest/inspect/damage_list.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::ingest {

absl::Status DamageList::AddIfDamage(const absl::Status& status) {
  const bool is_damage = absl::IsDataLoss(status) || absl::IsNotFound(status) ||
                         absl::IsUnavailable(status);
  if (!is_damage) return status;
  Add(std::string(status.message()));
  return absl::OkStatus();
}

void DamageList::Append(DamageList other) {
  for (std::string& what : other.listed_) {
    if (listed_.size() < kMaxListed) listed_.push_back(std::move(what));
  }
  count_ += other.count_;
}

absl::Status DamageList::ToStatus(const std::string& path) const {
  if (empty()) return absl::OkStatus();
  const uint64_t unlisted = count_ - listed_.size();
  return absl::DataLossError(absl::StrCat(
      path, ": ", count_, count_ == 1 ? " part is" : " parts are",
      " damaged: ", absl::StrJoin(listed_, "; "),
      unlisted > 0 ? absl::StrCat("; and ", unlisted, " more") : ""));
}

}  // namespace hearth::ingest
