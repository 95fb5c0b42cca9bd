#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/pickle_value.h"

/// The classes and functions that a pickle may name. They are an allow-list,
/// and each result is made as plain data; nothing of the pickle is run. Errors
/// are INVALID_ARGUMENT or RESOURCE_EXHAUSTED, without file and offset, which
/// the caller adds.

namespace hearth::ingest {

/// Makes the values of a pickle and counts their memory; RESOURCE_EXHAUSTED
/// beyond the limits. Single-owner.
class PickleArena {
 public:
  PickleArena(uint64_t max_bytes, int64_t max_values)
      : bytes_left_(max_bytes), values_left_(max_values) {}

  absl::StatusOr<PickleValue*> New(decltype(PickleValue::data) data);

  /// Counts `count` bytes of a string or array before it is made.
  absl::Status Charge(uint64_t count);

  /// Hands over all values. REQUIRES: no value is made afterwards.
  PickleTree Release(const PickleValue* root);

 private:
  PickleTree tree_;
  uint64_t bytes_left_;
  int64_t values_left_;
};

/// The global `name` of `module`; INVALID_ARGUMENT unless it is on the
/// allow-list.
absl::StatusOr<PickleGlobal> FindGlobal(absl::string_view module,
                                        absl::string_view name);

/// REDUCE: the result of `callable` for `arguments`.
absl::StatusOr<PickleValue*> Call(PickleArena& arena,
                                  const PickleValue& callable,
                                  const PickleValue& arguments);

/// NEWOBJ: an object of class `type`, made without arguments.
absl::StatusOr<PickleValue*> Make(PickleArena& arena, const PickleValue& type,
                                  const PickleValue& arguments);

/// BUILD: applies `state` to `target`.
absl::Status Build(PickleArena& arena, PickleValue& target,
                   const PickleValue& state);

/// BINPERSID: the storage that torch names by the tuple `id`.
absl::StatusOr<PickleValue*> FindStorage(PickleArena& arena,
                                         const PickleValue& id);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_
