#ifndef HEARTH_ENGINE_STORE_DATASET_H_
#define HEARTH_ENGINE_STORE_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "engine/io/row_reader.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/feature_rows.h"
#include "engine/store/graph.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/remote_rows.h"
#include "engine/store/stored_array.h"
#include "engine/store/topology.h"

namespace hearth::store {

/// The topology of one edge type, or of all, with the memory or mapping that
/// holds it. Thread-safe.
class LoadedTopology {
 public:
  virtual ~LoadedTopology() = default;

  /// The topology of the only edge type. REQUIRES: there is one edge type.
  virtual const Topology& view() const = 0;

  /// All edge types, in the order of the manifest, and the numbering of their
  /// nodes.
  virtual absl::Span<const Relation> relations() const = 0;
  virtual const NodeSpace& nodes() const = 0;

  /// Whether nodes or edges are of several types.
  bool is_typed() const {
    return relations().size() > 1 || nodes().num_types() > 1;
  }

  /// OK unless a mapped page could not be read: then as io::MappedFile::status.
  /// Ask after reading, before using what was read.
  virtual absl::Status status() const = 0;
};

/// The topology of one edge type among nodes of one type. A derived class holds
/// the arrays.
class SingleTopology : public LoadedTopology {
 public:
  const Topology& view() const final { return relation_.topology; }
  absl::Span<const Relation> relations() const final { return {&relation_, 1}; }
  const NodeSpace& nodes() const final { return nodes_; }

 protected:
  void SetView(const Topology& view) {
    relation_ = {.topology = view, .num_sources = view.num_nodes()};
    nodes_ = NodeSpace({view.num_nodes()});
  }

 private:
  Relation relation_;
  NodeSpace nodes_;
};

/// The rows of one node type, among the rows of all types.
struct FeatureTable {
  /// Number of the type's first node among the nodes of all types.
  NodeId first_node = 0;
  int64_t num_rows = 0;
  RowFormat format;
  /// First byte of the table's first row; the next row starts
  /// format.row_bytes() later.
  const std::byte* rows = nullptr;

  const std::byte* row(NodeId node) const {
    return rows + (node - first_node) * format.row_bytes();
  }
};

/// The rows of one feature matrix, or of the matrices of all node types,
/// reachable by pointer. Thread-safe.
class LoadedFeatures {
 public:
  virtual ~LoadedFeatures() = default;
  /// First byte of row 0; row r starts r * row_bytes() later. Rows of a file
  /// registered in place may be unaligned for their element type. REQUIRES:
  /// there is one table.
  virtual const std::byte* rows() const = 0;
  virtual int64_t num_rows() const = 0;
  /// Columns and element type of the rows as callers see them: the format
  /// common to all tables (CommonFormat).
  virtual int64_t dim() const = 0;
  virtual DType dtype() const = 0;

  /// One table for each node type, if there are several types (NodeSpace);
  /// empty: all rows lie one after the other from rows() on.
  virtual absl::Span<const FeatureTable> tables() const { return {}; }

  /// The table of the row of `node`. REQUIRES: tables() is not empty.
  const FeatureTable& TableOf(NodeId node) const;

  /// First byte of the row of `node`.
  const std::byte* row(NodeId node) const;
  /// As LoadedTopology::status.
  virtual absl::Status status() const = 0;
  /// Place of a row for errors: "PATH: row 7 at byte 7680".
  virtual std::string PlaceOf(int64_t row) const = 0;
  int64_t row_bytes() const { return RowBytes(dim(), dtype()); }
};

/// One feature matrix, or the matrices of all node types, opened for reading
/// row by row. Movable.
struct StoredFeatures {
  /// Null after Dataset::LayOutFeatures.
  std::unique_ptr<io::BlockDevice> device;
  io::RowLayout layout;
  /// The format in which rows are handed out (CommonFormat).
  int64_t dim = 0;
  DType dtype = DType::kFloat32;

  /// The largest of the files, where a probe finds the widest range to read.
  io::BlockDevice& LargestFile() const;
};

/// The rows of all node types as one file, to be read from one end to the
/// other, and their layout in it. Movable.
struct ScannedFeatures {
  std::unique_ptr<io::ReadableFile> file;
  io::RowLayout rows;
};

/// The nodes of each part of a split, ascending (the import sorts them).
struct Split {
  std::vector<NodeId> train;
  std::vector<NodeId> valid;
  std::vector<NodeId> test;
};

/// One imported graph: a folder described by its manifest. Loads arrays on
/// demand; holds nothing big itself. Thread-safe. Methods with an index of a
/// type load the arrays of that type of the manifest; REQUIRES: the manifest
/// has the type.
class Dataset {
 public:
  /// Opens the folder `path`, checking the manifest and that every file has the
  /// size (and, registered in place, the modification time and header) that it
  /// had at import. NOT_FOUND without a manifest; DATA_LOSS for a damaged one;
  /// FAILED_PRECONDITION if a file has changed since. Errors name the file.
  /// `record`, if given, must outlive the dataset: files that it holds are not
  /// verified again. `remote` has the rows that a shard lacks; null = they
  /// cannot be had, and functions that give features are FAILED_PRECONDITION
  /// for a shard. With it, ScanRows gives them.
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(
      io::FileSystem& files, std::string path,
      VerificationRecord* record = nullptr,
      std::shared_ptr<RemoteRows> remote = nullptr);
  virtual ~Dataset() = default;

  virtual const Manifest& manifest() const = 0;

  /// Path of the dataset's folder.
  virtual const std::string& path() const = 0;

  /// Repeats Open's check of the files, and verifies files again that were
  /// verified once and have changed since (DATA_LOSS). Cheap if no file has
  /// changed: called before and after each epoch.
  virtual absl::Status CheckUnchanged() const = 0;

  /// The topology of an edge type. Its checksums are verified: as it is read
  /// into memory, or once before it is mapped; CANCELLED after a stop
  /// meanwhile. Mapped indices that take at most half of the available memory
  /// are read into the page cache.
  virtual absl::StatusOr<std::unique_ptr<LoadedTopology>> LoadTopology(
      TopologyResidency residency, const std::stop_token& stop,
      size_t edge_type) const = 0;

  /// The topology of an edge type, with the indices opened for reading; nodes
  /// are those of its source and destination type. FAILED_PRECONDITION if a
  /// file has another size than at import.
  virtual absl::StatusOr<StoredTopology> OpenTopology(
      const io::BlockDeviceOptions& options, const std::stop_token& stop,
      size_t edge_type) const = 0;

  /// The features of a node type; FAILED_PRECONDITION if it has none. Reading
  /// into memory verifies the checksums, and is CANCELLED after a stop; a
  /// mapping is not verified.
  virtual absl::StatusOr<std::unique_ptr<LoadedFeatures>> LoadFeatures(
      Residency residency, const std::stop_token& stop,
      size_t node_type) const = 0;

  /// The features of a node type, opened for reading rows. Nothing is read or
  /// verified. FAILED_PRECONDITION if the type has none, or the file has
  /// another size than at import.
  virtual absl::StatusOr<StoredFeatures> OpenFeatures(
      const io::BlockDeviceOptions& options, size_t node_type) const = 0;

  /// The features of a node type, opened for reading from one end to the other,
  /// each block against its checksum. CANCELLED after a stop while the file is
  /// opened.
  virtual absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanFeatures(
      const std::stop_token& stop, size_t node_type) const = 0;

  /// ScanFeatures for the rows of `wanted`, in which the type's first row is
  /// number `first_row`, and which outlives the file; a shard gives NaN for
  /// others. Errors also as of RemoteRows.
  virtual absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanRows(
      const std::stop_token& stop, size_t node_type, const RowSet& wanted,
      int64_t first_row) const;

  /// The row checksums of a node type's features. Errors as of
  /// RowChecksums::Load.
  virtual absl::StatusOr<std::unique_ptr<RowChecksums>> LoadRowChecksums(
      const std::stop_token& stop, size_t node_type) const = 0;

  /// Verifies the features of a node type as a whole, once, for readers that do
  /// not check rows as they read them. DATA_LOSS naming file and block;
  /// CANCELLED.
  virtual absl::Status VerifyFeatures(const std::stop_token& stop,
                                      size_t node_type) const = 0;

  /// The labels of a node type. Checksums are verified.
  virtual absl::StatusOr<Labels> LoadLabels(size_t node_type) const = 0;

  /// The split of a node type, empty if it has none. Checksums are verified.
  virtual absl::StatusOr<Split> LoadSplit(size_t node_type) const = 0;

  /// The functions above for the whole graph: nodes of all types are numbered
  /// by NodeSpace, and rows of all types come in CommonFormat.
  absl::StatusOr<std::unique_ptr<LoadedTopology>> LoadTopology(
      TopologyResidency residency, const std::stop_token& stop = {}) const;
  absl::StatusOr<StoredTopology> OpenTopology(
      const io::BlockDeviceOptions& options,
      const std::stop_token& stop = {}) const;
  absl::StatusOr<std::unique_ptr<LoadedFeatures>> LoadFeatures(
      Residency residency, const std::stop_token& stop = {}) const;
  absl::StatusOr<StoredFeatures> OpenFeatures(
      const io::BlockDeviceOptions& options) const;
  absl::StatusOr<std::unique_ptr<io::RowCheck>> LoadRowChecksums(
      const std::stop_token& stop) const;
  absl::Status VerifyFeatures(const std::stop_token& stop) const;
  /// Labels and split of the target type.
  absl::StatusOr<Labels> LoadLabels() const;
  absl::StatusOr<Split> LoadSplit() const;

  absl::StatusOr<ScannedFeatures> ScanFeatures(
      const std::stop_token& stop = {}) const;
  absl::StatusOr<ScannedFeatures> ScanRows(const RowSet& wanted,
                                           const std::stop_token& stop) const;

  /// What OpenFeatures({}) tells of the rows, without a device; of shards, too.
  /// REQUIRES: all node types have features. INVALID_ARGUMENT for rows that are
  /// too long to be read one by one.
  absl::StatusOr<StoredFeatures> LayOutFeatures() const;

  /// Index of the target type, whose labels are predicted: the chosen type, or
  /// else the first type with labels and training nodes, or else the first
  /// type.
  size_t target_type() const;

  /// Chooses the target type by name. INVALID_ARGUMENT if there is no such
  /// type. Call before anything is loaded; not thread-safe.
  absl::Status ChooseTarget(absl::string_view name);

 private:
  absl::StatusOr<ScannedFeatures> Scan(
      absl::FunctionRef<
          absl::StatusOr<std::unique_ptr<io::ReadableFile>>(size_t node_type)>
          open) const;

  std::optional<size_t> target_;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_DATASET_H_
