#include "server/jobs/admission.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/job/checkpoint.h"
#include "server/jobs/import_source.h"
#include "server/mapping/field_violations.h"
#include "server/mapping/resume_checks.h"

namespace hearth::server {
namespace {

constexpr size_t kMaxRequestIdLength = 128;

bool UsesDataset(const v1::JobSpec& spec, const std::string& name) {
  switch (spec.kind_case()) {
    case v1::JobSpec::kTrain:
      return spec.train().data().dataset() == name;
    case v1::JobSpec::kImport:
      return spec.import().name() == name;
    case v1::JobSpec::kGenerate:
      return spec.generate().name() == name;
    case v1::JobSpec::kVerify:
      return spec.verify().dataset() == name;
    case v1::JobSpec::kExportDataset:
      return spec.export_dataset().dataset() == name;
    case v1::JobSpec::kPrepare:
      return spec.prepare().data().dataset() == name;
    case v1::JobSpec::kExplain:
      return spec.explain().train().data().dataset() == name;
    case v1::JobSpec::kExport:
    case v1::JobSpec::KIND_NOT_SET:
      break;
  }
  return false;
}

absl::Status CheckRequestId(const std::string& request_id) {
  FieldViolations violations;
  if (request_id.size() > kMaxRequestIdLength) {
    violations.Add("request_id",
                   absl::StrCat("must be at most ", kMaxRequestIdLength,
                                " characters long"));
  }
  return violations.ToStatus();
}

}  // namespace

Admission::Admission(const AdmissionParts& parts, SpecLimits limits,
                     std::vector<std::string> import_roots)
    : parts_(parts), limits_(limits), import_roots_(std::move(import_roots)) {}

template <typename Predicate>
absl::StatusOr<std::string> Admission::FindUnended(
    const Predicate& uses) const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                          parts_.store.Unended());
  for (const v1::Job& job : jobs) {
    if (uses(job.spec())) return job.id();
  }
  return std::string();
}

absl::StatusOr<v1::Job> Admission::Submit(const std::string& request_id,
                                          v1::JobSpec spec) {
  HEARTH_RETURN_IF_ERROR(CheckRequestId(request_id));
  HEARTH_RETURN_IF_ERROR(FillAndValidate(limits_, spec));
  absl::MutexLock lock(&mutex_);
  // A repeated request gets its job whatever has changed since.
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> existing,
                          parts_.store.FindRequest(request_id, spec));
  if (existing.has_value()) return *existing;
  HEARTH_RETURN_IF_ERROR(CheckOpen());
  HEARTH_RETURN_IF_ERROR(CheckPossible(spec));
  HEARTH_ASSIGN_OR_RETURN(v1::Job job, parts_.store.Submit(request_id, spec));
  parts_.scheduler.Enqueue(job.id());
  return job;
}

absl::StatusOr<v1::Job> Admission::Resume(const v1::ResumeJobRequest& request) {
  HEARTH_RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> resumed,
                          parts_.store.FindResume(request));
  if (resumed.has_value()) return *resumed;
  HEARTH_RETURN_IF_ERROR(CheckOpen());
  HEARTH_ASSIGN_OR_RETURN(v1::Job job, parts_.store.Get(request.id()));
  if (job.state() != v1::FAILED && job.state() != v1::CANCELLED) {
    return absl::FailedPreconditionError(
        absl::StrCat("only a job that FAILED or was CANCELLED can be resumed; ",
                     job.id(), " is ", v1::JobState_Name(job.state())));
  }
  v1::JobSpec spec = request.has_spec() ? request.spec() : job.spec();
  HEARTH_RETURN_IF_ERROR(FillAndValidate(limits_, spec));
  // An earlier version may have known fewer defaults; what it accepted may not
  // be valid any more, which the line before has told.
  FillAndValidate(limits_, *job.mutable_spec()).IgnoreError();
  HEARTH_RETURN_IF_ERROR(CheckChangesNoResult(job.spec(), spec));
  HEARTH_RETURN_IF_ERROR(CheckPossible(spec));
  HEARTH_RETURN_IF_ERROR(CheckResumable(job));
  HEARTH_ASSIGN_OR_RETURN(job, parts_.store.Resume(request, spec));
  parts_.scheduler.Enqueue(job.id());
  return job;
}

absl::Status Admission::CheckResumable(const v1::Job& job) {
  if (!job.spec().has_train()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      const v1::Dataset dataset,
      parts_.datasets.Get(job.spec().train().data().dataset()));
  return job::CheckCheckpoint(parts_.files, parts_.data_dir.JobPath(job.id()),
                              dataset.fingerprint());
}

absl::Status Admission::FailUnresumable() {
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                          parts_.store.Unended());
  for (const v1::Job& job : jobs) {
    // A job that never ran has no checkpoint.
    if (!job.has_start_time()) continue;
    const absl::Status status = CheckResumable(job);
    // Other errors are the job's own, once it runs.
    if (!absl::IsFailedPrecondition(status)) continue;
    StateUpdate failed;
    failed.state = v1::FAILED;
    failed.error.emplace().set_code(static_cast<int>(status.code()));
    failed.error->set_message(std::string(status.message()));
    HEARTH_RETURN_IF_ERROR(parts_.store.ChangeState(job.id(), failed));
  }
  return absl::OkStatus();
}

absl::Status Admission::CheckOpen() const {
  if (closed_) return absl::UnavailableError("hearthd is stopping");
  if (draining_) {
    return absl::UnavailableError("hearthd is draining: it takes no new jobs");
  }
  return absl::OkStatus();
}

absl::Status Admission::CheckPossible(const v1::JobSpec& spec) {
  switch (spec.kind_case()) {
    case v1::JobSpec::kImport:
      HEARTH_RETURN_IF_ERROR(CheckNewDataset(spec.import().name()));
      return CheckImportSource(spec.import().path(), import_roots_);
    case v1::JobSpec::kGenerate:
      if (spec.generate().name().empty()) {
        return CheckNewPath(spec.generate().destination());
      }
      return CheckNewDataset(spec.generate().name());
    case v1::JobSpec::kVerify:
      return parts_.datasets.Get(spec.verify().dataset()).status();
    case v1::JobSpec::kExportDataset:
      HEARTH_RETURN_IF_ERROR(
          parts_.datasets.Get(spec.export_dataset().dataset()).status());
      return CheckNewPath(spec.export_dataset().destination());
    case v1::JobSpec::kTrain:
      return parts_.datasets.Get(spec.train().data().dataset()).status();
    case v1::JobSpec::kPrepare:
      return parts_.datasets.Get(spec.prepare().data().dataset()).status();
    case v1::JobSpec::kExplain:
      return parts_.datasets.Get(spec.explain().train().data().dataset())
          .status();
    case v1::JobSpec::kExport:
      return CheckExport(spec.export_());
    case v1::JobSpec::KIND_NOT_SET:
      break;
  }
  return absl::InternalError("a job without a kind has passed validation");
}

absl::Status Admission::CheckNewPath(const std::string& path) const {
  if (!parts_.files.Stat(path).ok()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, " exists already"));
}

absl::Status Admission::CheckNewDataset(const std::string& name) const {
  if (parts_.files.Stat(parts_.data_dir.DatasetPath(name)).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat("dataset \"", name,
                     "\" exists already; delete it first or choose "
                     "another name"));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::string other,
                          FindUnended([&name](const v1::JobSpec& other_spec) {
                            return UsesDataset(other_spec, name);
                          }));
  if (!other.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat("dataset \"", name, "\" is being made by ", other));
  }
  return absl::OkStatus();
}

absl::Status Admission::CheckExport(const v1::ExportSpec& spec) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, parts_.store.Get(spec.job_id()));
  if (!job.spec().has_train() || job.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat("only a train job that has SUCCEEDED has a model; ",
                     job.id(), " is ", v1::JobState_Name(job.state())));
  }
  if (job.report().train().model_path().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " trained no model"));
  }
  return CheckNewPath(spec.destination());
}

absl::Status Admission::DeleteJob(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(
      const std::string user, FindUnended([&id](const v1::JobSpec& spec) {
        return spec.has_export_() && spec.export_().job_id() == id;
      }));
  if (!user.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(user, " exports the model of ", id));
  }
  HEARTH_RETURN_IF_ERROR(parts_.store.Delete(id));
  return parts_.files.RemoveTree(parts_.data_dir.JobPath(id));
}

absl::Status Admission::DeleteDataset(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(const std::string user,
                          FindUnended([&name](const v1::JobSpec& spec) {
                            return UsesDataset(spec, name);
                          }));
  if (!user.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("dataset \"", name, "\" is used by ", user));
  }
  parts_.warm_strategies.Forget(parts_.data_dir.DatasetPath(name));
  const absl::StatusOr<v1::Dataset> dataset = parts_.datasets.Get(name);
  HEARTH_RETURN_IF_ERROR(parts_.datasets.Delete(name));
  if (!dataset.ok()) return absl::OkStatus();
  return Annotate(RemovePlans(dataset->fingerprint()),
                  absl::StrCat("dataset \"", name,
                               "\" is deleted, but not all of its plans"));
}

// Removes the plans for datasets with this fingerprint, job::BatchMeasurement's
// files included, if no such dataset is left.
absl::Status Admission::RemovePlans(const std::string& fingerprint) const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Dataset> others,
                          parts_.datasets.List());
  for (const v1::Dataset& other : others) {
    if (other.fingerprint() == fingerprint) return absl::OkStatus();
  }
  HEARTH_RETURN_IF_ERROR(parts_.plans.RemoveOf(fingerprint));
  const std::string folder = parts_.data_dir.PlansPath();
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          parts_.files.List(folder));
  for (const std::string& name : names) {
    if (absl::StrContains(name, absl::StrCat("-", fingerprint, "-"))) {
      HEARTH_RETURN_IF_ERROR(
          parts_.files.RemoveTree(io::JoinPath(folder, name)));
    }
  }
  return absl::OkStatus();
}

void Admission::SetDraining(bool draining) {
  absl::MutexLock lock(&mutex_);
  draining_ = draining;
}

bool Admission::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

void Admission::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

}  // namespace hearth::server
