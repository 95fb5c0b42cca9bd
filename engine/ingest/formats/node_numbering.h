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

namespace hearth::ingest {

/// Longest id of a node, in bytes.
inline constexpr size_t kMaxIdBytes = 1024;

/// The distinct ids among those that are added, numbered 0, 1, 2, ... as they
/// come, within a bound of memory. An id is a string of bytes. Single-owner.
class IdTable {
 public:
  /// Has room for one edge at least, whatever the budget.
  explicit IdTable(uint64_t budget_bytes);
  IdTable(const IdTable&) = delete;
  IdTable& operator=(const IdTable&) = delete;

  /// Whether both ends of one more edge fit, however long.
  bool HasRoom() const;

  /// The number of `id`, new or not. REQUIRES: HasRoom before the first of two
  /// calls; at most kMaxIdBytes.
  uint32_t Add(absl::string_view id);

  size_t size() const { return ids_.size(); }
  absl::string_view id(uint32_t number) const { return ids_[number]; }

  /// The numbers of all ids, in ascending order of the ids' bytes.
  std::vector<uint32_t> Sorted() const;

  /// Forgets all ids.
  void Clear();

 private:
  // The set holds numbers alone; ids are looked up by what they stand for.
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
  /// Where the ids lie. Never moved.
  const std::unique_ptr<char[]> text_;
  size_t used_bytes_ = 0;
  std::vector<absl::string_view> ids_;
  absl::flat_hash_set<uint32_t, Hash, Equal> numbers_;
};

/// Where a run lies in its file: the distinct ids of consecutive edges,
/// ascending, each with its number in the table they come from.
struct IdRun {
  int64_t num_ids = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  /// CRC32C of its bytes.
  uint32_t crc32c = 0;
};

/// Least buffer for an IdRunReader.
inline constexpr size_t kMinRunBufferBytes = kMaxIdBytes + 8;

/// Writes runs to one scratch file, one after another. Single-owner.
class IdRunWriter {
 public:
  static absl::StatusOr<std::unique_ptr<IdRunWriter>> Create(
      ImportContext& context);

  /// The ids of `table` are the next run.
  absl::Status Write(const IdTable& table);

  /// To be called once, after the last run.
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

/// The ids of one run, one after another. Single-owner.
class IdRunReader {
 public:
  /// `file` must outlive it. REQUIRES: buffer_bytes >= kMinRunBufferBytes.
  IdRunReader(io::ReadableFile& file, const IdRun& run, size_t buffer_bytes);

  /// Goes to the next id; false at the end. DATA_LOSS if the run is not what
  /// was written.
  absl::StatusOr<bool> Next();

  /// Valid until the next call of Next.
  absl::string_view id() const { return id_; }
  uint32_t number() const { return number_; }

 private:
  absl::Status Fill();
  absl::Status Damaged() const;

  io::ReadableFile* file_;
  IdRun run_;
  size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  /// The part of the buffer that was not given out yet begins here.
  size_t begin_ = 0;
  uint64_t bytes_read_ = 0;
  uint32_t crc32c_ = 0;
  absl::string_view id_;
  uint32_t number_ = 0;
};

/// For every run, the nodes that the ids of its table are: in one scratch file.
struct NodeMaps {
  struct Extent {
    int64_t num_ids = 0;
    uint64_t offset = 0;
    /// CRC32C of its bytes.
    uint32_t crc32c = 0;
  };
  std::string path;
  std::vector<Extent> extents;
  /// Distinct ids in all runs.
  int64_t num_nodes = 0;
};

/// Bytes of an id in a map's file.
inline constexpr uint64_t kNodeMapEntryBytes = 16;

/// How many runs can be merged in half of the memory limit: 2 KiB each.
size_t MaxRunsToMerge(const ImportContext& context);

/// Merges runs: nodes are numbered 0, 1, 2, ... in ascending order of their
/// ids, and `visit` is called with each id in that order. Advances the
/// context's phase by the bytes of the runs. DATA_LOSS if they are not those
/// that were written. REQUIRES: at most MaxRunsToMerge of them.
absl::StatusOr<NodeMaps> MergeIdRuns(
    ImportContext& context, const IdRunWriter& runs,
    absl::FunctionRef<absl::Status(absl::string_view id)> visit);

/// Makes `nodes` the node of each id of the table that became run `run`, by
/// the id's number there. DATA_LOSS if the map is not what was written.
absl::Status LoadNodeMap(io::ReadableFile& file, const NodeMaps::Extent& extent,
                         std::vector<int64_t>& nodes);

/// Edges between numbered nodes, and what the nodes were called.
struct NumberedEdges {
  int64_t num_nodes = 0;
  std::unique_ptr<EdgeSource> edges;
  /// int64 [num_nodes], or uint8 [bytes]: the ids with "\n" between them.
  std::unique_ptr<ArrayReader> ids;
};

/// Numbers the nodes of edges between ids: 0, 1, 2, ... in ascending order of
/// the ids, whatever the memory limit. Edges that come one after another share
/// a table of ids for as long as it fits half of the limit, and are kept with
/// the ids' numbers in it; then the tables' ids are merged. Takes 8 to 16 bytes
/// of scratch an edge, twice, and up to 1 KiB for each id of each table.
/// Single-owner.
class NodeNumbering {
 public:
  enum class IdKind { kNumbers, kText };

  /// `source` is the file that the ids come from, for messages.
  static absl::StatusOr<std::unique_ptr<NodeNumbering>> Create(
      ImportContext& context, IdKind kind, std::string source);

  /// The next edge. REQUIRES: kind is kNumbers.
  absl::Status Add(int64_t source, int64_t destination);

  /// The same of kText, in the order of their bytes. REQUIRES: ids of 1 ..
  /// kMaxIdBytes bytes without line feeds. RESOURCE_EXHAUSTED, with the
  /// numbers, if there are more tables than can be merged at a time.
  absl::Status Add(absl::string_view source, absl::string_view destination);

  int64_t num_edges() const { return local_edges_->num_edges(); }

  /// To be called once.
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
  /// Ends are numbers in the table of the edge's time.
  std::unique_ptr<EdgeSpool> local_edges_;
  /// How many edges there were when each table ended.
  std::vector<int64_t> edge_ends_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_NODE_NUMBERING_H_
