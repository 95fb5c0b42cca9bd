#include "server/storage/job_folders.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/type.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/type_resolver.h>
#include <google/protobuf/util/type_resolver_util.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/store/sealed_json.h"
#include "nlohmann/json.hpp"
#include "server/storage/data_dir.h"
#include "server/storage/job_id.h"

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

}  // namespace hearth::server
