#ifndef HEARTH_ENGINE_STORE_MANIFEST_H_
#define HEARTH_ENGINE_STORE_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"

namespace hearth::store {

/// Rows `first` to `end` - 1.
struct RowRange {
  int64_t first = 0;
  int64_t end = 0;

  bool operator==(const RowRange&) const = default;
};

/// Bytes `begin` to `end` - 1.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// An array file of a dataset.
struct ArrayFile {
  /// Relative to the dataset's folder, or absolute where registered in place.
  std::string path;
  bool in_place = false;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  /// Bytes before the first element.
  uint64_t data_offset = 0;
  uint64_t file_size_bytes = 0;
  /// Modification time in nanoseconds since 1970, checked where in_place.
  int64_t modified_ns = 0;
  /// CRC32C of the bytes before data_offset.
  uint32_t header_crc32c = 0;
  /// Seeds the file's block checksums (FileId).
  uint64_t file_id = 0;
  /// Bytes covered by each checksum: 4 KiB for randomly read features, 64 KiB
  /// for streams. Blocks start at data_offset.
  uint32_t crc_block_bytes = 0;
  /// Name of the checksum file in the dataset's folder, with the little-endian
  /// CRC32C of each block (BlockCrc32c); and the CRC32C of that file.
  std::string crc_path;
  uint32_t crc_file_crc32c = 0;
  /// Of features in a shard: the rows that the file has. All else describes the
  /// whole array: the file lacks the bytes from data_offset on that are not
  /// KeptBytes. Absent: all rows.
  std::optional<RowRange> rows = {};

  /// The bytes of the array's data that the file has: of a shard, all blocks
  /// with a byte of its rows.
  ByteRange KeptBytes() const;
  /// Size of the file: file_size_bytes unless it is a shard.
  uint64_t StoredBytes() const;
};

/// Nodes of one type. An array with an empty path is absent.
struct NodeTypeEntry {
  std::string name;
  int64_t num_nodes = 0;
  ArrayFile features;
  /// Labels, in the format of `label_kind` (labels.h).
  ArrayFile labels;
  LabelKind label_kind = LabelKind::kClasses;
  /// Classes, labels a node may have, or targets; 0 without labels.
  int64_t label_width = 0;
  ArrayFile train;
  ArrayFile valid;
  ArrayFile test;
  /// The source's ids of the nodes, if they are not the nodes' numbers: int64
  /// [N], or as text, uint8 [bytes]: N ids with "\n" between them.
  ArrayFile ids;
  ArrayFile id_text;
};

/// Edges of one type, in CSC.
struct EdgeTypeEntry {
  /// "SOURCE:RELATION:DESTINATION", or any other unique name.
  std::string name;
  std::string source_type;
  std::string destination_type;
  int64_t num_edges = 0;
  ArrayFile indptr;
  ArrayFile indices;
};

/// Whether the labels are kMultiLabel and partial (labels.h).
bool HasPartialLabels(const NodeTypeEntry& type);

/// The rows of `all` that share `index` of `count` has: shares differ by one
/// row at most. REQUIRES: index < count.
RowRange ShareOfRows(int64_t all, int64_t index, int64_t count);

/// "rows 0 .. 2099999 of 4200000".
std::string DescribeRows(const RowRange& rows, int64_t all);

/// RELATION of a name "SOURCE:RELATION:DESTINATION"; the whole name of other
/// edge types.
std::string RelationOf(const EdgeTypeEntry& type);

/// The contents of a dataset's folder. Serialized as JSON with its own CRC32C.
struct Manifest {
  /// A newer major version is refused; a newer minor one is read.
  static constexpr int kMajorVersion = 1;
  static constexpr int kMinorVersion = 3;
  static constexpr char kFileName[] = "manifest.json";
  /// Longer files are refused: there are about 4 KiB for each type.
  static constexpr uint64_t kMaxFileBytes = 16 << 20;

  std::string name;
  /// 16 hexadecimal digits of a hash over the node and edge types and all
  /// checksums, but not over where files lie, names and times: equal for equal
  /// contents imported twice under one name. Plans are keyed by it.
  std::string fingerprint;
  /// Seconds since 1970, for display.
  int64_t created_unix_seconds = 0;
  std::vector<NodeTypeEntry> node_types;
  std::vector<EdgeTypeEntry> edge_types;
  /// Changes that the importer made to the source, in order, in words.
  std::vector<std::string> transforms;

  /// Whether nodes or edges are of several types.
  bool is_typed() const {
    return node_types.size() > 1 || edge_types.size() > 1;
  }

  /// Whether feature rows of some nodes are on other machines alone.
  bool is_sharded() const;

  /// All arrays that are present, in the order of the types.
  std::vector<const ArrayFile*> Arrays() const;

  /// Bytes of all files in the folder.
  uint64_t SizeBytes() const;
};

/// The fingerprint of a dataset with these types; `checksums` are the digests
/// of its checksum files.
std::string Fingerprint(const Manifest& manifest,
                        absl::Span<const std::string> checksums);

/// The manifest's file contents.
std::string SerializeManifest(const Manifest& manifest);

/// Parses a manifest's text. DATA_LOSS for a failed checksum or malformed text;
/// FAILED_PRECONDITION for a newer major version. `path` is for messages.
absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       const std::string& path);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_MANIFEST_H_
