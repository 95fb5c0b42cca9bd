#include "server/storage/job_recovery.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/type.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"
#include "server/log.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_rows.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sqlite.h"

namespace hearth::server {

namespace {

namespace protobuf = google::protobuf;

// Prefix of type names; the JSON printer treats some well-known types specially
// by it.
constexpr char kTypeUrls[] = "type.googleapis.com";
constexpr char kDeletedName[] = "deleted.json";
constexpr uint64_t kMaxCopyBytes = uint64_t{256} << 20;
// Versions of job.json: with the job as readable JSON, and with the job
// serialized, which takes a tenth of the time.
constexpr int kReadableFormat = 1;
constexpr int kSerializedFormat = 2;

// Resolver that keeps the types that the JSON printer asks for; it asks again
// for each message. Options of fields are left out: the printer does not use
// them, and copying them takes most of the time.
class BareTypes final : public protobuf::util::TypeResolver {
 public:
  protobuf::util::Status ResolveMessageType(const std::string& url,
                                            protobuf::Type* type) override {
    absl::MutexLock lock(&mutex_);
    protobuf::Type& bare = types_[url];
    if (bare.name().empty()) {
      const auto found = whole_->ResolveMessageType(url, &bare);
      if (!found.ok()) return found;
      for (auto& field : *bare.mutable_fields()) field.clear_options();
    }
    *type = bare;
    return {};
  }

  protobuf::util::Status ResolveEnumType(const std::string& url,
                                         protobuf::Enum* type) override {
    return whole_->ResolveEnumType(url, type);
  }

 private:
  const std::unique_ptr<protobuf::util::TypeResolver> whole_{
      protobuf::util::NewTypeResolverForDescriptorPool(
          kTypeUrls, protobuf::DescriptorPool::generated_pool())};
  absl::Mutex mutex_;
  std::map<std::string, protobuf::Type> types_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<std::string> ToText(const v1::Job& job,
                                   const std::string& request_id) {
  static BareTypes& types = *new BareTypes;
  std::string message;
  protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  const auto printed = protobuf::util::BinaryToJsonString(
      &types, absl::StrCat(kTypeUrls, "/", job.GetTypeName()),
      job.SerializeAsString(), &message, options);
  if (!printed.ok()) {
    return absl::InternalError(
        absl::StrCat(job.id(), " as JSON: ", printed.ToString()));
  }
  return store::SealJson(
      {{"format", kReadableFormat},
       {"request_id", request_id},
       {"job", nlohmann::ordered_json::parse(message, nullptr, false)}});
}

std::string ToSerializedText(const v1::Job& job,
                             const std::string& request_id) {
  return store::SealJson(
      {{"format", kSerializedFormat},
       {"request_id", request_id},
       {"job", absl::Base64Escape(job.SerializeAsString())}});
}

absl::Status ParseJob(int format, const nlohmann::json& text, v1::Job& job) {
  if (format == kReadableFormat) {
    protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;
    const auto parsed =
        protobuf::util::JsonStringToMessage(text.dump(), &job, options);
    return parsed.ok() ? absl::OkStatus()
                       : absl::DataLossError(parsed.ToString());
  }
  std::string serialized;
  if (format == kSerializedFormat && text.is_string() &&
      absl::Base64Unescape(text.get<std::string>(), &serialized) &&
      job.ParseFromString(serialized)) {
    return absl::OkStatus();
  }
  return absl::DataLossError("is no copy of a job of this version");
}

absl::StatusOr<JobFolders::Copy> FromText(const std::string& text) {
  HEARTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                          store::OpenSealedJson(text));
  const auto format = json.find("format");
  const auto request_id = json.find("request_id");
  const auto job = json.find("job");
  if (format == json.end() || !format->is_number_integer() ||
      request_id == json.end() || !request_id->is_string() ||
      job == json.end()) {
    return absl::DataLossError("is no copy of a job of this version");
  }
  JobFolders::Copy copy;
  copy.request_id = request_id->get<std::string>();
  HEARTH_RETURN_IF_ERROR(ParseJob(format->get<int>(), *job, copy.job));
  return copy;
}

// Number in the file `path`, or 0.
int64_t ReadNumber(io::FileSystem& files, const std::string& path) {
  const absl::StatusOr<std::string> text = io::ReadWholeFile(files, path, 64);
  int64_t number = 0;
  return text.ok() && absl::SimpleAtoi(*text, &number) ? number : 0;
}

}  // namespace

JobFolders::JobFolders(io::FileSystem& files, const std::string& data_dir)
    : files_(files),
      data_dir_(data_dir),
      jobs_(io::JoinPath(data_dir, DataDir::kJobsName)),
      lost_(io::JoinPath(data_dir, "lost+found")) {}

std::string JobFolders::Path(const std::string& id) const {
  return io::JoinPath(jobs_, id);
}

absl::Status JobFolders::Write(const v1::Job& job,
                               const std::string& request_id) {
  HEARTH_ASSIGN_OR_RETURN(const std::string text, ToText(job, request_id));
  const std::string folder = Path(job.id());
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder));
  HEARTH_RETURN_IF_ERROR(
      io::WriteFileAtomically(files_, io::JoinPath(folder, kCopyName), text));
  // A deletion that began and failed is undone.
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(io::JoinPath(folder, kDeletedName)));
  return files_.SyncDirectory(jobs_);
}

absl::Status JobFolders::WriteFirst(const v1::Job& job,
                                    const std::string& request_id) {
  const std::string text = ToSerializedText(job, request_id);
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(Path(job.id())));
  const std::string path = io::JoinPath(Path(job.id()), kCopyName);
  const std::string unfinished = absl::StrCat(path, io::kTemporarySuffix);
  {
    HEARTH_ASSIGN_OR_RETURN(const auto file, files_.Create(unfinished));
    HEARTH_RETURN_IF_ERROR(file->Append(
        {reinterpret_cast<const std::byte*>(text.data()), text.size()}));
    HEARTH_RETURN_IF_ERROR(file->Close());
  }
  return files_.Rename(unfinished, path);
}

absl::Status JobFolders::MarkDeleted(const std::string& id, int64_t number) {
  const std::string last = io::JoinPath(data_dir_, kLastDeletedName);
  if (number > ReadNumber(files_, last)) {
    HEARTH_RETURN_IF_ERROR(
        io::WriteFileAtomically(files_, last, absl::StrCat(number, "\n")));
  }
  const absl::Status marked = files_.Rename(
      io::JoinPath(Path(id), kCopyName), io::JoinPath(Path(id), kDeletedName));
  if (absl::IsNotFound(marked)) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(marked);
  return files_.SyncDirectory(Path(id));
}

absl::StatusOr<JobFolders::Copy> JobFolders::Read(const std::string& id) {
  std::string path = io::JoinPath(Path(id), kCopyName);
  absl::StatusOr<std::string> text =
      io::ReadWholeFile(files_, path, kMaxCopyBytes);
  const bool is_deleted = absl::IsNotFound(text.status());
  if (is_deleted) {
    path = io::JoinPath(Path(id), kDeletedName);
    text = io::ReadWholeFile(files_, path, kMaxCopyBytes);
  }
  HEARTH_RETURN_IF_ERROR(text.status());
  absl::StatusOr<Copy> copy = FromText(*text);
  if (!copy.ok()) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", copy.status().message()));
  }
  if (copy->job.id() != id) {
    return absl::DataLossError(
        absl::StrCat(path, ": belongs to job ", copy->job.id()));
  }
  copy->is_deleted = is_deleted;
  return copy;
}

bool JobFolders::WasNeverWritten(const std::string& id) {
  const std::string unfinished = absl::StrCat(kCopyName, io::kTemporarySuffix);
  const absl::StatusOr<std::vector<std::string>> names = files_.List(Path(id));
  return names.ok() &&
         std::all_of(names->begin(), names->end(),
                     [&](const auto& name) { return name == unfinished; });
}

absl::Time JobFolders::WrittenAt(const std::string& id) {
  const absl::StatusOr<io::FileInfo> info =
      files_.Stat(io::JoinPath(Path(id), kCopyName));
  return info.ok() && info->size_bytes > 0 ? info->modified
                                           : absl::InfinitePast();
}

absl::StatusOr<std::vector<std::string>> JobFolders::List() {
  return files_.List(jobs_);
}

absl::Status JobFolders::Remove(const std::string& id) {
  return files_.RemoveTree(Path(id));
}

absl::StatusOr<std::string> JobFolders::SetAside(const std::string& id) {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(lost_));
  std::string path = io::JoinPath(lost_, id);
  for (int copy = 2; files_.Stat(path).ok(); ++copy) {
    path = io::JoinPath(lost_, absl::StrCat(id, ".", copy));
  }
  HEARTH_RETURN_IF_ERROR(files_.Rename(Path(id), path));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(lost_));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(jobs_));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(data_dir_));
  return path;
}

absl::StatusOr<int64_t> JobFolders::GreatestNumber(
    const std::vector<std::string>& names) {
  absl::StatusOr<std::vector<std::string>> lost = files_.List(lost_);
  if (absl::IsNotFound(lost.status())) lost.emplace();
  HEARTH_RETURN_IF_ERROR(lost.status());
  lost->insert(lost->end(), names.begin(), names.end());
  int64_t greatest =
      ReadNumber(files_, io::JoinPath(data_dir_, kLastDeletedName));
  for (const std::string& name : *lost) {
    greatest = std::max(greatest, JobNumber(name.substr(0, name.find('.'))));
  }
  return greatest;
}

// An unended job is queued again: its folder tells neither how far it came nor
// whether it was given up, and going on from its last checkpoint costs less
// than a result that nobody computes. A row wins over a copy, which is only
// written after it.

namespace {

// File times lag behind the clock by up to a kernel tick.
constexpr absl::Duration kFileTimeLag = absl::Milliseconds(20);
// Sequence numbers skipped where events were lost, so that no number that a
// watcher has seen is given out again.
constexpr uint64_t kSequenceGap = 1'000'000;

void Warn(std::string text, std::vector<std::string>& warnings) {
  LogError(text);
  warnings.push_back(std::move(text));
}

absl::StatusOr<std::unique_ptr<Database>> OpenSound(const std::string& path,
                                                    const std::string& vfs) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                          Database::Open(path, vfs));
  HEARTH_RETURN_IF_ERROR(database->CheckSound());
  return database;
}

absl::Status SetAsideFile(io::FileSystem& files, const std::string& path,
                          const std::string& aside) {
  HEARTH_RETURN_IF_ERROR(files.Rename(path, aside));
  // SQLite finds the log of a file by its name.
  for (const char* suffix : {"-wal", "-shm"}) {
    const absl::Status moved =
        files.Rename(absl::StrCat(path, suffix), absl::StrCat(aside, suffix));
    if (!absl::IsNotFound(moved)) HEARTH_RETURN_IF_ERROR(moved);
  }
  return files.SyncDirectory(io::ParentDirectory(path));
}

absl::Status AddLogEvent(JobRows& rows, const std::string& id,
                         const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_severity(v1::LogLine::WARNING);
  event.mutable_log()->set_text(text);
  return rows.AddEvent(id, std::move(event));
}

// Adds the row and the events of a job that only its folder knows.
absl::Status Adopt(JobRows& rows, JobFolders::Copy copy) {
  v1::Job& job = copy.job;
  std::string text = "the database had lost this job: its folder told of it";
  if (!HasEnded(job.state())) {
    job.set_state(v1::QUEUED);
    job.clear_report();
    job.clear_error();
    job.clear_end_time();
    job.clear_waiting_reason();
    job.set_last_sequence(job.last_sequence() + kSequenceGap);
    absl::StrAppend(&text, "; earlier events are lost");
  }
  HEARTH_RETURN_IF_ERROR(rows.InsertAgain(job, copy.request_id));
  HEARTH_RETURN_IF_ERROR(AddLogEvent(rows, job.id(), text));
  v1::JobEvent event;
  event.mutable_state()->set_state(job.state());
  if (job.has_error()) *event.mutable_state()->mutable_error() = job.error();
  return rows.AddEvent(job.id(), std::move(event));
}

class Adoption {
 public:
  Adoption(Database& database, JobRows& rows, JobFolders& folders,
           std::vector<std::string>& warnings)
      : database_(database),
        rows_(rows),
        folders_(folders),
        warnings_(warnings) {}

  absl::Status Run() {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            folders_.List());
    HEARTH_ASSIGN_OR_RETURN(const int64_t greatest,
                            folders_.GreatestNumber(names));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<StoredJob> known,
                            rows_.ReadAll());
    for (const StoredJob& job : known) known_.insert(job.id);
    HEARTH_RETURN_IF_ERROR(AdoptUnknown(names, greatest));
    for (const StoredJob& job : known) {
      if (folders_.WrittenAt(job.id) + kFileTimeLag < job.changed) {
        Repair(job.id);
      }
    }
    if (adopted_ > 0) {
      Warn(absl::StrCat(adopted_,
                        adopted_ == 1
                            ? " job that the database did not have is"
                            : " jobs that the database did not have are",
                        " listed again from jobs/"),
           warnings_);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AdoptUnknown(const std::vector<std::string>& names,
                            int64_t greatest) {
    HEARTH_ASSIGN_OR_RETURN(const auto transaction,
                            Transaction::Begin(database_));
    HEARTH_RETURN_IF_ERROR(rows_.ReserveNumbers(greatest));
    for (const std::string& name : names) {
      if (!known_.contains(name)) HEARTH_RETURN_IF_ERROR(TakeIn(name));
    }
    return transaction->Commit();
  }

  absl::Status TakeIn(const std::string& name) {
    absl::StatusOr<JobFolders::Copy> copy = folders_.Read(name);
    absl::Status readable = copy.status();
    if (copy.ok() ? copy->is_deleted : folders_.WasNeverWritten(name)) {
      Leave(name, folders_.Remove(name));
      return absl::OkStatus();
    }
    if (copy.ok()) readable = rows_.CheckFree(copy->job);
    if (!readable.ok()) {
      const absl::StatusOr<std::string> path = folders_.SetAside(name);
      Leave(name, path.status());
      if (path.ok()) {
        Warn(absl::StrCat("jobs/", name, " belongs to no job and is now ",
                          *path, ": ", readable.message()),
             warnings_);
      }
      return absl::OkStatus();
    }
    HEARTH_RETURN_IF_ERROR(Adopt(rows_, *std::move(copy)));
    ++adopted_;
    return absl::OkStatus();
  }

  // A folder that cannot be moved or removed does no harm.
  void Leave(const std::string& name, const absl::Status& status) {
    if (status.ok()) return;
    Warn(absl::StrCat("jobs/", name,
                      " belongs to no job and stays: ", status.message()),
         warnings_);
  }

  // The row exists, so a start does not fail for want of a copy.
  void Repair(const std::string& id) {
    const absl::StatusOr<v1::Job> job = rows_.Read(id);
    absl::Status status = job.status();
    if (status.ok()) {
      const auto request_id = rows_.ReadRequestId(id);
      status = folders_.Write(*job, request_id.value_or(""));
    }
    if (!status.ok()) {
      LogWarning(id, ": no copy in its folder: ", status.ToString());
    }
  }

  Database& database_;
  JobRows& rows_;
  JobFolders& folders_;
  std::vector<std::string>& warnings_;
  absl::flat_hash_set<std::string> known_;
  int adopted_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> OpenJobDatabase(
    io::FileSystem& files, const std::string& path, const std::string& vfs,
    const Clock& clock, std::vector<std::string>& warnings) {
  absl::StatusOr<std::unique_ptr<Database>> database = OpenSound(path, vfs);
  if (!absl::IsDataLoss(database.status())) return database;
  const std::string aside = absl::StrCat(
      path, ".damaged-",
      absl::FormatTime("%Y%m%dT%H%M%SZ", clock.Now(), absl::UTCTimeZone()));
  HEARTH_RETURN_IF_ERROR(SetAsideFile(files, path, aside));
  Warn(absl::StrCat("the database of jobs is damaged and is now ", aside, " (",
                    database.status().message(), "); a new one is made"),
       warnings);
  return OpenSound(path, vfs);
}

absl::Status SetAsideDamagedRows(Database& database, JobRows& rows,
                                 std::vector<std::string>& warnings) {
  HEARTH_ASSIGN_OR_RETURN(const auto transaction, Transaction::Begin(database));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> reasons,
                          rows.SetAsideDamaged());
  for (const std::string& reason : reasons) {
    LogError("a row of the database is set aside: ", reason);
  }
  HEARTH_ASSIGN_OR_RETURN(const int64_t damaged, rows.CountDamaged());
  if (damaged > 0) {
    warnings.push_back(absl::StrCat(
        damaged, damaged == 1 ? " row" : " rows", " of ", database.path(),
        " could not be read; see its table damaged_rows"));
  }
  return transaction->Commit();
}

absl::Status AdoptFolders(Database& database, JobRows& rows,
                          JobFolders& folders,
                          std::vector<std::string>& warnings) {
  return Adoption(database, rows, folders, warnings).Run();
}

// Steps of a backup:
//   1. make DESTINATION.tmp;
//   2. copy the database, then the folders, so that a model which the copied
//      database lists exists to be copied. Jobs that are added or end in
//      between are in the folders only; a start takes them from there;
//   3. sync everything, rename.

namespace {

constexpr uint64_t kChunkBytes = 1 << 20;
constexpr char kModelFolder[] = "model";

class Backup {
 public:
  Backup(io::FileSystem& files, const DataDir& data_dir, const JobStore& store,
         std::string folder)
      : files_(files),
        data_dir_(data_dir),
        store_(store),
        folder_(std::move(folder)) {}

  absl::StatusOr<BackupResult> Run() {
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
    HEARTH_RETURN_IF_ERROR(CopyDatabase());
    for (const char* name : {DataDir::kFormatName, DataDir::kTokensMarkerName,
                             JobFolders::kLastDeletedName}) {
      HEARTH_RETURN_IF_ERROR(CopyFile(io::JoinPath(data_dir_.path(), name),
                                      io::JoinPath(folder_, name)));
    }
    HEARTH_RETURN_IF_ERROR(CopyJobs());
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
    return result_;
  }

 private:
  // SQLite writes by path. It writes to the scratch folder, where nobody else
  // can redirect it; the copy is then copied as all other files.
  absl::Status CopyDatabase() {
    const std::string copy =
        io::JoinPath(data_dir_.ScratchPath(), DataDir::kDatabaseName);
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(data_dir_.ScratchPath()));
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(copy));
    absl::Status status = store_.CopyTo(copy);
    if (status.ok()) {
      status = CopyFile(copy, io::JoinPath(folder_, DataDir::kDatabaseName));
    }
    files_.RemoveTree(copy).IgnoreError();
    return status;
  }

  absl::Status CopyJobs() {
    const std::string jobs = io::JoinPath(folder_, DataDir::kJobsName);
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(jobs));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                            files_.List(data_dir_.JobsPath()));
    for (const std::string& id : ids) {
      const std::string from = data_dir_.JobPath(id);
      // A job that is being deleted has no copy any more.
      const absl::Status there =
          files_.Stat(io::JoinPath(from, JobFolders::kCopyName)).status();
      if (absl::IsNotFound(there)) continue;
      HEARTH_RETURN_IF_ERROR(there);
      HEARTH_RETURN_IF_ERROR(CopyJob(from, io::JoinPath(jobs, id)));
    }
    return files_.SyncDirectory(jobs);
  }

  absl::Status CopyJob(const std::string& from, const std::string& to) {
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(to));
    HEARTH_RETURN_IF_ERROR(CopyFile(io::JoinPath(from, JobFolders::kCopyName),
                                    io::JoinPath(to, JobFolders::kCopyName)));
    ++result_.jobs;
    const std::string model = io::JoinPath(from, kModelFolder);
    const absl::StatusOr<std::vector<std::string>> names = files_.List(model);
    if (names.ok()) {
      const std::string copy = io::JoinPath(to, kModelFolder);
      HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(copy));
      for (const std::string& name : *names) {
        HEARTH_RETURN_IF_ERROR(
            CopyFile(io::JoinPath(model, name), io::JoinPath(copy, name)));
      }
      HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(copy));
      ++result_.models;
    } else if (!absl::IsNotFound(names.status())) {
      return names.status();
    }
    return files_.SyncDirectory(to);
  }

  // Files that disappear meanwhile belong to deleted jobs.
  absl::Status CopyFile(const std::string& from, const std::string& to) {
    absl::StatusOr<std::unique_ptr<io::ReadableFile>> source =
        files_.OpenForRead(from);
    if (absl::IsNotFound(source.status())) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(source.status());
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, (*source)->Info());
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> target,
                            files_.Create(to));
    std::vector<std::byte> chunk(std::min(kChunkBytes, info.size_bytes));
    for (uint64_t offset = 0; offset < info.size_bytes;
         offset += chunk.size()) {
      chunk.resize(std::min(kChunkBytes, info.size_bytes - offset));
      HEARTH_RETURN_IF_ERROR((*source)->Read(offset, absl::MakeSpan(chunk)));
      HEARTH_RETURN_IF_ERROR(target->Append(chunk));
    }
    result_.size_bytes += info.size_bytes;
    HEARTH_RETURN_IF_ERROR(target->Sync());
    return target->Close();
  }

  io::FileSystem& files_;
  const DataDir& data_dir_;
  const JobStore& store_;
  const std::string folder_;
  BackupResult result_;
};

}  // namespace

absl::StatusOr<BackupResult> BackUp(io::FileSystem& files,
                                    const DataDir& data_dir,
                                    const JobStore& store,
                                    const std::string& destination) {
  HEARTH_RETURN_IF_ERROR(CheckOutside(files, data_dir.path(), destination));
  if (files.Stat(destination).ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, " exists; choose a new folder"));
  }
  const std::string unfinished =
      absl::StrCat(destination, io::kTemporarySuffix);
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(unfinished));
  absl::StatusOr<BackupResult> result =
      Backup(files, data_dir, store, unfinished).Run();
  absl::Status status = result.status();
  if (status.ok()) status = files.Rename(unfinished, destination);
  if (!status.ok()) {
    // The first error is returned.
    files.RemoveTree(unfinished).IgnoreError();
    return status;
  }
  HEARTH_RETURN_IF_ERROR(files.SyncDirectory(io::ParentDirectory(destination)));
  return result;
}

}  // namespace hearth::server
