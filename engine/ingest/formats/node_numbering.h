#ifndef HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_
#define HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/io/file_system.h"

/// Relabeling: numbers for nodes that a source names by ids of any kind. Ids
/// are sorted in tables that fit half of the memory limit, then merged; the
/// numbers do not depend on the limit.

namespace hearth::ingest {

/// Most bytes of the id of a node.
inline constexpr size_t kMaxIdBytes = 1024;

/// Set of ids, numbered 0, 1, 2, ... in the order of Add, within a memory
/// budget. An id is a string of bytes. Single-owner.
class IdTable {
 public:
  /// Has memory for at least one edge, whatever the budget.
  explicit IdTable(uint64_t budget_bytes);
  IdTable(const IdTable&) = delete;
  IdTable& operator=(const IdTable&) = delete;

  /// Whether both ends of one more edge fit, however long they are.
  bool HasRoom() const;

  /// Returns the number of `id`, which may be new. REQUIRES: at most
  /// kMaxIdBytes; HasRoom before each pair of calls.
  uint32_t Add(absl::string_view id);

  size_t size() const { return ids_.size(); }
  absl::string_view id(uint32_t number) const { return ids_[number]; }

  /// Numbers of all ids, in ascending order of the ids' bytes.
  std::vector<uint32_t> Sorted() const;

  /// Removes all ids.
  void Clear();

 private:
  // The set holds numbers; an id is looked up through the ids of the numbers.
  struct Hash {
    using is_transparent = void;
    size_t operator()(absl::string_view id) const {
      return absl::Hash<absl::string_view>()(id);
    }
    size_t operator()(uint32_t number) const { return (*this)((*ids)[number]); }
    const std::vector<absl::string_view>* ids;
  };
  struct Equal {
    using is_transparent = void;
    absl::string_view Of(absl::string_view id) const { return id; }
    absl::string_view Of(uint32_t number) const { return (*ids)[number]; }
    template <typename A, typename B>
    bool operator()(A a, B b) const {
      return Of(a) == Of(b);
    }
    const std::vector<absl::string_view>* ids;
  };

  const size_t text_bytes_;
  const size_t max_ids_;
  /// Bytes of the ids. Never moved.
  const std::unique_ptr<char[]> text_;
  size_t used_bytes_ = 0;
  std::vector<absl::string_view> ids_;
  absl::flat_hash_set<uint32_t, Hash, Equal> numbers_;
};

/// A run in a file: the distinct ids of consecutive edges, ascending, each with
/// its number in the table that it comes from.
struct IdRun {
  int64_t num_ids = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  /// CRC32C of the run's bytes.
  uint32_t crc32c = 0;
};

/// Least buffer of an IdRunReader.
inline constexpr size_t kMinRunBufferBytes = kMaxIdBytes + 8;

/// Writes runs to one scratch file, one after another. Single-owner.
class IdRunWriter {
 public:
  static absl::StatusOr<std::unique_ptr<IdRunWriter>> Create(
      ImportContext& context);

  /// Writes the ids of `table` as the next run.
  absl::Status Write(const IdTable& table);

  /// Closes the file after the last run. To be called once.
  absl::Status Close() { return file_->Close(); }

  const std::vector<IdRun>& runs() const { return runs_; }
  const std::string& path() const { return path_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  IdRunWriter(std::string path, std::unique_ptr<io::WritableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Flush(IdRun& run);

  const std::string path_;
  const std::unique_ptr<io::WritableFile> file_;
  std::vector<std::byte> buffer_;
  std::vector<IdRun> runs_;
  uint64_t size_bytes_ = 0;
};

/// Reads the ids of one run in order. Single-owner.
class IdRunReader {
 public:
  /// `file` must outlive this. REQUIRES: buffer_bytes >= kMinRunBufferBytes.
  IdRunReader(io::ReadableFile& file, const IdRun& run, size_t buffer_bytes);

  /// Goes to the next id; false at the end. DATA_LOSS if the run is no longer
  /// as written.
  absl::StatusOr<bool> Next();

  /// The current id; valid until the next call of Next.
  absl::string_view id() const { return id_; }
  uint32_t number() const { return number_; }

 private:
  absl::Status Fill();
  absl::Status Damaged() const;

  io::ReadableFile* file_;
  IdRun run_;
  size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  /// Offset in the buffer of the first byte after the current id.
  size_t begin_ = 0;
  uint64_t bytes_read_ = 0;
  uint32_t crc32c_ = 0;
  absl::string_view id_;
  uint32_t number_ = 0;
};

/// A scratch file with one map per run, from numbers in the run's table to
/// nodes.
struct NodeMaps {
  struct Extent {
    int64_t num_ids = 0;
    uint64_t offset = 0;
    /// CRC32C of the map's bytes.
    uint32_t crc32c = 0;
  };
  std::string path;
  std::vector<Extent> extents;
  /// Number of distinct ids in all runs.
  int64_t num_nodes = 0;
};

/// Bytes of an entry of a map in its file.
inline constexpr uint64_t kNodeMapEntryBytes = 16;

/// Most runs that can be merged in half of the memory limit, 2 KiB each.
size_t MaxRunsToMerge(const ImportContext& context);

/// Merges runs: numbers the nodes 0, 1, 2, ... in ascending order of their ids,
/// and calls `visit` with each id in that order. Advances the context's phase
/// by the bytes of the runs. DATA_LOSS if a run is no longer as written.
/// REQUIRES: at most MaxRunsToMerge runs.
absl::StatusOr<NodeMaps> MergeIdRuns(
    ImportContext& context, const IdRunWriter& runs,
    absl::FunctionRef<absl::Status(absl::string_view id)> visit);

/// Sets `nodes` to the map of run `run`: the node for each number in the run's
/// table. DATA_LOSS if the map is no longer as written.
absl::Status LoadNodeMap(io::ReadableFile& file, const NodeMaps::Extent& extent,
                         std::vector<int64_t>& nodes);

/// Edges between numbered nodes, and the nodes' ids in the source.
struct NumberedEdges {
  int64_t num_nodes = 0;
  std::unique_ptr<EdgeSource> edges;
  /// Ids of the nodes, in the order of the nodes: int64 [num_nodes], or text as
  /// uint8 [bytes] with "\n" between ids.
  std::unique_ptr<ArrayReader> ids;
};

/// Numbers the nodes of edges between ids 0, 1, 2, ... in ascending order of
/// the ids, for any memory limit. Consecutive edges share a table of ids until
/// it fills half of the limit, and are stored with their ids' numbers in that
/// table; at the end the ids of all tables are merged. Takes 8 to 16 bytes of
/// scratch files per edge, twice, and up to 1 KiB per id of each table.
/// Single-owner.
class NodeNumbering {
 public:
  enum class IdKind { kNumbers, kText };

  /// `source` is the path of the file that the ids come from, for messages.
  static absl::StatusOr<std::unique_ptr<NodeNumbering>> Create(
      ImportContext& context, IdKind kind, std::string source);

  /// Adds an edge. REQUIRES: kind is kNumbers.
  absl::Status Add(int64_t source, int64_t destination);

  /// Adds an edge between ids of text, which are ordered by their bytes.
  /// RESOURCE_EXHAUSTED, with the numbers, if there are more tables than can be
  /// merged. REQUIRES: kind is kText, and ids have 1 .. kMaxIdBytes bytes
  /// without line feeds.
  absl::Status Add(absl::string_view source, absl::string_view destination);

  int64_t num_edges() const { return local_edges_->num_edges(); }

  /// Numbers the nodes. To be called once.
  absl::StatusOr<NumberedEdges> Finish();

 private:
  NodeNumbering(ImportContext& context, IdKind kind, std::string source)
      : context_(context), kind_(kind), source_(std::move(source)) {}

  absl::Status EndTable();
  absl::Status CheckSpace() const;
  absl::StatusOr<NodeMaps> Merge(NumberedEdges& numbered);
  absl::StatusOr<std::unique_ptr<EdgeSource>> Renumber(const NodeMaps& maps);

  ImportContext& context_;
  const IdKind kind_;
  const std::string source_;
  std::unique_ptr<IdTable> table_;
  std::unique_ptr<IdRunWriter> runs_;
  /// Edges between numbers of the table at the time of the edge.
  std::unique_ptr<EdgeSpool> local_edges_;
  /// Number of edges at the end of each table.
  std::vector<int64_t> edge_ends_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_
