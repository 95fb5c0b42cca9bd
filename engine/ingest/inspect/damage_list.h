#ifndef HEARTH_ENGINE_INGEST_INSPECT_DAMAGE_LIST_H_
#define HEARTH_ENGINE_INGEST_INSPECT_DAMAGE_LIST_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace hearth::ingest {

/// The damage that a verification found: the first findings in words, and a
/// count of the rest. Thread-compatible.
class DamageList {
 public:
  static constexpr size_t kMaxListed = 20;

  /// "`what`": a file, what of it, and why.
  void Add(std::string what) {
    ++count_;
    if (listed_.size() < kMaxListed) listed_.push_back(std::move(what));
  }

  /// Adds what the status says if that is damage: a file that is missing, too
  /// short, unreadable or does not match. Other errors are returned.
  absl::Status AddIfDamage(const absl::Status& status);

  /// All of `other`, behind what is here.
  void Append(DamageList other);

  bool empty() const { return count_ == 0; }

  /// DATA_LOSS that names `path` and all; OK if there is nothing.
  absl::Status ToStatus(const std::string& path) const;

 private:
  uint64_t count_ = 0;
  std::vector<std::string> listed_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_INSPECT_DAMAGE_LIST_H_
