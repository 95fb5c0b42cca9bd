#include "engine/ingest/formats/id_table.h"

#include <algorithm>
#include <numeric>

namespace hearth::ingest {
namespace {

// A quarter of the budget is for the ids' bytes. Each takes a view of 16 bytes,
// up to 17 in the set while that grows, and 4 while they are sorted.
constexpr uint64_t kTextShare = 4;
constexpr uint64_t kBytesPerId = 40;
constexpr uint64_t kMaxIds = INT32_MAX - 1;

}  // namespace

IdTable::IdTable(uint64_t budget_bytes)
    : text_bytes_(
          std::max<uint64_t>(budget_bytes / kTextShare, 2 * kMaxIdBytes)),
      max_ids_(std::clamp<uint64_t>(
          (budget_bytes - budget_bytes / kTextShare) / kBytesPerId, 2,
          kMaxIds)),
      // Not touched before it is used.
      text_(std::make_unique_for_overwrite<char[]>(text_bytes_)),
      numbers_(0, Hash{&ids_}, Equal{&ids_}) {
  ids_.reserve(max_ids_);
}

bool IdTable::HasRoom() const {
  return ids_.size() + 2 <= max_ids_ &&
         used_bytes_ + 2 * kMaxIdBytes <= text_bytes_;
}

uint32_t IdTable::Add(absl::string_view id) {
  const auto found = numbers_.find(id);
  if (found != numbers_.end()) return *found;
  char* const kept = text_.get() + used_bytes_;
  std::copy(id.begin(), id.end(), kept);
  used_bytes_ += id.size();
  const auto number = static_cast<uint32_t>(ids_.size());
  ids_.emplace_back(kept, id.size());
  numbers_.insert(number);
  return number;
}

std::vector<uint32_t> IdTable::Sorted() const {
  std::vector<uint32_t> order(ids_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return ids_[a] < ids_[b]; });
  return order;
}

void IdTable::Clear() {
  numbers_.clear();
  ids_.clear();
  used_bytes_ = 0;
}

}  // namespace hearth::ingest
