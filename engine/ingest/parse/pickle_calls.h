#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/pickle_value.h"

namespace hearth::ingest {

/// Makes values and counts what they take; RESOURCE_EXHAUSTED beyond the
/// limits. Single-owner.
class PickleArena {
 public:
  PickleArena(uint64_t max_bytes, int64_t max_values)
      : bytes_left_(max_bytes), values_left_(max_values) {}

  absl::StatusOr<PickleValue*> New(decltype(PickleValue::data) data);

  /// Counts `count` bytes of a string or array about to be made.
  absl::Status Charge(uint64_t count);

  /// Hands over all values. REQUIRES: nothing is made afterwards.
  PickleTree Release(const PickleValue* root);

 private:
  PickleTree tree_;
  uint64_t bytes_left_;
  int64_t values_left_;
};

/// Meanings of a pickle's classes and functions: each is a name on a list, and
/// its result is made as plain data. Errors (INVALID_ARGUMENT,
/// RESOURCE_EXHAUSTED) leave file and offset to the caller.

/// The global `name` of `module`; INVALID_ARGUMENT unless it is on the list.
absl::StatusOr<PickleGlobal> FindGlobal(absl::string_view module,
                                        absl::string_view name);

/// REDUCE: what `callable` returns for `arguments`.
absl::StatusOr<PickleValue*> Call(PickleArena& arena,
                                  const PickleValue& callable,
                                  const PickleValue& arguments);

/// NEWOBJ: an object of class `type`, made without arguments.
absl::StatusOr<PickleValue*> Make(PickleArena& arena, const PickleValue& type,
                                  const PickleValue& arguments);

/// BUILD: gives `state` to `target`.
absl::Status Build(PickleArena& arena, PickleValue& target,
                   const PickleValue& state);

/// BINPERSID: the storage that torch's tuple `id` stands for.
absl::StatusOr<PickleValue*> FindStorage(PickleArena& arena,
                                         const PickleValue& id);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_
