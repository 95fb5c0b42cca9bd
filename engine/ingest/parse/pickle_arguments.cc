#include "engine/ingest/parse/pickle_arguments.h"

#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

// numpy's own limit on dimensions is 64.
constexpr size_t kMaxDimensions = 64;

}  // namespace

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

absl::StatusOr<Arguments> TupleOf(const PickleValue& value, size_t least,
                                  size_t most) {
  const auto* const tuple = value.As<PickleTuple>();
  if (tuple == nullptr || tuple->items.size() < least ||
      tuple->items.size() > most) {
    return Refused("gets arguments that its writers never give it");
  }
  return Arguments(tuple->items);
}

absl::StatusOr<int64_t> NeedCount(const PickleValue& value) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t* number,
                          Need<int64_t>(value, "a count"));
  if (*number < 0) return Refused(absl::StrCat("gets a count of ", *number));
  return *number;
}

absl::StatusOr<std::vector<int64_t>> NeedCounts(const PickleValue& value) {
  HEARTH_ASSIGN_OR_RETURN(const auto* tuple,
                          Need<PickleTuple>(value, "a tuple of counts"));
  if (tuple->items.size() > kMaxDimensions) {
    return Refused(absl::StrCat("gets ", tuple->items.size(), " dimensions"));
  }
  std::vector<int64_t> counts;
  for (const PickleValue* item : tuple->items) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t count, NeedCount(*item));
    counts.push_back(count);
  }
  return counts;
}

}  // namespace hearth::ingest
