#include "engine/store/dataset.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/io/block_device.h"
#include "engine/io/whole_file.h"
#include "engine/store/feature_rows.h"
#include "engine/store/stored_array.h"

namespace hearth::store {
namespace {

absl::Status DoesNotSpan(const std::string& path, const EdgeTypeEntry& entry) {
  return absl::DataLossError(absl::StrCat(path, ": indptr does not span the ",
                                          entry.num_edges, " edges"));
}

absl::Status CheckRowBytes(const std::string& path, int64_t row_bytes) {
  if (row_bytes <= UINT32_MAX) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": rows of ", row_bytes,
                   " bytes are longer than can be read row by row"));
}

class ArrayTopology final : public SingleTopology {
 public:
  static absl::StatusOr<std::unique_ptr<LoadedTopology>> Make(
      LoadedArray indptr, LoadedArray indices, const EdgeTypeEntry& entry,
      const std::string& path) {
    auto topology = std::unique_ptr<ArrayTopology>(
        new ArrayTopology(std::move(indptr), std::move(indices)));
    Topology view;
    view.indptr = topology->indptr_.As<int64_t>();
    if (entry.indices.dtype == DType::kInt32) {
      view.indices = topology->indices_.As<int32_t>();
    } else {
      view.indices = topology->indices_.As<int64_t>();
    }
    if (view.indptr.front() != 0 || view.num_edges() != entry.num_edges) {
      return DoesNotSpan(ArrayPath(path, entry.indptr), entry);
    }
    topology->SetView(view);
    return topology;
  }

  absl::Status status() const override {
    absl::Status status = indptr_.status();
    status.Update(indices_.status());
    return status;
  }

 private:
  ArrayTopology(LoadedArray indptr, LoadedArray indices)
      : indptr_(std::move(indptr)), indices_(std::move(indices)) {}

  const LoadedArray indptr_;
  const LoadedArray indices_;
};

// The topologies of all edge types of a heterograph.
class TypedTopology final : public LoadedTopology {
 public:
  explicit TypedTopology(const Manifest& manifest) : nodes_(manifest) {}

  // Adds the topology of the next edge type of the manifest.
  void Add(const Manifest& manifest, std::unique_ptr<LoadedTopology> topology) {
    relations_.push_back(RelationAt(manifest, nodes_, relations_.size()));
    relations_.back().topology = topology->view();
    topologies_.push_back(std::move(topology));
  }

  const Topology& view() const override {
    assert(topologies_.size() == 1);
    return topologies_.front()->view();
  }
  absl::Span<const Relation> relations() const override { return relations_; }
  const NodeSpace& nodes() const override { return nodes_; }

  absl::Status status() const override {
    absl::Status status;
    for (const auto& topology : topologies_) status.Update(topology->status());
    return status;
  }

 private:
  const NodeSpace nodes_;
  std::vector<std::unique_ptr<LoadedTopology>> topologies_;
  std::vector<Relation> relations_;
};

class ArrayFeatures final : public LoadedFeatures {
 public:
  ArrayFeatures(LoadedArray array, const ArrayFile& entry, std::string path)
      : array_(std::move(array)),
        path_(std::move(path)),
        data_offset_(entry.data_offset),
        num_rows_(entry.shape[0]),
        dim_(entry.shape[1]),
        dtype_(entry.dtype) {}

  const std::byte* rows() const override { return array_.bytes().data(); }
  int64_t num_rows() const override { return num_rows_; }
  int64_t dim() const override { return dim_; }
  DType dtype() const override { return dtype_; }
  absl::Status status() const override { return array_.status(); }
  std::string PlaceOf(int64_t row) const override {
    return absl::StrCat(
        path_, ": row ", row, " at byte ",
        data_offset_ + static_cast<uint64_t>(row * row_bytes()));
  }

 private:
  const LoadedArray array_;
  const std::string path_;
  const uint64_t data_offset_;
  const int64_t num_rows_;
  const int64_t dim_;
  const DType dtype_;
};

// The features of all node types of a heterograph.
class TypedFeatures final : public LoadedFeatures {
 public:
  explicit TypedFeatures(const Manifest& manifest)
      : nodes_(manifest), format_(CommonFormat(manifest)) {}

  // In the order of the types.
  void Add(std::unique_ptr<LoadedFeatures> features) {
    tables_.push_back(
        {.first_node = nodes_.First(tables_.size()),
         .num_rows = features->num_rows(),
         .format = {.dim = features->dim(), .dtype = features->dtype()},
         .rows = features->rows()});
    features_.push_back(std::move(features));
  }

  const std::byte* rows() const override { return nullptr; }
  int64_t num_rows() const override { return nodes_.num_nodes(); }
  int64_t dim() const override { return format_.dim; }
  DType dtype() const override { return format_.dtype; }
  absl::Span<const FeatureTable> tables() const override { return tables_; }
  absl::Status status() const override {
    absl::Status status;
    for (const auto& features : features_) status.Update(features->status());
    return status;
  }
  std::string PlaceOf(int64_t row) const override {
    const TypeId type = nodes_.TypeOf(row);
    return features_[type]->PlaceOf(row - nodes_.First(type));
  }

 private:
  const NodeSpace nodes_;
  const RowFormat format_;
  std::vector<std::unique_ptr<LoadedFeatures>> features_;
  std::vector<FeatureTable> tables_;
};

// The checksums of the rows of all node types.
class TypedRowCheck final : public io::RowCheck {
 public:
  explicit TypedRowCheck(const Manifest& manifest) : nodes_(manifest) {}

  // In the order of the types.
  void Add(std::unique_ptr<RowChecksums> checksums) {
    checksums_.push_back(std::move(checksums));
  }

  bool Matches(int64_t row, const std::byte* bytes) const override {
    const TypeId type = nodes_.TypeOf(row);
    return checksums_[type]->Matches(row - nodes_.First(type), bytes);
  }

 private:
  const NodeSpace nodes_;
  std::vector<std::unique_ptr<RowChecksums>> checksums_;
};

class FolderDataset final : public Dataset {
 public:
  FolderDataset(io::FileSystem& files, std::string path, Manifest manifest,
                VerificationRecord* record, std::shared_ptr<RemoteRows> remote)
      : files_(files),
        path_(std::move(path)),
        manifest_(std::move(manifest)),
        remote_(std::move(remote)),
        record_(record != nullptr ? *record : own_record_) {}

  const Manifest& manifest() const override { return manifest_; }
  const std::string& path() const override { return path_; }

  absl::Status CheckUnchanged() const override {
    for (const ArrayFile* file : manifest_.Arrays()) {
      HEARTH_RETURN_IF_ERROR(CheckArrayUnchanged(files_, path_, *file));
    }
    std::set<const ArrayFile*> verified;
    {
      absl::MutexLock lock(&mutex_);
      verified = verified_;
    }
    for (const ArrayFile* file : verified) {
      HEARTH_RETURN_IF_ERROR(VerifyOnce(*file, {}));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<LoadedTopology>> LoadTopology(
      TopologyResidency residency, const std::stop_token& stop,
      size_t edge_type) const override {
    const EdgeTypeEntry& entry = manifest_.edge_types[edge_type];
    HEARTH_ASSIGN_OR_RETURN(LoadedArray indptr,
                            LoadVerified(entry.indptr, residency.indptr, stop));
    HEARTH_ASSIGN_OR_RETURN(
        LoadedArray indices,
        LoadVerified(entry.indices, residency.indices, stop));
    if (residency.indices != Residency::kMemory && IndicesFitPageCache()) {
      indices.Prefetch(stop);
    }
    return ArrayTopology::Make(std::move(indptr), std::move(indices), entry,
                               path_);
  }

  absl::StatusOr<StoredTopology> OpenTopology(
      const io::BlockDeviceOptions& options, const std::stop_token& stop,
      size_t edge_type) const override {
    const EdgeTypeEntry& entry = manifest_.edge_types[edge_type];
    HEARTH_ASSIGN_OR_RETURN(
        LoadedArray indptr,
        LoadArray(files_, path_, entry.indptr, Residency::kMemory, stop));
    const absl::Span<const int64_t> rows = indptr.As<int64_t>();
    if (rows.front() != 0 || rows.back() != entry.num_edges) {
      return DoesNotSpan(ArrayPath(path_, entry.indptr), entry);
    }
    HEARTH_RETURN_IF_ERROR(VerifyOnce(entry.indices, stop));
    const std::string path = ArrayPath(path_, entry.indices);
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::BlockDevice> indices,
                            files_.OpenBlockDevice(path, options));
    HEARTH_RETURN_IF_ERROR(CheckArraySize(path, indices->size_bytes(),
                                          entry.indices.file_size_bytes));
    const auto index_bytes = static_cast<int>(SizeOf(entry.indices.dtype));
    StoredTopology topology =
        StoredTopology::Single(rows, {.path = path,
                                      .offset = entry.indices.data_offset,
                                      .index_bytes = index_bytes});
    topology.indices = std::move(indices);
    topology.layout = {.first_offset = entry.indices.data_offset,
                       .row_bytes = static_cast<uint32_t>(index_bytes),
                       .num_rows = entry.num_edges};
    topology.indptrs.push_back(std::move(indptr));
    return topology;
  }

  absl::StatusOr<std::unique_ptr<LoadedFeatures>> LoadFeatures(
      Residency residency, const std::stop_token& stop,
      size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    const ArrayFile& entry = type.features;
    if (entry.path.empty()) return Lacks(type, "features");
    HEARTH_ASSIGN_OR_RETURN(LoadedArray array,
                            LoadArray(files_, path_, entry, residency, stop));
    return std::make_unique<ArrayFeatures>(std::move(array), entry,
                                           ArrayPath(path_, entry));
  }

  absl::StatusOr<StoredFeatures> OpenFeatures(
      const io::BlockDeviceOptions& options, size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    const ArrayFile& entry = type.features;
    if (entry.path.empty()) return Lacks(type, "features");
    HEARTH_RETURN_IF_ERROR(CheckIsWhole(path_, entry));
    StoredFeatures features;
    features.dim = entry.shape[1];
    features.dtype = entry.dtype;
    const int64_t row_bytes = RowBytes(features.dim, features.dtype);
    const std::string path = ArrayPath(path_, entry);
    HEARTH_RETURN_IF_ERROR(CheckRowBytes(path, row_bytes));
    features.layout = {.first_offset = entry.data_offset,
                       .row_bytes = static_cast<uint32_t>(row_bytes),
                       .num_rows = entry.shape[0]};
    HEARTH_ASSIGN_OR_RETURN(features.device,
                            files_.OpenBlockDevice(path, options));
    HEARTH_RETURN_IF_ERROR(CheckArraySize(path, features.device->size_bytes(),
                                          entry.file_size_bytes));
    return features;
  }

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanFeatures(
      const std::stop_token& stop, size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    if (type.features.path.empty()) return Lacks(type, "features");
    HEARTH_RETURN_IF_ERROR(CheckIsWhole(path_, type.features));
    return OpenVerifiedFileForScan(files_, path_, type.features, stop);
  }

  absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanRows(
      const std::stop_token& stop, size_t node_type, const RowSet& wanted,
      int64_t first_row) const override {
    const ArrayFile& features = manifest_.node_types[node_type].features;
    if (!features.rows.has_value() || remote_ == nullptr) {
      return ScanFeatures(stop, node_type);
    }
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<RemoteRows::Reader> elsewhere,
                            remote_->Open(manifest_, node_type, stop));
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<io::ReadableFile> here,
        OpenVerifiedFileForScan(files_, path_, features, stop));
    return NewShardedRows(features, std::move(here), std::move(elsewhere),
                          wanted, first_row);
  }

  absl::StatusOr<std::unique_ptr<RowChecksums>> LoadRowChecksums(
      const std::stop_token& stop, size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    if (type.features.path.empty()) return Lacks(type, "features");
    HEARTH_RETURN_IF_ERROR(CheckIsWhole(path_, type.features));
    return RowChecksums::Load(files_, path_, type.features, stop);
  }

  absl::Status VerifyFeatures(const std::stop_token& stop,
                              size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    if (type.features.path.empty()) return Lacks(type, "features");
    HEARTH_RETURN_IF_ERROR(CheckIsWhole(path_, type.features));
    return VerifyOnce(type.features, stop);
  }

  absl::StatusOr<Labels> LoadLabels(size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    if (type.labels.path.empty()) return Lacks(type, "labels");
    switch (type.label_kind) {
      case LabelKind::kClasses: {
        HEARTH_ASSIGN_OR_RETURN(std::vector<int32_t> classes,
                                LoadValues<int32_t>(type.labels));
        return Labels::Classes(std::move(classes), type.label_width);
      }
      case LabelKind::kMultiLabel: {
        HEARTH_ASSIGN_OR_RETURN(std::vector<uint8_t> bits,
                                LoadValues<uint8_t>(type.labels));
        return Labels::MultiLabel(std::move(bits), type.num_nodes,
                                  type.label_width, HasPartialLabels(type));
      }
      case LabelKind::kTargets: {
        HEARTH_ASSIGN_OR_RETURN(std::vector<float> targets,
                                LoadValues<float>(type.labels));
        return Labels::Targets(std::move(targets), type.num_nodes,
                               type.label_width);
      }
    }
    return absl::InternalError("labels of no kind");
  }

  absl::StatusOr<Split> LoadSplit(size_t node_type) const override {
    const NodeTypeEntry& type = manifest_.node_types[node_type];
    Split split;
    HEARTH_ASSIGN_OR_RETURN(split.train, LoadValues<NodeId>(type.train));
    HEARTH_ASSIGN_OR_RETURN(split.valid, LoadValues<NodeId>(type.valid));
    HEARTH_ASSIGN_OR_RETURN(split.test, LoadValues<NodeId>(type.test));
    return split;
  }

 private:
  absl::Status Lacks(const NodeTypeEntry& type, absl::string_view what) const {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": nodes of type \"", type.name, "\" have no ", what));
  }

  // Whether the indices of all edge types fit into half of the available
  // memory, as page cache. A sampler asks for their pages one by one in random
  // order, each a read of its own: reading them all in order first is much
  // faster.
  bool IndicesFitPageCache() const {
    uint64_t bytes = 0;
    for (const EdgeTypeEntry& type : manifest_.edge_types) {
      bytes += type.indices.file_size_bytes;
    }
    return bytes <= std::min(MemoryCapacityBytes(), AvailableMemoryBytes()) / 2;
  }

  absl::StatusOr<LoadedArray> LoadVerified(const ArrayFile& array,
                                           Residency residency,
                                           const std::stop_token& stop) const {
    if (residency != Residency::kMemory) {
      HEARTH_RETURN_IF_ERROR(VerifyOnce(array, stop));
    }
    return LoadArray(files_, path_, array, residency, stop);
  }

  /// Reads the array against its checksums, unless it was verified since its
  /// file last changed.
  absl::Status VerifyOnce(const ArrayFile& array,
                          const std::stop_token& stop) const
      ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      verified_.insert(&array);
    }
    const std::string path = ArrayPath(path_, array);
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo before, files_.Stat(path));
    HEARTH_RETURN_IF_ERROR(
        CheckArraySize(path, before.size_bytes, array.file_size_bytes));
    if (record_.Holds(path, before)) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(ScanArray(
        files_, path_, array, stop,
        [](absl::Span<const std::byte>) { return absl::OkStatus(); }));
    record_.Add(path, before);
    return absl::OkStatus();
  }

  /// All values of an array, row by row; empty if the array is absent.
  template <typename T>
  absl::StatusOr<std::vector<T>> LoadValues(const ArrayFile& entry) const {
    if (entry.path.empty()) return std::vector<T>();
    HEARTH_ASSIGN_OR_RETURN(
        const LoadedArray array,
        LoadArray(files_, path_, entry, Residency::kMemory, {}));
    const absl::Span<const T> values = array.As<T>();
    return std::vector<T>(values.begin(), values.end());
  }

  io::FileSystem& files_;
  const std::string path_;
  const Manifest manifest_;
  const std::shared_ptr<RemoteRows> remote_;
  // The record to use if the caller gives none.
  VerificationRecord own_record_;
  VerificationRecord& record_;
  mutable absl::Mutex mutex_;
  // Arrays that were verified as a whole, to be verified again when their file
  // changes.
  mutable std::set<const ArrayFile*> verified_ ABSL_GUARDED_BY(mutex_);
};

bool IsHomogeneous(const Manifest& manifest) {
  return manifest.node_types.size() == 1 && manifest.edge_types.size() == 1;
}

// Table of the rows of node type `type`: their place in the type's file and
// among the rows of all types, which are handed out in `format`. REQUIRES: the
// type has features.
io::RowTable RowsOf(const Manifest& manifest, const NodeSpace& nodes,
                    size_t type, const RowFormat& format) {
  const NodeTypeEntry& entry = manifest.node_types[type];
  const RowFormat stored = StoredFormat(entry);
  return {.first_row = nodes.First(type),
          .num_rows = entry.num_nodes,
          .first_offset = entry.features.data_offset,
          .row_bytes = static_cast<uint32_t>(stored.row_bytes()),
          .convert = RowConversion(stored, format)};
}

}  // namespace

const FeatureTable& LoadedFeatures::TableOf(NodeId node) const {
  const absl::Span<const FeatureTable> all = tables();
  const auto after =
      std::upper_bound(all.begin() + 1, all.end(), node,
                       [](NodeId node, const FeatureTable& table) {
                         return node < table.first_node;
                       });
  return *(after - 1);
}

const std::byte* LoadedFeatures::row(NodeId node) const {
  if (tables().empty()) return rows() + node * row_bytes();
  return TableOf(node).row(node);
}

io::BlockDevice& StoredFeatures::LargestFile() const {
  const std::vector<io::BlockDevice*> files = device->Files();
  return **std::max_element(files.begin(), files.end(),
                            [](io::BlockDevice* a, io::BlockDevice* b) {
                              return a->size_bytes() < b->size_bytes();
                            });
}

size_t Dataset::target_type() const {
  if (target_.has_value()) return *target_;
  const std::vector<NodeTypeEntry>& types = manifest().node_types;
  for (size_t type = 0; type < types.size(); ++type) {
    if (!types[type].labels.path.empty() && !types[type].train.path.empty()) {
      return type;
    }
  }
  return 0;
}

absl::Status Dataset::ChooseTarget(absl::string_view name) {
  std::vector<absl::string_view> names;
  for (const NodeTypeEntry& type : manifest().node_types) {
    if (type.name == name) {
      target_ = names.size();
      return absl::OkStatus();
    }
    names.push_back(type.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dataset ", manifest().name, " has no node type \"", name,
                   "\", but ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::unique_ptr<LoadedTopology>> Dataset::LoadTopology(
    TopologyResidency residency, const std::stop_token& stop) const {
  if (IsHomogeneous(manifest())) return LoadTopology(residency, stop, 0);
  auto topology = std::make_unique<TypedTopology>(manifest());
  for (size_t type = 0; type < manifest().edge_types.size(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<LoadedTopology> one,
                            LoadTopology(residency, stop, type));
    topology->Add(manifest(), std::move(one));
  }
  return topology;
}

absl::StatusOr<StoredTopology> Dataset::OpenTopology(
    const io::BlockDeviceOptions& options, const std::stop_token& stop) const {
  if (IsHomogeneous(manifest())) return OpenTopology(options, stop, 0);
  if (manifest().edge_types.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": has no edges"));
  }
  StoredTopology topology;
  topology.nodes = NodeSpace(manifest());
  std::vector<std::unique_ptr<io::BlockDevice>> files;
  for (size_t type = 0; type < manifest().edge_types.size(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(StoredTopology one,
                            OpenTopology(options, stop, type));
    topology.relations.push_back(RelationAt(manifest(), topology.nodes, type));
    topology.relations.back().topology = one.relations.front().topology;
    topology.files.push_back(std::move(one.files.front()));
    topology.indptrs.push_back(std::move(one.indptrs.front()));
    files.push_back(std::move(one.indices));
  }
  JoinIndices(std::move(files), topology);
  return topology;
}

absl::StatusOr<std::unique_ptr<LoadedFeatures>> Dataset::LoadFeatures(
    Residency residency, const std::stop_token& stop) const {
  if (IsHomogeneous(manifest())) return LoadFeatures(residency, stop, 0);
  auto features = std::make_unique<TypedFeatures>(manifest());
  for (size_t type = 0; type < manifest().node_types.size(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<LoadedFeatures> one,
                            LoadFeatures(residency, stop, type));
    features->Add(std::move(one));
  }
  return features;
}

absl::StatusOr<StoredFeatures> Dataset::OpenFeatures(
    const io::BlockDeviceOptions& options) const {
  if (IsHomogeneous(manifest())) return OpenFeatures(options, 0);
  const NodeSpace nodes(manifest());
  const RowFormat format = CommonFormat(manifest());
  std::vector<std::unique_ptr<io::BlockDevice>> files;
  std::vector<io::RowTable> tables;
  for (size_t type = 0; type < nodes.num_types(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(StoredFeatures one, OpenFeatures(options, type));
    tables.push_back(RowsOf(manifest(), nodes, type, format));
    tables.back().first_offset += io::JoinedPartOffset(files.size());
    files.push_back(std::move(one.device));
  }
  return StoredFeatures{
      .device = io::NewJoinedDevice(std::move(files)),
      .layout = {.row_bytes = static_cast<uint32_t>(format.row_bytes()),
                 .num_rows = nodes.num_nodes(),
                 .tables = std::make_shared<const std::vector<io::RowTable>>(
                     std::move(tables))},
      .dim = format.dim,
      .dtype = format.dtype};
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> Dataset::ScanRows(
    const std::stop_token& stop, size_t node_type, const RowSet& /*wanted*/,
    int64_t /*first_row*/) const {
  return ScanFeatures(stop, node_type);
}

absl::StatusOr<ScannedFeatures> Dataset::ScanFeatures(
    const std::stop_token& stop) const {
  return Scan([&](size_t type) { return ScanFeatures(stop, type); });
}

absl::StatusOr<ScannedFeatures> Dataset::ScanRows(
    const RowSet& wanted, const std::stop_token& stop) const {
  const NodeSpace nodes(manifest());
  return Scan([&](size_t type) {
    return ScanRows(stop, type, wanted, nodes.First(type));
  });
}

absl::StatusOr<StoredFeatures> Dataset::LayOutFeatures() const {
  const RowFormat format = CommonFormat(manifest());
  HEARTH_RETURN_IF_ERROR(CheckRowBytes(path(), format.row_bytes()));
  StoredFeatures features;
  features.layout.row_bytes = static_cast<uint32_t>(format.row_bytes());
  features.layout.num_rows = NodeSpace(manifest()).num_nodes();
  features.dim = format.dim;
  features.dtype = format.dtype;
  return features;
}

absl::StatusOr<ScannedFeatures> Dataset::Scan(
    absl::FunctionRef<
        absl::StatusOr<std::unique_ptr<io::ReadableFile>>(size_t node_type)>
        open) const {
  const RowFormat format = CommonFormat(manifest());
  const NodeSpace nodes(manifest());
  std::vector<RowsOfFile> parts;
  for (size_t type = 0; type < nodes.num_types(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file, open(type));
    parts.push_back({.file = std::move(file),
                     .table = RowsOf(manifest(), nodes, type, format)});
  }
  const auto row_bytes = static_cast<uint32_t>(format.row_bytes());
  if (parts.size() == 1) {
    return ScannedFeatures{.file = std::move(parts[0].file),
                           .rows = {.first_offset = parts[0].table.first_offset,
                                    .row_bytes = row_bytes,
                                    .num_rows = nodes.num_nodes()}};
  }
  return ScannedFeatures{
      .file = NewJoinedRows(std::move(parts), row_bytes),
      .rows = {.row_bytes = row_bytes, .num_rows = nodes.num_nodes()}};
}

absl::StatusOr<std::unique_ptr<io::RowCheck>> Dataset::LoadRowChecksums(
    const std::stop_token& stop) const {
  if (IsHomogeneous(manifest())) return LoadRowChecksums(stop, 0);
  auto check = std::make_unique<TypedRowCheck>(manifest());
  for (size_t type = 0; type < manifest().node_types.size(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<RowChecksums> one,
                            LoadRowChecksums(stop, type));
    check->Add(std::move(one));
  }
  return check;
}

absl::Status Dataset::VerifyFeatures(const std::stop_token& stop) const {
  for (size_t type = 0; type < manifest().node_types.size(); ++type) {
    HEARTH_RETURN_IF_ERROR(VerifyFeatures(stop, type));
  }
  return absl::OkStatus();
}

// Labels without rows, and of width 0, where the target type has none.
absl::StatusOr<Labels> Dataset::LoadLabels() const {
  const size_t target = target_type();
  if (manifest().node_types[target].labels.path.empty()) return Labels();
  HEARTH_ASSIGN_OR_RETURN(Labels labels, LoadLabels(target));
  labels.set_first_node(NodeSpace(manifest()).First(target));
  return labels;
}

absl::StatusOr<Split> Dataset::LoadSplit() const {
  HEARTH_ASSIGN_OR_RETURN(Split split, LoadSplit(target_type()));
  const NodeId first = NodeSpace(manifest()).First(target_type());
  for (std::vector<NodeId>* part : {&split.train, &split.valid, &split.test}) {
    for (NodeId& node : *part) node += first;
  }
  return split;
}

absl::StatusOr<std::unique_ptr<Dataset>> Dataset::Open(
    io::FileSystem& files, std::string path, VerificationRecord* record,
    std::shared_ptr<RemoteRows> remote) {
  const std::string manifest_path = io::JoinPath(path, Manifest::kFileName);
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(files, manifest_path, Manifest::kMaxFileBytes));
  HEARTH_ASSIGN_OR_RETURN(Manifest manifest,
                          ParseManifest(text, manifest_path));
  auto dataset = std::make_unique<FolderDataset>(
      files, std::move(path), std::move(manifest), record, std::move(remote));
  HEARTH_RETURN_IF_ERROR(dataset->CheckUnchanged());
  return dataset;
}

}  // namespace hearth::store
