#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_ARENA_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_ARENA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_ARENA_H_
