#ifndef HEARTH_SERVER_STORAGE_DATASET_CATALOG_H_
#define HEARTH_SERVER_STORAGE_DATASET_CATALOG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "hearth/v1/datasets.pb.h"
#include "server/storage/data_dir.h"
#include "server/storage/disk_space.h"

namespace hearth::server {

/// The datasets in the data directory, read from their manifests. It does not
/// decide who may use or delete them (see admission.h). Thread-safe.
class DatasetCatalog {
 public:
  /// Both must outlive the catalog.
  DatasetCatalog(io::FileSystem& files, const DataDir& data_dir)
      : files_(files), data_dir_(data_dir) {}

  /// All datasets, by name. One whose manifest cannot be read is logged and
  /// left out.
  absl::StatusOr<std::vector<v1::Dataset>> List() const;

  /// Number of datasets.
  absl::StatusOr<int> Count() const;

  /// The dataset of this name. NOT_FOUND for an unknown one, listing those
  /// there are; DATA_LOSS for a damaged manifest.
  absl::StatusOr<v1::Dataset> Get(const std::string& name) const;

  /// The same with the statistics that the import counted, where it did.
  absl::StatusOr<v1::Dataset> GetWithStatistics(const std::string& name) const;

  /// Throws a dataset's folder away. NOT_FOUND as Get.
  absl::Status Delete(const std::string& name, Trash& trash) const;

 private:
  absl::StatusOr<std::vector<std::string>> Names() const;
  absl::Status Unknown(const std::string& name) const;

  io::FileSystem& files_;
  const DataDir& data_dir_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DATASET_CATALOG_H_
