#include "server/jobs/admission.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/checkpoint/checkpoint.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/plan/plan_store.h"
#include "server/cluster/cluster.h"
#include "server/jobs/dataset_jobs.h"
#include "server/jobs/model_files.h"
#include "server/jobs/scheduler.h"
#include "server/mapping/request_checks.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

absl::StatusOr<NameClaims::Claim> NameClaims::Share(const std::string& name,
                                                    absl::string_view purpose) {
  absl::MutexLock lock(&mutex_);
  Holders& holders = holders_[name];
  if (holders.alone) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " ", holders.purpose));
  }
  ++holders.count;
  holders.purpose = std::string(purpose);
  return Claim(this, name);
}

absl::StatusOr<NameClaims::Claim> NameClaims::Take(const std::string& name,
                                                   absl::string_view purpose) {
  absl::MutexLock lock(&mutex_);
  Holders& holders = holders_[name];
  if (holders.count > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(name, " ", holders.purpose));
  }
  holders = {.count = 1, .alone = true, .purpose = std::string(purpose)};
  return Claim(this, name);
}

NameClaims::Claim NameClaims::Await(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  while (holders_.contains(name)) released_.Wait(&mutex_);
  holders_[name] = {.count = 1, .alone = true, .purpose = "is awaited"};
  return Claim(this, name);
}

void NameClaims::Release(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find(name);
  if (--found->second.count > 0) return;
  holders_.erase(found);
  released_.SignalAll();
}

namespace {

constexpr size_t kMaxRequestIdLength = 128;

// Names that are claimed, or whose deletions are noted, apart from DatasetUse.
std::string JobClaim(const std::string& id) { return absl::StrCat("job ", id); }

}  // namespace

absl::Status Admission::CheckRequest(const std::string& request_id,
                                     int priority) {
  FieldViolations violations;
  if (request_id.size() > kMaxRequestIdLength) {
    violations.Add("request_id",
                   absl::StrCat("must be at most ", kMaxRequestIdLength,
                                " characters long"));
  }
  if (priority < -Admission::kMostPriority ||
      priority > Admission::kMostPriority) {
    violations.Add("priority",
                   absl::StrCat("must be from ", -Admission::kMostPriority,
                                " to ", Admission::kMostPriority));
  }
  return violations.ToStatus();
}

absl::Status Admission::CheckSize(const google::protobuf::Message& spec,
                                  size_t limit) {
  const size_t bytes = spec.ByteSizeLong();
  if (bytes <= limit) return absl::OkStatus();
  FieldViolations violations;
  violations.Add("spec",
                 absl::StrCat("has ", bytes, " bytes, more than ", limit));
  return violations.ToStatus();
}

Admission::Admission(const AdmissionDependencies& dependencies,
                     SpecLimits limits, std::vector<std::string> import_roots)
    : dependencies_(dependencies),
      limits_(limits),
      import_roots_(std::move(import_roots)) {}

absl::StatusOr<v1::Job> Admission::Submit(const v1::SubmitJobRequest& request,
                                          const JobOrigin& origin) {
  const std::string& request_id = request.request_id();
  HEARTH_RETURN_IF_ERROR(CheckRequest(request_id, request.priority()));
  HEARTH_RETURN_IF_ERROR(CheckSize(request.spec(), kMaxSpecBytes));
  v1::JobSpec spec = request.spec();
  // Set below from the train job, whatever the request has.
  if (spec.has_evaluate()) spec.mutable_evaluate()->clear_train();
  HEARTH_RETURN_IF_ERROR(FillAndValidate(limits_, spec));
  const NameClaims::Claim same = AwaitRequest(request_id);
  // A repeated request gets its job, whatever has changed since.
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> existing,
                          dependencies_.store.FindRequest(request_id, spec));
  if (existing.has_value()) return *existing;
  HEARTH_RETURN_IF_ERROR(CheckOpen());
  HEARTH_RETURN_IF_ERROR(FillTrainSpec(spec));
  HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim, CheckPossible(spec));
  HEARTH_RETURN_IF_ERROR(CheckOpen());
  HEARTH_ASSIGN_OR_RETURN(
      v1::Job job,
      dependencies_.store.Submit(request_id, spec, request.priority(), origin));
  dependencies_.uploads.Use(spec.import().upload(), job.id());
  dependencies_.scheduler.Enqueue(job);
  return job;
}

absl::StatusOr<v1::Job> Admission::Resume(const v1::ResumeJobRequest& request) {
  HEARTH_RETURN_IF_ERROR(CheckRequest(request.request_id(), 0));
  HEARTH_RETURN_IF_ERROR(CheckSize(request.spec(), kMaxSpecBytes));
  const NameClaims::Claim same = AwaitRequest(request.request_id());
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> resumed,
                          dependencies_.store.FindResume(request));
  if (resumed.has_value()) return *resumed;
  HEARTH_RETURN_IF_ERROR(CheckOpen());
  HEARTH_ASSIGN_OR_RETURN(
      const NameClaims::Claim self,
      claims_.Take(JobClaim(request.id()), "is being resumed"));
  HEARTH_ASSIGN_OR_RETURN(v1::Job job, dependencies_.store.Get(request.id()));
  if (job.state() != v1::FAILED && job.state() != v1::CANCELLED) {
    return absl::FailedPreconditionError(
        absl::StrCat("only a job that FAILED or was CANCELLED can be resumed; ",
                     job.id(), " is ", v1::JobState_Name(job.state())));
  }
  if (job.spec().has_rank()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " is a part of ", job.spec().rank().leader(),
                     "'s ", job.spec().rank().job_id(),
                     ", which begins a new one when it goes on"));
  }
  v1::JobSpec spec = request.has_spec() ? request.spec() : job.spec();
  HEARTH_RETURN_IF_ERROR(FillAndValidate(limits_, spec));
  // An earlier version may have known fewer defaults; if its spec is no longer
  // valid, CheckResumable has reported it.
  FillAndValidate(limits_, *job.mutable_spec()).IgnoreError();
  HEARTH_RETURN_IF_ERROR(CheckChangesNoResult(job.spec(), spec));
  HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim, CheckPossible(spec));
  HEARTH_RETURN_IF_ERROR(CheckResumable(job));
  HEARTH_ASSIGN_OR_RETURN(job, dependencies_.store.Resume(request, spec));
  dependencies_.uploads.Use(spec.import().upload(), job.id());
  dependencies_.scheduler.Enqueue(job);
  return job;
}

absl::StatusOr<v1::Job> Admission::Adopt(const v1::AdoptJobRequest& request,
                                         const JobOrigin& origin) {
  const NameClaims::Claim self = claims_.Await(JobClaim(request.id()));
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                          dependencies_.store.Get(request.id()));
  if (!job.spec().has_rank() || dependencies_.cluster == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        job.id(), " is not this machine's part of a job of several"));
  }
  if (!HasEnded(job.state())) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " has not ended: ", job.spec().rank().leader(),
                     ", which leads, is there"));
  }
  const v1::RankSpec& rank = job.spec().rank();
  const std::string& own = dependencies_.cluster->name();
  Attempts& attempts = dependencies_.cluster->attempts();
  HEARTH_ASSIGN_OR_RETURN(const Attempt known,
                          attempts.Find(rank.leader(), rank.job_id()));
  if (known.adopter == own && !known.adopter_job.empty()) {
    return dependencies_.store.Get(known.adopter_job);
  }
  if (known.rank_job != job.id()) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.id(), " is of an older attempt than ", known.rank_job,
                     ", which is the one to adopt"));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const v1::Dataset dataset,
      dependencies_.datasets.Get(rank.train().data().dataset()));
  HEARTH_ASSIGN_OR_RETURN(
      const job::FoundCheckpoint found,
      job::FindCheckpoint(dependencies_.files,
                          dependencies_.data_dir.JobPath(job.id()),
                          dataset.fingerprint()));
  if (!found.checkpoint.has_value()) {
    return absl::NotFoundError(absl::StrCat(
        job.id(), " has no checkpoint: there is nothing to go on from"));
  }
  std::vector<std::string> others;
  for (const std::string& member : rank.ranks()) {
    if (member != rank.leader() && member != own) others.push_back(member);
  }
  v1::SubmitJobRequest submission;
  // After a crash before the job is noted, the same job is found again.
  submission.set_request_id(absl::StrCat("adopt-", job.id()));
  v1::TrainJobSpec& train = *submission.mutable_spec()->mutable_train();
  train = rank.train();
  train.set_machines(static_cast<uint32_t>(others.size()) + 1);
  train.set_members(absl::StrJoin(others, ","));
  train.clear_min_machines();
  train.mutable_adopted()->set_leader(rank.leader());
  train.mutable_adopted()->set_job_id(rank.job_id());
  train.mutable_adopted()->set_rank_job(job.id());
  // Nobody follows the former leader any more before a job goes on here.
  HEARTH_RETURN_IF_ERROR(
      attempts.NoteAdopted(rank.leader(), rank.job_id(), own, ""));
  HEARTH_ASSIGN_OR_RETURN(v1::Job adopted, Submit(submission, origin));
  HEARTH_RETURN_IF_ERROR(
      attempts.NoteAdopted(rank.leader(), rank.job_id(), own, adopted.id()));
  return adopted;
}

absl::Status Admission::Cancel(const std::string& id) {
  const NameClaims::Claim self = claims_.Await(JobClaim(id));
  return dependencies_.scheduler.Cancel(id);
}

absl::Status Admission::CheckResumable(const v1::Job& job) {
  if (!job.spec().has_train()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      const v1::Dataset dataset,
      dependencies_.datasets.Get(job.spec().train().data().dataset()));
  return job::CheckCheckpoint(dependencies_.files,
                              dependencies_.data_dir.JobPath(job.id()),
                              dataset.fingerprint());
}

absl::Status Admission::FailUnresumable(std::vector<v1::Job>& unended) {
  absl::Status stored;
  std::erase_if(unended, [&](const v1::Job& job) {
    // A job that never ran has no checkpoint.
    if (!job.has_start_time()) return false;
    const absl::Status status = CheckResumable(job);
    // Other errors end the job when it runs.
    if (!absl::IsFailedPrecondition(status)) return false;
    StateUpdate failed;
    failed.state = v1::FAILED;
    failed.error.emplace().set_code(static_cast<int>(status.code()));
    failed.error->set_message(std::string(status.message()));
    stored.Update(dependencies_.store.ChangeState(job.id(), failed));
    return true;
  });
  return stored;
}

NameClaims::Claim Admission::AwaitRequest(const std::string& request_id) {
  if (request_id.empty()) return NameClaims::Claim();
  return claims_.Await(absl::StrCat("request ", request_id));
}

absl::Status Admission::CheckOpen() const {
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::UnavailableError("hearthd is stopping");
  if (draining_) {
    return absl::UnavailableError("hearthd is draining: it takes no new jobs");
  }
  return absl::OkStatus();
}

absl::StatusOr<NameClaims::Claim> Admission::Admit(const v1::JobSpec& spec) {
  HEARTH_RETURN_IF_ERROR(CheckOpen());
  return CheckPossible(spec);
}

absl::StatusOr<NameClaims::Claim> Admission::CheckPossible(
    const v1::JobSpec& spec) {
  switch (spec.kind_case()) {
    case v1::JobSpec::kImport: {
      HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim claim,
                              ClaimNewDataset(spec.import().name()));
      if (!spec.import().upload().empty()) {
        HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim upload,
                                ClaimUpload(spec.import().upload()));
        claim.Add(std::move(upload));
        return claim;
      }
      // The member answers when the job runs.
      if (!spec.import().from_member().empty()) return claim;
      HEARTH_RETURN_IF_ERROR(CheckImportSource(
          spec.import().path(), import_roots_, closing_.get_token()));
      return claim;
    }
    case v1::JobSpec::kGenerate:
      if (spec.generate().name().empty()) {
        HEARTH_RETURN_IF_ERROR(CheckNewPath(spec.generate().destination()));
        return NameClaims::Claim();
      }
      return ClaimNewDataset(spec.generate().name());
    case v1::JobSpec::kVerify:
      return ClaimDataset(spec.verify().dataset());
    case v1::JobSpec::kExportDataset: {
      HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim claim,
                              ClaimDataset(spec.export_dataset().dataset()));
      HEARTH_RETURN_IF_ERROR(CheckNewPath(spec.export_dataset().destination()));
      return claim;
    }
    case v1::JobSpec::kTrain: {
      const v1::TrainJobSpec& train = spec.train();
      HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim claim,
                              ClaimDataset(train.data().dataset()));
      if (train.trains_size() == 1 && train.trains(0).patience() > 0) {
        HEARTH_RETURN_IF_ERROR(CheckHasPart(
            train.data().dataset(), &v1::NodeType::num_valid,
            "validation nodes, by which patience would compare epochs"));
      }
      return claim;
    }
    case v1::JobSpec::kFeed:
      return ClaimDataset(spec.feed().data().dataset());
    case v1::JobSpec::kRank:
      return ClaimDataset(spec.rank().train().data().dataset());
    case v1::JobSpec::kPrepare:
      return ClaimDataset(spec.prepare().data().dataset());
    case v1::JobSpec::kExplain:
      return ClaimDataset(spec.explain().train().data().dataset());
    case v1::JobSpec::kExport: {
      HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim claim,
                              ClaimModel(spec.export_().job_id()));
      HEARTH_RETURN_IF_ERROR(CheckNewPath(spec.export_().destination()));
      return claim;
    }
    case v1::JobSpec::kEvaluate: {
      HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim claim,
                              ClaimModel(spec.evaluate().job_id()));
      HEARTH_ASSIGN_OR_RETURN(
          NameClaims::Claim dataset,
          ClaimDataset(spec.evaluate().train().data().dataset()));
      claim.Add(std::move(dataset));
      HEARTH_RETURN_IF_ERROR(CheckHasPart(
          spec.evaluate().train().data().dataset(), &v1::NodeType::num_test,
          "test nodes, which a model would be evaluated on"));
      return claim;
    }
    case v1::JobSpec::KIND_NOT_SET:
      break;
  }
  return absl::InternalError("a job without a kind has passed validation");
}

absl::Status Admission::CheckHasPart(const std::string& name,
                                     uint64_t (v1::NodeType::*num_nodes)()
                                         const,
                                     absl::string_view part) const {
  HEARTH_ASSIGN_OR_RETURN(const v1::Dataset dataset,
                          dependencies_.datasets.Get(name));
  for (const v1::NodeType& type : dataset.node_types()) {
    if ((type.*num_nodes)() > 0) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("dataset \"", name, "\" has no ", part));
}

absl::Status Admission::CheckNewPath(const std::string& path) const {
  HEARTH_RETURN_IF_ERROR(
      CheckOutside(dependencies_.files, dependencies_.data_dir.path(), path));
  const absl::StatusOr<io::FileInfo> folder =
      dependencies_.export_files.Stat(io::ParentDirectory(path));
  if (absl::IsPermissionDenied(folder.status())) return folder.status();
  if (!dependencies_.export_files.Stat(path).ok()) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat(path, " exists already"));
}

absl::StatusOr<NameClaims::Claim> Admission::ClaimNewDataset(
    const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(
      NameClaims::Claim claim,
      claims_.Take(DatasetUse(name), "is being made by another request"));
  if (dependencies_.files.Stat(dependencies_.data_dir.DatasetPath(name)).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat("dataset \"", name,
                     "\" exists already; delete it first or choose "
                     "another name"));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::string other,
                          dependencies_.store.FindUser(DatasetUse(name)));
  if (!other.empty()) {
    return absl::AlreadyExistsError(
        absl::StrCat("dataset \"", name, "\" is being made by ", other));
  }
  return claim;
}

absl::StatusOr<NameClaims::Claim> Admission::HoldDataset(
    const std::string& name) {
  return ClaimDataset(name, "is being copied by another machine");
}

absl::StatusOr<NameClaims::Claim> Admission::ClaimDataset(
    const std::string& name, absl::string_view purpose) {
  HEARTH_ASSIGN_OR_RETURN(NameClaims::Claim claim,
                          claims_.Share(DatasetUse(name), purpose));
  HEARTH_RETURN_IF_ERROR(dependencies_.datasets.Get(name).status());
  return claim;
}

absl::Status Admission::CheckNewDataset(const std::string& name) {
  return ClaimNewDataset(name).status();
}

absl::StatusOr<NameClaims::Claim> Admission::ClaimUpload(
    const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(
      NameClaims::Claim claim,
      claims_.Take(UploadUse(id), "is used by a job that is submitted"));
  HEARTH_RETURN_IF_ERROR(dependencies_.uploads.SourceOf(id).status());
  HEARTH_ASSIGN_OR_RETURN(const std::string user,
                          dependencies_.store.FindUser(UploadUse(id)));
  if (user.empty()) return claim;
  return absl::FailedPreconditionError(
      absl::StrCat("upload \"", id, "\" is used by ", user));
}

absl::StatusOr<NameClaims::Claim> Admission::ClaimModel(
    const std::string& job_id) {
  HEARTH_ASSIGN_OR_RETURN(
      NameClaims::Claim claim,
      claims_.Share(JobClaim(job_id), "is used by a job that is submitted"));
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, dependencies_.store.Get(job_id));
  HEARTH_RETURN_IF_ERROR(ModelFolder(dependencies_.data_dir, job).status());
  return claim;
}

absl::Status Admission::FillTrainSpec(v1::JobSpec& spec) const {
  if (!spec.has_evaluate()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                          dependencies_.store.Get(spec.evaluate().job_id()));
  *spec.mutable_evaluate()->mutable_train() = job.spec().train();
  // The train job may be of an earlier version, or of another machine.
  return FillAndValidate(limits_, spec);
}

absl::Status Admission::DeleteOnce(const std::string& request_id,
                                   const std::string& target,
                                   absl::FunctionRef<absl::Status()> remove) {
  if (request_id.empty()) return remove();
  HEARTH_RETURN_IF_ERROR(CheckRequest(request_id, 0));
  const NameClaims::Claim same = AwaitRequest(request_id);
  HEARTH_ASSIGN_OR_RETURN(
      const Deletion before,
      dependencies_.store.BeginDeletion(request_id, target));
  if (before == Deletion::kDone) return absl::OkStatus();
  absl::Status status = remove();
  // The deletion was done, but not noted, when the daemon died.
  if (before == Deletion::kBegun && absl::IsNotFound(status)) {
    status = absl::OkStatus();
  }
  status.Update(dependencies_.store.EndDeletion(request_id, status));
  return status;
}

absl::Status Admission::DeleteJob(const v1::DeleteJobRequest& request) {
  return DeleteOnce(request.request_id(), JobClaim(request.id()),
                    [&] { return RemoveJob(request.id()); });
}

absl::Status Admission::DeleteDataset(const v1::DeleteDatasetRequest& request) {
  return DeleteOnce(request.request_id(), DatasetUse(request.name()),
                    [&] { return RemoveDataset(request.name()); });
}

absl::Status Admission::DeleteUpload(const v1::DeleteUploadRequest& request) {
  return DeleteOnce(
      request.request_id(), UploadUse(request.id()), [&]() -> absl::Status {
        HEARTH_ASSIGN_OR_RETURN(
            const NameClaims::Claim claim,
            claims_.Take(UploadUse(request.id()), "is being deleted"));
        return dependencies_.uploads.Delete(request.id());
      });
}

absl::Status Admission::DeletePlan(const v1::DeletePlanRequest& request) {
  return DeleteOnce(
      request.request_id(), absl::StrCat("plan ", request.name()),
      [&]() -> absl::Status {
        HEARTH_RETURN_IF_ERROR(dependencies_.plans.Remove(request.name()));
        dependencies_.scheduler.RetryNow(WaitCause::kDiskSpace);
        return absl::OkStatus();
      });
}

absl::Status Admission::RemoveJob(const std::string& id) {
  HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim,
                          claims_.Take(JobClaim(id), "is being deleted"));
  HEARTH_ASSIGN_OR_RETURN(const std::string user,
                          dependencies_.store.FindUser(ModelUse(id)));
  if (!user.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(user, " uses the model of ", id));
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, dependencies_.store.Get(id));
  if (!job.sweep().empty()) {
    // A sweep that is gone or damaged does not need its jobs.
    const absl::StatusOr<v1::Sweep> sweep =
        dependencies_.sweeps.Get(job.sweep());
    if (sweep.ok() && !HasEnded(sweep->state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(id, " is a job of ", job.sweep(),
                       ", which has not ended; stop that first"));
    }
  }
  HEARTH_RETURN_IF_ERROR(dependencies_.store.Delete(id));
  if (dependencies_.cluster != nullptr) {
    HEARTH_RETURN_IF_ERROR(dependencies_.cluster->attempts().NoteDeleted(
        dependencies_.cluster->name(), id));
  }
  const std::string folder = dependencies_.data_dir.JobPath(id);
  // The folder may never have been made.
  if (absl::IsNotFound(dependencies_.files.Stat(folder).status())) {
    return absl::OkStatus();
  }
  return dependencies_.trash.Throw(folder);
}

absl::Status Admission::RemoveDataset(const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim,
                          claims_.Take(DatasetUse(name), "is being deleted"));
  HEARTH_ASSIGN_OR_RETURN(const std::string user,
                          dependencies_.store.FindUser(DatasetUse(name)));
  if (!user.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("dataset \"", name, "\" is used by ", user));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Sweep> sweeps,
                          dependencies_.sweeps.List());
  for (const v1::Sweep& sweep : sweeps) {
    if (!HasEnded(sweep.state()) &&
        sweep.spec().train().data().dataset() == name) {
      return absl::FailedPreconditionError(
          absl::StrCat("dataset \"", name, "\" is used by ", sweep.id()));
    }
  }
  dependencies_.warm_strategies.Forget(
      dependencies_.data_dir.DatasetPath(name));
  const absl::StatusOr<v1::Dataset> dataset = dependencies_.datasets.Get(name);
  HEARTH_RETURN_IF_ERROR(
      dependencies_.datasets.Delete(name, dependencies_.trash));
  if (!dataset.ok()) return absl::OkStatus();
  return Annotate(RemovePlans(dataset->fingerprint()),
                  absl::StrCat("dataset \"", name,
                               "\" is deleted, but not all of its plans"));
}

// Removes the plans of datasets with this fingerprint, including
// job::BatchMeasurement's files, if no such dataset is left.
absl::Status Admission::RemovePlans(const std::string& fingerprint) const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Dataset> others,
                          dependencies_.datasets.List());
  for (const v1::Dataset& other : others) {
    if (other.fingerprint() == fingerprint) return absl::OkStatus();
  }
  HEARTH_RETURN_IF_ERROR(dependencies_.plans.RemoveOf(fingerprint));
  const std::string folder = dependencies_.data_dir.PlansPath();
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          dependencies_.files.List(folder));
  for (const std::string& name : names) {
    if (absl::StrContains(name, absl::StrCat("-", fingerprint, "-"))) {
      HEARTH_RETURN_IF_ERROR(
          dependencies_.files.RemoveTree(io::JoinPath(folder, name)));
    }
  }
  return absl::OkStatus();
}

void Admission::SetDraining(bool draining) {
  // Under the lock, so that the scheduler's state is the last call's.
  absl::MutexLock lock(&mutex_);
  draining_ = draining;
  dependencies_.scheduler.SetDraining(draining);
}

bool Admission::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

void Admission::Close() {
  closing_.request_stop();
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

}  // namespace hearth::server
