#include "server/storage/dataset_catalog.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/io/whole_file.h"
#include "engine/store/manifest.h"
#include "server/log.h"
#include "server/mapping/report_mapping.h"
#include "server/mapping/request_checks.h"
#include "server/storage/data_dir.h"
#include "server/storage/disk_space.h"

namespace hearth::server {
namespace {

constexpr uint64_t kMaxManifestBytes = 16 << 20;
// Number of names that an error message lists.
constexpr size_t kMaxNamesListed = 20;

}  // namespace

absl::StatusOr<std::vector<std::string>> DatasetCatalog::Names() const {
  HEARTH_ASSIGN_OR_RETURN(std::vector<std::string> names,
                          files_.List(data_dir_.DatasetsPath()));
  std::erase_if(names,
                [](const std::string& name) { return !IsValidName(name); });
  return names;
}

absl::StatusOr<int> DatasetCatalog::Count() const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  return static_cast<int>(names.size());
}

absl::StatusOr<std::vector<v1::Dataset>> DatasetCatalog::List() const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  std::vector<v1::Dataset> datasets;
  for (const std::string& name : names) {
    absl::StatusOr<v1::Dataset> dataset = Get(name);
    if (dataset.ok()) {
      datasets.push_back(*std::move(dataset));
    } else {
      LogWarning("dataset ", name,
                 " cannot be read: ", dataset.status().ToString());
    }
  }
  return datasets;
}

absl::Status DatasetCatalog::Unknown(const std::string& name) const {
  HEARTH_ASSIGN_OR_RETURN(std::vector<std::string> names, Names());
  std::string known = "none has been imported yet";
  if (!names.empty()) {
    const size_t more = names.size() - std::min(names.size(), kMaxNamesListed);
    names.resize(names.size() - more);
    known = absl::StrCat("there are: ", absl::StrJoin(names, ", "),
                         more > 0 ? absl::StrCat(" and ", more, " more") : "");
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no dataset \"", absl::Utf8SafeCEscape(name), "\"; ", known));
}

absl::StatusOr<v1::Dataset> DatasetCatalog::Get(const std::string& name) const {
  if (!IsValidName(name)) return Unknown(name);
  const std::string folder = data_dir_.DatasetPath(name);
  if (absl::IsNotFound(files_.Stat(folder).status())) return Unknown(name);
  const std::string path = io::JoinPath(folder, store::Manifest::kFileName);
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          io::ReadWholeFile(files_, path, kMaxManifestBytes));
  HEARTH_ASSIGN_OR_RETURN(const store::Manifest manifest,
                          store::ParseManifest(text, path));
  v1::Dataset dataset = ToDataset(manifest);
  // Users know the dataset by its folder's name.
  dataset.set_name(name);
  return dataset;
}

absl::StatusOr<v1::Dataset> DatasetCatalog::GetWithStatistics(
    const std::string& name) const {
  HEARTH_ASSIGN_OR_RETURN(v1::Dataset dataset, Get(name));
  HEARTH_ASSIGN_OR_RETURN(
      const std::optional<ingest::DatasetStatistics> statistics,
      ingest::LoadStatistics(files_, data_dir_.DatasetPath(name)));
  if (statistics.has_value()) AddStatistics(*statistics, dataset);
  return dataset;
}

absl::Status DatasetCatalog::Delete(const std::string& name,
                                    Trash& trash) const {
  if (!IsValidName(name)) return Unknown(name);
  const std::string folder = data_dir_.DatasetPath(name);
  if (absl::IsNotFound(files_.Stat(folder).status())) return Unknown(name);
  return trash.Throw(folder);
}

}  // namespace hearth::server
