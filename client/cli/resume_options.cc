#include "client/cli/resume_options.h"

#include <google/protobuf/descriptor.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "proto/options/option_table.h"

namespace hearth::cli {
namespace {

using google::protobuf::FieldDescriptor;
using options::Option;
using options::OptionTable;

const OptionTable& JobTable() {
  static const auto& table = *new OptionTable(*v1::JobSpec::descriptor());
  return table;
}

std::vector<Flag> FindResumeFlags() {
  std::vector<Flag> flags;
  for (const Flag& flag : FlagsOf(JobTable())) {
    if (flag.common || flag.choice != nullptr ||
        !flag.options.front()->description.changes_no_result()) {
      continue;
    }
    flags.push_back(flag);
  }
  return flags;
}

// The flag with the fields that it sets in jobs of this kind.
Flag OfKind(const Flag& flag, const FieldDescriptor& kind) {
  Flag narrowed = flag;
  narrowed.options.clear();
  for (const Option* option : flag.options) {
    if (option->path.front() == &kind) narrowed.options.push_back(option);
  }
  return narrowed;
}

}  // namespace

const std::vector<Flag>& ResumeFlags() {
  static const auto& flags = *new std::vector<Flag>(FindResumeFlags());
  return flags;
}

absl::Status ChangeOptions(const OptionValues& values, v1::JobSpec& spec) {
  const FieldDescriptor* kind = spec.GetReflection()->GetOneofFieldDescriptor(
      spec, spec.GetDescriptor()->FindOneofByName("kind"));
  const options::Chosen chosen = JobTable().ChosenIn(spec);
  for (const Flag& flag : ResumeFlags()) {
    const auto value = values.find(flag.name);
    if (value == values.end()) continue;
    const Flag narrowed = kind == nullptr ? Flag() : OfKind(flag, *kind);
    if (narrowed.options.empty()) {
      return ValueError(
          value->second,
          absl::StrCat("is not for a job of kind ",
                       kind == nullptr
                           ? "unknown"
                           : absl::StrReplaceAll(kind->name(), {{"_", "-"}})));
    }
    HEARTH_RETURN_IF_ERROR(SetField(narrowed, value->second, chosen, spec));
  }
  return absl::OkStatus();
}

}  // namespace hearth::cli
