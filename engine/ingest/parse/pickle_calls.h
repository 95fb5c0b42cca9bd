#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_CALLS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/pickle_arena.h"
#include "engine/ingest/parse/pickle_value.h"

/// Meanings of a pickle's classes and functions: each is a name on a list, and
/// its result is made as plain data. Errors (INVALID_ARGUMENT,
/// RESOURCE_EXHAUSTED) leave file and offset to the caller.

namespace hearth::ingest {

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
