#include "server/storage/job_state.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hearth::server {

google::protobuf::Timestamp TimestampOf(int64_t nanoseconds) {
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(nanoseconds / 1'000'000'000);
  timestamp.set_nanos(static_cast<int32_t>(nanoseconds % 1'000'000'000));
  return timestamp;
}

int64_t NanosecondsOf(const google::protobuf::Timestamp& timestamp) {
  return timestamp.seconds() * 1'000'000'000 + timestamp.nanos();
}

std::string MakeJobId(const std::string& kind, int64_t number) {
  return absl::StrCat(kind, "-", number);
}

int64_t JobNumber(const std::string& id) {
  const size_t dash = id.rfind('-');
  int64_t number = 0;
  if (dash == std::string::npos ||
      !absl::SimpleAtoi(id.substr(dash + 1), &number) ||
      MakeJobId(id.substr(0, dash), number) != id) {
    return 0;
  }
  return number;
}

bool HasEnded(v1::JobState state) {
  return state == v1::SUCCEEDED || state == v1::FAILED ||
         state == v1::CANCELLED;
}

bool IsActive(v1::JobState state) {
  return state == v1::PREPARING || state == v1::RUNNING;
}

bool MayFollow(v1::JobState from, v1::JobState to) {
  switch (to) {
    case v1::PREPARING:
      return from == v1::QUEUED || from == v1::WAITING;
    case v1::RUNNING:
      return from == v1::PREPARING;
    case v1::SUCCEEDED:
      return from == v1::RUNNING;
    case v1::FAILED:
      return from == v1::QUEUED || from == v1::WAITING || IsActive(from);
    case v1::QUEUED:
      return IsActive(from) || from == v1::FAILED || from == v1::CANCELLED;
    case v1::WAITING:
      return IsActive(from);
    case v1::CANCELLED:
      return from == v1::QUEUED || from == v1::WAITING || IsActive(from);
    default:
      return false;
  }
}

std::string DatasetUse(const std::string& name) {
  return absl::StrCat("dataset \"", name, "\"");
}
std::string ModelUse(const std::string& job_id) {
  return absl::StrCat("model of ", job_id);
}
std::string UploadUse(const std::string& id) {
  return absl::StrCat("upload ", id);
}

std::vector<std::string> UsesOf(const v1::JobSpec& spec) {
  switch (spec.kind_case()) {
    case v1::JobSpec::kTrain:
      return {DatasetUse(spec.train().data().dataset())};
    case v1::JobSpec::kImport:
      if (spec.import().upload().empty()) {
        return {DatasetUse(spec.import().name())};
      }
      return {DatasetUse(spec.import().name()),
              UploadUse(spec.import().upload())};
    case v1::JobSpec::kGenerate:
      return {DatasetUse(spec.generate().name())};
    case v1::JobSpec::kVerify:
      return {DatasetUse(spec.verify().dataset())};
    case v1::JobSpec::kExportDataset:
      return {DatasetUse(spec.export_dataset().dataset())};
    case v1::JobSpec::kPrepare:
      return {DatasetUse(spec.prepare().data().dataset())};
    case v1::JobSpec::kExplain:
      return {DatasetUse(spec.explain().train().data().dataset())};
    case v1::JobSpec::kFeed:
      return {DatasetUse(spec.feed().data().dataset())};
    case v1::JobSpec::kRank:
      return {DatasetUse(spec.rank().train().data().dataset())};
    case v1::JobSpec::kExport:
      return {ModelUse(spec.export_().job_id())};
    case v1::JobSpec::kEvaluate:
      return {DatasetUse(spec.evaluate().train().data().dataset()),
              ModelUse(spec.evaluate().job_id())};
    case v1::JobSpec::KIND_NOT_SET:
      break;
  }
  return {};
}

}  // namespace hearth::server
