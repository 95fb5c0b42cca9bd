#ifndef HEARTH_ENGINE_INGEST_FORMATS_IGB_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IGB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// IGB and IGBH: the folder of a size, or processed/ in it. Each node type has
/// a folder with node_feat.npy of 1,024 columns; each edge type a folder such
/// as paper__cites__paper with edge_index.npy of shape (E, 2); paper/ has
/// node_label_19.npy and node_label_2K.npy. In the large sizes some .npy files
/// are float32 without a header. A graph of papers alone is homogeneous. Files
/// that IGB leaves out or cuts short are computed.

namespace hearth::ingest {

/// A random order of 0 .. size - 1 that a seed determines, without memory: each
/// position is computed by itself, by an alternating Feistel network over the
/// bits of an id (Black and Rogaway, "Ciphers with Arbitrary Finite Domains",
/// CT-RSA 2002) with Philox as its function. Immutable.
class IdPermutation {
 public:
  /// REQUIRES: size > 0.
  IdPermutation(int64_t size, uint64_t seed);

  /// The id at `position`. REQUIRES: 0 <= position < size.
  int64_t operator[](int64_t position) const;

 private:
  uint64_t Scramble(uint64_t id) const;

  uint64_t size_;
  uint64_t seed_;
  int low_bits_;
  int high_bits_;
};

/// A computed file of `count` int64 ids: first, first + 1, ...; with `order`,
/// the ids at those positions of it. `name` is its path in messages.
std::unique_ptr<io::ReadableFile> NewIdFile(std::string name, int64_t first,
                                            int64_t count,
                                            std::optional<IdPermutation> order);

/// The first `kept_bytes` of `file`, then bytes of all ones up to `size_bytes`:
/// -1 as integers, NaN as floats. REQUIRES: `file` has kept_bytes.
std::unique_ptr<io::ReadableFile> NewPaddedFile(
    std::unique_ptr<io::ReadableFile> file, uint64_t kept_bytes,
    uint64_t size_bytes);

/// Reason why `source` looks like an IGB folder; empty if it does not.
absl::StatusOr<std::string> RecognizeIgb(io::FileSystem& files,
                                         const std::string& source);

/// Opens an IGB folder. INVALID_ARGUMENT, or DATA_LOSS for a truncated file,
/// naming the file.
absl::StatusOr<SourceGraph> OpenIgb(ImportContext& context,
                                    const std::string& source,
                                    const IgbOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IGB_H_
