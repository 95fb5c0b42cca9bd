#include "server/storage/job_recovery.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/type.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>
#include <spdlog/spdlog.h>

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
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"
#include "server/storage/data_dir.h"
#include "server/storage/job_state.h"

namespace hearth::server {

namespace {

namespace protobuf = google::protobuf;

// Before the names of types; some are treated in their own way by it.
constexpr char kTypeUrls[] = "type.googleapis.com";
constexpr char kDeletedName[] = "deleted.json";
constexpr uint64_t kMaxCopyBytes = uint64_t{256} << 20;
// Versions of job.json: with the job as JSON, which people can read; and with
// it serialized, which takes a tenth of the time.
constexpr int kReadableFormat = 1;
constexpr int kSerializedFormat = 2;

// Tells types as the printer asks for them, anew for each message that it
// prints. It has no use for the options of fields; ours have so many that
// making them again takes most of the time.
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

// The number in the file, or 0.
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
  // A deletion that began and failed is taken back.
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

// A job that had not ended is queued again: its folder tells neither how far it
// came nor that anybody gave it up, and it goes on from its last checkpoint,
// which costs less than a result that nobody computes. A row wins over a copy,
// which is only written after it.

namespace {

// Times of files lag behind the clock by up to a tick of the kernel.
constexpr absl::Duration kFileTimeLag = absl::Milliseconds(20);
// Sequence numbers left out where events were lost, so that no watcher has seen
// a number that is given out again.
constexpr uint64_t kSequenceGap = 1'000'000;

void Warn(std::string text, std::vector<std::string>& warnings) {
  spdlog::error("{}", text);
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
  // SQLite finds the log of the file aside by its name.
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

// Makes the row and the events of a job that only its folder knows.
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

  // A folder that cannot be moved or removed is in nobody's way.
  void Leave(const std::string& name, const absl::Status& status) {
    if (status.ok()) return;
    Warn(absl::StrCat("jobs/", name,
                      " belongs to no job and stays: ", status.message()),
         warnings_);
  }

  // The row is there, so a start does not fail for want of a copy.
  void Repair(const std::string& id) {
    const absl::StatusOr<v1::Job> job = rows_.Read(id);
    absl::Status status = job.status();
    if (status.ok()) {
      const auto request_id = rows_.ReadRequestId(id);
      status = folders_.Write(*job, request_id.value_or(""));
    }
    if (!status.ok()) {
      spdlog::warn("{}: no copy in its folder: {}", id, status.ToString());
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
    spdlog::error("a row of the database is set aside: {}", reason);
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

}  // namespace hearth::server
