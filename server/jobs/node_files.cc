#include "server/jobs/node_files.h"

#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/store/dataset.h"
#include "engine/store/manifest.h"
#include "engine/strategy/memory_budget.h"
#include "server/mapping/spec_mapping.h"
#include "server/storage/job_state.h"

namespace hearth::server {
namespace {

// The files of a feed job's own nodes.
std::vector<job::NodesFile> FilesOf(const v1::Job& job,
                                    const std::string& folder) {
  const job::OwnNodes own = ToOwnNodes(job.spec().feed(), folder);
  std::vector<job::NodesFile> files;
  for (const std::optional<job::NodesFile>& file :
       {own.train, own.valid, own.test}) {
    if (file.has_value()) files.push_back(*file);
  }
  return files;
}

// Number of the nodes that can be seeds of a job.
absl::StatusOr<int64_t> CountNodes(io::FileSystem& files,
                                   const std::string& dataset_path,
                                   const std::string& target) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(files, dataset_path, /*record=*/nullptr));
  if (!target.empty()) HEARTH_RETURN_IF_ERROR(dataset->ChooseTarget(target));
  return dataset->manifest().node_types[dataset->target_type()].num_nodes;
}

// Whether the file is there.
absl::StatusOr<bool> IsThere(io::FileSystem& files, const std::string& path) {
  const absl::Status found = files.Stat(path).status();
  if (absl::IsNotFound(found)) return false;
  HEARTH_RETURN_IF_ERROR(found);
  return true;
}

}  // namespace

absl::StatusOr<v1::Job> NodeFiles::GetUnended(const std::string& id) const {
  HEARTH_ASSIGN_OR_RETURN(v1::Job job, dependencies_.store.Get(id));
  if (!job.spec().has_feed()) {
    return absl::FailedPreconditionError(absl::StrCat(id, " is not a feed"));
  }
  if (HasEnded(job.state())) {
    return absl::FailedPreconditionError(absl::StrCat(id, " has ended"));
  }
  return job;
}

absl::StatusOr<job::NodesFile> NodeFiles::FileOf(
    const v1::Job& job, const std::string& sha256) const {
  for (const job::NodesFile& file :
       FilesOf(job, dependencies_.data_dir.JobPath(job.id()))) {
    if (file.sha256 == sha256) return file;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(job.id(), " asks for no nodes of this SHA-256"));
}

absl::StatusOr<std::unique_ptr<NodeFiles::Incoming>> NodeFiles::Begin(
    const std::string& id, const std::string& sha256) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, GetUnended(id));
  HEARTH_ASSIGN_OR_RETURN(const job::NodesFile file, FileOf(job, sha256));
  io::FileSystem& files = dependencies_.files;
  HEARTH_ASSIGN_OR_RETURN(const bool is_there, IsThere(files, file.path));
  if (is_there) return nullptr;
  const v1::DataSpec& data = job.spec().feed().data();
  HEARTH_ASSIGN_OR_RETURN(
      const int64_t num_nodes,
      CountNodes(files, dependencies_.data_dir.DatasetPath(data.dataset()),
                 data.target()));
  std::unique_ptr<Incoming> incoming(new Incoming(*this, id));
  strategy::MemoryEstimate estimate;
  estimate.Add("seeds", job::NodeChecker::MemoryBytes(num_nodes));
  HEARTH_RETURN_IF_ERROR(
      dependencies_.memory.Reserve(estimate, incoming->memory_));
  HEARTH_RETURN_IF_ERROR(
      files.CreateDirectory(dependencies_.data_dir.JobPath(id)));
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    number = next_number_++;
  }
  HEARTH_ASSIGN_OR_RETURN(
      incoming->writer_,
      job::NodesFileWriter::Create(
          files, file,
          absl::StrCat(file.path, ".", number, io::kTemporarySuffix),
          num_nodes));
  return incoming;
}

absl::Status NodeFiles::Incoming::Finish() {
  // An ended job's folder may be removed.
  HEARTH_RETURN_IF_ERROR(owner_.GetUnended(id_).status());
  HEARTH_RETURN_IF_ERROR(writer_->Finish());
  {
    absl::MutexLock lock(&owner_.mutex_);
    owner_.awaiting_.erase(id_);
  }
  if (owner_.dependencies_.have_come) owner_.dependencies_.have_come();
  return absl::OkStatus();
}

absl::StatusOr<bool> NodeFiles::HasAll(const v1::Job& job) {
  ForgetEnded();
  {
    // Before the look, so that nodes that come meanwhile are noticed.
    absl::MutexLock lock(&mutex_);
    awaiting_.insert(job.id());
  }
  for (const job::NodesFile& file :
       FilesOf(job, dependencies_.data_dir.JobPath(job.id()))) {
    HEARTH_ASSIGN_OR_RETURN(const bool is_there,
                            IsThere(dependencies_.files, file.path));
    if (!is_there) return false;
  }
  absl::MutexLock lock(&mutex_);
  awaiting_.erase(job.id());
  return true;
}

void NodeFiles::ForgetEnded() {
  std::set<std::string> ids;
  {
    absl::MutexLock lock(&mutex_);
    ids = awaiting_;
  }
  // The store may take long to answer.
  std::erase_if(ids,
                [this](const std::string& id) { return GetUnended(id).ok(); });
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) awaiting_.erase(id);
}

bool NodeFiles::Awaits(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  return awaiting_.contains(id);
}

}  // namespace hearth::server
