#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_READER_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_READER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Limits on the memory that a pickle may take; RESOURCE_EXHAUSTED beyond them.
/// The defaults suffice for a numpy split of ten million nodes.
struct PickleLimits {
  /// Bytes of the pickle, and bytes of all its strings and arrays together.
  uint64_t max_bytes = uint64_t{256} << 20;
  int64_t max_values = int64_t{2} << 20;
  int64_t max_opcodes = int64_t{16} << 20;
  /// Values that a walk over the tree visits: a value that is used twice counts
  /// twice.
  int64_t max_walk = int64_t{16} << 20;
  /// Nesting of containers.
  int max_depth = 64;
};

struct PickleResult {
  PickleTree tree;
  /// Offset in the file after the pickle.
  uint64_t end = 0;
};

/// Reads the pickle at byte `begin` of `file` (protocols 2 to 5) without
/// running anything: the opcodes of torch.save and numpy make plain values, and
/// only the classes and functions listed in pickle_calls.cc are understood,
/// with the arguments that these writers give them. INVALID_ARGUMENT for
/// anything else, naming the global or opcode and its offset; DATA_LOSS if the
/// file ends before the pickle. Messages begin with the path of the file. The
/// values have no cycles and stay within `limits`.
absl::StatusOr<PickleResult> ReadPickle(io::ReadableFile& file, uint64_t begin,
                                        const PickleLimits& limits);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_READER_H_
