#include "server/storage/job_uses.h"

#include "absl/strings/str_cat.h"

namespace hearth::server {

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
