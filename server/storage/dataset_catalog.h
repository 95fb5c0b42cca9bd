#ifndef HEARTH_SERVER_STORAGE_DATASET_CATALOG_H_
#define HEARTH_SERVER_STORAGE_DATASET_CATALOG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "hearth/v1/datasets.pb.h"

namespace hearth::server {

class DataDir;
class Trash;

/// Datasets in the data directory, read from their manifests. Admission decides
/// who may use or delete them. Thread-safe.
class DatasetCatalog {
 public:
  /// `files` and `data_dir` must outlive the catalog.
  DatasetCatalog(io::FileSystem& files, const DataDir& data_dir)
      : files_(files), data_dir_(data_dir) {}

  /// All datasets, by name. A dataset whose manifest cannot be read is logged
  /// and left out.
  absl::StatusOr<std::vector<v1::Dataset>> List() const;

  /// Number of datasets.
  absl::StatusOr<int> Count() const;

  /// Dataset `name`. NOT_FOUND, listing the known names, for an unknown one;
  /// DATA_LOSS for a damaged manifest.
  absl::StatusOr<v1::Dataset> Get(const std::string& name) const;

  /// Dataset `name`, with the statistics of its import where there are any;
  /// errors as Get.
  absl::StatusOr<v1::Dataset> GetWithStatistics(const std::string& name) const;

  /// Throws the dataset's folder away. NOT_FOUND as Get.
  absl::Status Delete(const std::string& name, Trash& trash) const;

 private:
  absl::StatusOr<std::vector<std::string>> Names() const;
  absl::Status Unknown(const std::string& name) const;

  io::FileSystem& files_;
  const DataDir& data_dir_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_DATASET_CATALOG_H_
