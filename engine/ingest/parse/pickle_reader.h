#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_READER_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_READER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Bounds on the memory that a pickle takes; beyond them, RESOURCE_EXHAUSTED.
/// The defaults hold a numpy split of ten million nodes.
struct PickleLimits {
  /// Bytes of the pickle, and of all strings and arrays in it together.
  uint64_t max_bytes = uint64_t{256} << 20;
  int64_t max_values = int64_t{2} << 20;
  int64_t max_opcodes = int64_t{16} << 20;
  /// Values as counted by a walk that visits one used twice twice.
  int64_t max_walk = int64_t{16} << 20;
  /// Containers within one another.
  int max_depth = 64;
};

struct PickleResult {
  PickleTree tree;
  /// Offset after the pickle.
  uint64_t end = 0;
};

/// Reads the pickle at byte `begin` of `file` (protocols 2 to 5), without
/// running anything: opcodes that torch.save and numpy write make plain values,
/// and of all classes and functions exactly those listed in pickle_calls.cc are
/// understood, with the arguments that those writers give them.
/// INVALID_ARGUMENT for anything else, naming the global or opcode and its
/// offset; DATA_LOSS if the file ends before the pickle does. Messages begin
/// with the file's path. The values hold no cycles, and no more than `limits`
/// allow.
absl::StatusOr<PickleResult> ReadPickle(io::ReadableFile& file, uint64_t begin,
                                        const PickleLimits& limits);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_READER_H_
