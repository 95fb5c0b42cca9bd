#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_ARGUMENTS_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/parse/pickle_value.h"

/// Takes apart what a pickle gives its functions. Errors are INVALID_ARGUMENT
/// "gets ..." and leave the function's name to the caller.

namespace hearth::ingest {

using Arguments = absl::Span<const PickleValue* const>;

/// INVALID_ARGUMENT: `what`.
absl::Status Refused(absl::string_view what);

/// The items of `value`, a tuple of `least` to `most`.
absl::StatusOr<Arguments> TupleOf(const PickleValue& value, size_t least,
                                  size_t most);

/// `value` as a T, which `wanted` calls by name.
template <typename T>
absl::StatusOr<const T*> Need(const PickleValue& value,
                              absl::string_view wanted) {
  const auto* const found = value.As<T>();
  if (found == nullptr) {
    return Refused(absl::StrCat("gets ", value.KindName(), " where ", wanted,
                                " should be"));
  }
  return found;
}

/// An int that is not negative.
absl::StatusOr<int64_t> NeedCount(const PickleValue& value);

/// A tuple of counts: a shape or strides.
absl::StatusOr<std::vector<int64_t>> NeedCounts(const PickleValue& value);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_ARGUMENTS_H_
