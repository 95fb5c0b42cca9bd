#include "server/storage/upload_staging.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "server/log.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

constexpr size_t kIdBytes = 8;

absl::StatusOr<std::string> NewId() {
  HEARTH_ASSIGN_OR_RETURN(const std::string random, RandomHex(kIdBytes));
  return absl::StrCat("upload-", random);
}

uint64_t SizeOf(const v1::BeginUploadRequest& request) {
  uint64_t bytes = 0;
  for (const v1::UploadFile& file : request.files()) bytes += file.size_bytes();
  return bytes;
}

absl::Status NoUpload(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no upload \"", id,
                   "\": it was imported, deleted or abandoned, or never "
                   "begun"));
}

// An upload is announced when its first byte can be sent.
constexpr absl::Duration kPatienceWithFirstByte = absl::Minutes(10);
constexpr absl::Duration kPauseBeforeAsking = absl::Seconds(5);

}  // namespace

UploadStaging::UploadStaging(const Dependencies& deps,
                             const UploadOptions& options)
    : deps_(deps), options_(options) {}

UploadStaging::~UploadStaging() {
  {
    absl::MutexLock lock(&mutex_);
    exiting_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::unique_ptr<UploadStaging>> UploadStaging::Open(
    const Dependencies& deps, const UploadOptions& options) {
  std::unique_ptr<UploadStaging> staging(new UploadStaging(deps, options));
  HEARTH_RETURN_IF_ERROR(staging->Load());
  HEARTH_RETURN_IF_ERROR(staging->FindJobs());
  staging->thread_ =
      std::jthread([staging = staging.get()] { staging->Work(); });
  return staging;
}

std::string UploadStaging::FolderOf(const std::string& id) const {
  return io::JoinPath(options_.folder, id);
}

v1::Upload UploadStaging::ToProto(const std::string& id,
                                  const Entry& entry) const {
  const StagedUpload& upload = *entry.upload;
  v1::Upload message;
  message.set_id(id);
  message.set_size_bytes(upload.size_bytes());
  message.set_received_bytes(upload.received_bytes());
  message.set_name(upload.request().name());
  message.set_owner(upload.owner());
  message.set_num_files(static_cast<uint32_t>(upload.request().files_size()));
  message.set_job_id(entry.job);
  if (!entry.job.empty()) return message;
  const absl::Duration idle =
      absl::Seconds(deps_.clock.SteadySeconds() - upload.last_progress());
  message.mutable_expire_time()->set_seconds(
      absl::ToUnixSeconds(deps_.clock.Now() + PatienceWith(upload) - idle));
  return message;
}

absl::Status UploadStaging::Load() {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          deps_.files.List(options_.folder));
  for (const std::string& name : names) {
    absl::StatusOr<std::unique_ptr<StagedUpload>> upload =
        StagedUpload::Load({deps_.files, deps_.clock, FolderOf(name)});
    if (upload.ok()) {
      absl::MutexLock lock(&mutex_);
      uploads_[name].upload = *std::move(upload);
      continue;
    }
    if (!absl::IsDataLoss(upload.status()) &&
        !absl::IsNotFound(upload.status())) {
      // The upload may be readable at the next start.
      LogWarning(name, ": not loaded: ", upload.status().ToString());
      continue;
    }
    // The upload was not begun when the daemon died, or is damaged.
    LogWarning("upload removed: ", upload.status().ToString());
    HEARTH_RETURN_IF_ERROR(deps_.trash.Throw(FolderOf(name)));
  }
  return absl::OkStatus();
}

absl::Status UploadStaging::FindJobs() {
  {
    absl::MutexLock lock(&mutex_);
    if (uploads_.empty()) return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> unended,
                          deps_.jobs.Unended());
  for (const v1::Job& job : unended)
    Use(job.spec().import().upload(), job.id());
  bool is_whole_without_job = false;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, entry] : uploads_) {
      is_whole_without_job |= entry.job.empty() && entry.upload->IsWhole();
    }
  }
  // The daemon may have died just after the job had ended.
  JobQuery query;
  query.states = {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED};
  while (is_whole_without_job) {
    HEARTH_ASSIGN_OR_RETURN(const JobPage page, deps_.jobs.List(query));
    for (const v1::Job& job : page.jobs) {
      const std::string& id = job.spec().import().upload();
      if (!id.empty() && Find(id).ok() && !HasJob(id)) Remove(id);
    }
    if (page.next_page_token.empty()) break;
    query.page_token = page.next_page_token;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Upload> UploadStaging::Begin(
    const v1::BeginUploadRequest& request, const std::string& owner,
    bool is_operator) {
  HEARTH_RETURN_IF_ERROR(CheckUploadRequest(request));
  absl::MutexLock one_at_a_time(&beginning_);
  const std::string before = FindOf(owner, request.name());
  if (!before.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<StagedUpload> upload,
                            Find(before));
    if (google::protobuf::util::MessageDifferencer::Equals(upload->request(),
                                                           request)) {
      return Get(before);
    }
    if (HasJob(before)) {
      return absl::FailedPreconditionError(
          absl::StrCat("other files for ", request.name(), ", ", before,
                       ", are being imported; begin when that has ended"));
    }
    Remove(before);
  }
  HEARTH_RETURN_IF_ERROR(CheckRoom(SizeOf(request), owner, is_operator));
  HEARTH_ASSIGN_OR_RETURN(const std::string id, NewId());
  absl::StatusOr<std::shared_ptr<StagedUpload>> upload = StagedUpload::Make(
      {deps_.files, deps_.clock, FolderOf(id)}, owner, request);
  if (!upload.ok()) {
    // The first error is returned.
    deps_.files.RemoveTree(FolderOf(id)).IgnoreError();
    return upload.status();
  }
  absl::MutexLock lock(&mutex_);
  Entry& entry = uploads_[id];
  entry.upload = *std::move(upload);
  changed_.Signal();
  return ToProto(id, entry);
}

std::string UploadStaging::FindOf(const std::string& owner,
                                  const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : uploads_) {
    if (entry.upload->owner() == owner &&
        entry.upload->request().name() == name) {
      return id;
    }
  }
  return "";
}

absl::Status UploadStaging::CheckRoom(uint64_t bytes, const std::string& owner,
                                      bool is_operator) const {
  if (options_.limit_bytes == 0) {
    return absl::PermissionDeniedError(
        "this hearthd takes no uploads: its --upload-limit is 0");
  }
  uint64_t all = 0;
  uint64_t own = 0;
  size_t num_own = 0;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, entry] : uploads_) {
      all += entry.upload->size_bytes();
      if (entry.upload->owner() != owner) continue;
      own += entry.upload->size_bytes();
      ++num_own;
    }
    if (num_own >= kMostPerOwner || uploads_.size() >= kMostUploads) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", num_own, " uploads of ", owner, " and ",
                       uploads_.size(), " in all; at most ", kMostPerOwner,
                       " and ", kMostUploads, " are kept"));
    }
  }
  const uint64_t own_limit =
      is_operator ? options_.limit_bytes : options_.limit_bytes / 2;
  if (all > options_.limit_bytes || bytes > options_.limit_bytes - all) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an upload of ", FormatByteSize(bytes), " does not fit: uploads take ",
        FormatByteSize(all), " already, and hearthd --upload-limit is ",
        FormatByteSize(options_.limit_bytes)));
  }
  if (own > own_limit || bytes > own_limit - own) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an upload of ", FormatByteSize(bytes), " does not fit: uploads of ",
        owner, " take ", FormatByteSize(own),
        " already, and a caller who is no operator may take ",
        FormatByteSize(own_limit), ", half of hearthd --upload-limit"));
  }
  HEARTH_ASSIGN_OR_RETURN(const uint64_t free,
                          deps_.files.FreeBytes(options_.folder));
  if (bytes > free) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "an upload of ", FormatByteSize(bytes), " needs more than the ",
        FormatByteSize(free), " that are free on the daemon's disk"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<StagedUpload>> UploadStaging::Find(
    const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return NoUpload(id);
  return found->second.upload;
}

absl::StatusOr<v1::Upload> UploadStaging::Get(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return NoUpload(id);
  return ToProto(id, found->second);
}

std::vector<v1::Upload> UploadStaging::List() const {
  std::vector<v1::Upload> uploads;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [id, entry] : uploads_) {
      uploads.push_back(ToProto(id, entry));
    }
  }
  std::stable_sort(uploads.begin(), uploads.end(),
                   [](const v1::Upload& a, const v1::Upload& b) {
                     return a.name() < b.name();
                   });
  return uploads;
}

absl::Status UploadStaging::Delete(const std::string& id) {
  // Meanwhile no upload begins that would continue this one.
  absl::MutexLock one_at_a_time(&beginning_);
  std::map<std::string, Entry>::node_type deleted;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = uploads_.find(id);
    if (found == uploads_.end()) return NoUpload(id);
    if (!found->second.job.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("upload \"", id, "\" is used by ", found->second.job));
    }
    deleted = uploads_.extract(found);
  }
  const absl::Status thrown = deps_.trash.Throw(FolderOf(id));
  if (thrown.ok()) return absl::OkStatus();
  // The folder still exists: another call may succeed.
  absl::MutexLock lock(&mutex_);
  uploads_.insert(std::move(deleted));
  changed_.Signal();
  return thrown;
}

absl::StatusOr<std::string> UploadStaging::GetOwner(
    const std::string& id) const {
  HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<StagedUpload> upload, Find(id));
  return upload->owner();
}

absl::StatusOr<std::string> UploadStaging::SourceOf(
    const std::string& id) const {
  HEARTH_ASSIGN_OR_RETURN(const std::shared_ptr<StagedUpload> upload, Find(id));
  if (!upload->IsWhole()) {
    return absl::FailedPreconditionError(
        absl::StrCat(id, ": of ", upload->size_bytes(), " bytes ",
                     upload->received_bytes(), " have come"));
  }
  upload->Touch();
  return upload->SourcePath();
}

bool UploadStaging::HasJob(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(id);
  return found != uploads_.end() && !found->second.job.empty();
}

void UploadStaging::Use(const std::string& id, const std::string& job) {
  absl::MutexLock lock(&mutex_);
  const auto found = uploads_.find(id);
  if (found == uploads_.end()) return;
  found->second.job = job;
  // The job may have ended by now.
  told_.insert(job);
  changed_.Signal();
}

void UploadStaging::OnJobEvent(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [id, entry] : uploads_) {
    if (entry.job == job) {
      told_.insert(job);
      changed_.Signal();
    }
  }
}

void UploadStaging::Remove(const std::string& id) {
  {
    absl::MutexLock lock(&mutex_);
    if (uploads_.erase(id) == 0) return;
  }
  const absl::Status thrown = deps_.trash.Throw(FolderOf(id));
  if (!thrown.ok()) {
    LogWarning(id, ": not removed: ", thrown.ToString());
  }
}

absl::Duration UploadStaging::PatienceWith(const StagedUpload& upload) const {
  const bool has_begun = upload.received_bytes() > 0 || upload.IsWhole();
  return has_begun ? options_.patience
                   : std::min(options_.patience, kPatienceWithFirstByte);
}

void UploadStaging::RemoveUnused() {
  absl::MutexLock one_at_a_time(&removing_);
  std::map<std::string, std::string> used;
  std::vector<std::string> unused;
  {
    absl::MutexLock lock(&mutex_);
    const double now = deps_.clock.SteadySeconds();
    for (const auto& [id, entry] : uploads_) {
      if (entry.job.empty() &&
          now - entry.upload->last_progress() >=
              absl::ToDoubleSeconds(PatienceWith(*entry.upload))) {
        unused.push_back(id);
      } else if (told_.contains(entry.job)) {
        used[id] = entry.job;
      }
    }
    told_.clear();
  }
  for (const auto& [id, name] : used) {
    const absl::StatusOr<v1::Job> job = deps_.jobs.Get(name);
    if (job.ok() ? HasEnded(job->state()) : absl::IsNotFound(job.status())) {
      unused.push_back(id);
    } else if (!job.ok()) {
      absl::MutexLock lock(&mutex_);
      unanswered_.insert(name);
    }
  }
  for (const std::string& id : unused) Remove(id);
}

void UploadStaging::Work() {
  while (Await()) RemoveUnused();
}

bool UploadStaging::Await() {
  absl::MutexLock lock(&mutex_);
  while (!exiting_ && told_.empty()) {
    absl::Duration left =
        unanswered_.empty() ? options_.patience : kPauseBeforeAsking;
    for (const auto& [id, entry] : uploads_) {
      if (!entry.job.empty()) continue;
      const double idle =
          deps_.clock.SteadySeconds() - entry.upload->last_progress();
      left = std::min(left, PatienceWith(*entry.upload) - absl::Seconds(idle));
    }
    if (left <= absl::ZeroDuration()) return true;
    if (changed_.WaitWithTimeout(&mutex_, left)) told_.merge(unanswered_);
  }
  return !exiting_;
}

}  // namespace hearth::server
