#include "server/mapping/sweep_mapping.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/status.h"
#include "proto/options/command_line.h"
#include "proto/options/option_table.h"
#include "proto/options/option_value.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {
namespace {

using google::protobuf::FieldDescriptor;
using options::Choice;
using options::NamedOption;
using options::Option;
using options::OptionTable;

const OptionTable& TrainTable() {
  static const auto& table = *new OptionTable(*v1::TrainJobSpec::descriptor());
  return table;
}

sweep::Domain ToDomain(const v1::SweepParameter& parameter) {
  switch (parameter.domain_case()) {
    case v1::SweepParameter::kIntegers:
      return sweep::IntRange{.low = parameter.integers().low(),
                             .high = parameter.integers().high(),
                             .steps = parameter.integers().steps()};
    case v1::SweepParameter::kUniform:
      return sweep::RealRange{.low = parameter.uniform().low(),
                              .high = parameter.uniform().high(),
                              .steps = parameter.uniform().steps()};
    case v1::SweepParameter::kLogUniform:
      return sweep::RealRange{.low = parameter.log_uniform().low(),
                              .high = parameter.log_uniform().high(),
                              .steps = parameter.log_uniform().steps(),
                              .is_log = true};
    case v1::SweepParameter::kChoice:
    case v1::SweepParameter::DOMAIN_NOT_SET:
      break;
  }
  return sweep::Choice{
      {parameter.choice().values().begin(), parameter.choice().values().end()}};
}

// Whether a parameter changes batches.
bool IsAboutData(const std::string& name) {
  const NamedOption named = options::FindNamed(TrainTable(), name);
  const auto is_about_data = [](const options::Path& path) {
    return !path.empty() && path.front()->name() == "data";
  };
  if (named.choice != nullptr) return is_about_data(named.choice->path);
  return std::any_of(
      named.options.begin(), named.options.end(),
      [&](const Option* option) { return is_about_data(option->path); });
}

sweep::Space ToSpace(const v1::SweepSpec& spec) {
  sweep::Space space;
  for (const v1::SweepParameter& parameter : spec.space()) {
    space.push_back({parameter.name(), ToDomain(parameter)});
  }
  return space;
}

// Grid of the trials of a validated spec; nullopt if trials are drawn.
std::optional<sweep::Space> GridOf(const v1::SweepSpec& spec) {
  if (spec.has_grid()) return ToSpace(spec);
  if (spec.every_point()) return sweep::EveryPoint(ToSpace(spec));
  return std::nullopt;
}

// Whether the trials of a spec could be all points of its space.
bool HasTrialsForEveryPoint(const v1::SweepSpec& spec) {
  if (spec.has_grid() || spec.has_manual()) return false;
  const std::optional<sweep::Space> every = sweep::EveryPoint(ToSpace(spec));
  return every.has_value() &&
         sweep::GridSize(*every, spec.trials()) <= spec.trials();
}

sweep::Stopping ToStopping(const v1::SweepSpec& spec) {
  switch (spec.algorithm_case()) {
    case v1::SweepSpec::kAsha:
      return sweep::Asha{.eta = spec.asha().eta(),
                         .first_rung = spec.asha().first_rung()};
    case v1::SweepSpec::kHalving:
      return sweep::Halving{.eta = spec.halving().eta(),
                            .first_rung = spec.halving().first_rung()};
    case v1::SweepSpec::kMedian:
      return sweep::Median{.first_epoch = spec.median().first_rung()};
    case v1::SweepSpec::kGrid:
    case v1::SweepSpec::kRandom:
    case v1::SweepSpec::kManual:
    case v1::SweepSpec::ALGORITHM_NOT_SET:
      break;
  }
  return sweep::RunAll{};
}

bool StopsEarly(const v1::SweepSpec& spec) {
  return spec.has_asha() || spec.has_halving() || spec.has_median();
}

uint32_t FirstRungOf(const v1::SweepSpec& spec) {
  return spec.has_asha()      ? spec.asha().first_rung()
         : spec.has_halving() ? spec.halving().first_rung()
                              : spec.median().first_rung();
}

uint32_t EpochsOf(const v1::SweepSpec& spec) {
  const uint32_t epochs = spec.train().data().epochs();
  if (epochs > 0) return epochs;
  const NamedOption named = options::FindNamed(TrainTable(), "epochs");
  v1::TrainJobSpec filled;
  options::SetFromText(*named.options.front(),
                       options::DefaultOf(*named.options.front(), {}), filled)
      .IgnoreError();
  return filled.data().epochs();
}

// Names of a train job's options.
std::vector<std::string> SweptNames() {
  std::vector<std::string> names;
  for (const Choice& choice : TrainTable().choices()) {
    names.push_back(choice.description.flag());
  }
  for (const Option& option : TrainTable().options()) {
    names.push_back(option.description.flag());
  }
  return names;
}

// Reason why a sweep cannot vary the option; empty if it can.
std::string WhyNotSwept(absl::string_view name, const NamedOption& named) {
  if (named.empty()) {
    return absl::StrCat("is not an option of a train job",
                        options::DidYouMean(name, SweptNames()));
  }
  if (name == "dataset" || name == "strategy") {
    return "cannot be searched: trials read the same data in the same way";
  }
  if (name == "metric") return "cannot be searched: it compares the trials";
  if (name == "skip-test") return "cannot be searched: it trains nothing";
  if (named.choice == nullptr &&
      std::all_of(named.options.begin(), named.options.end(),
                  [](const Option* option) {
                    return option->description.changes_no_result();
                  })) {
    return "cannot be searched: it changes no result";
  }
  return "";
}

// OK if the option accepts the value under any choice of alternatives.
absl::Status CheckValue(const NamedOption& named, const std::string& value) {
  if (named.choice != nullptr) {
    if (named.choice->Find(value) != nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "is not one of ", absl::StrJoin(named.choice->Names(), ", "),
        options::DidYouMean(value, named.choice->Names())));
  }
  absl::Status status;
  for (const Option* option : named.options) {
    v1::TrainJobSpec scratch;
    status = options::SetFromText(*option, value, scratch);
    if (status.ok()) return status;
  }
  return status;
}

// Drops values that mean the same as an earlier one. REQUIRES: CheckValue is OK
// for all of them.
void DropRepeated(const NamedOption& named, v1::ValueList& values) {
  std::set<std::string> meanings;
  const auto is_repeated = [&](const std::string& value) {
    std::string meaning = value;
    for (const Option* option : named.options) {
      v1::TrainJobSpec scratch;
      if (!options::SetFromText(*option, value, scratch).ok()) continue;
      meaning = scratch.SerializeAsString();
      break;
    }
    return !meanings.insert(meaning).second;
  };
  auto& all = *values.mutable_values();
  all.erase(std::remove_if(all.begin(), all.end(), is_repeated), all.end());
}

// Reason why the option cannot have values of the domain's kind; empty if it
// can.
std::string KindFault(const NamedOption& named, const sweep::Domain& domain) {
  if (std::holds_alternative<sweep::Choice>(domain)) return "";
  if (named.choice != nullptr) return "takes names: give a choice of them";
  const FieldDescriptor& field = named.options.front()->field();
  if (field.is_repeated()) return "takes lists: give a choice of them";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "";
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_BOOL:
      return "takes words: give a choice of them";
    default:
      return std::holds_alternative<sweep::IntRange>(domain)
                 ? ""
                 : "takes whole numbers: give a range of integers";
  }
}

// Values that represent a domain: all of a choice; the ends of a range, since
// bounds have no gaps.
std::vector<std::string> EndsOf(const sweep::Domain& domain) {
  if (const auto* choice = std::get_if<sweep::Choice>(&domain)) {
    return choice->values;
  }
  if (const auto* range = std::get_if<sweep::IntRange>(&domain)) {
    return {absl::StrCat(range->low), absl::StrCat(range->high)};
  }
  const auto& range = std::get<sweep::RealRange>(domain);
  return {absl::StrFormat("%.17g", range.low),
          absl::StrFormat("%.17g", range.high)};
}

void ChooseDefaults(v1::TrainJobSpec& train) {
  for (const Choice& choice : TrainTable().choices()) {
    const options::Chosen chosen = TrainTable().ChosenIn(train);
    if (chosen.contains(choice.oneof)) continue;
    google::protobuf::Message& parent = options::Make(choice.path, train);
    parent.GetReflection()->MutableMessage(
        &parent, choice.Find(options::DefaultOf(choice, chosen)));
  }
}

// Checks one spec in steps, each only if the earlier steps found no fault.
class SweepChecker {
 public:
  SweepChecker(const SpecLimits& limits, v1::SweepSpec& spec)
      : limits_(limits), spec_(spec) {}

  absl::Status Check() {
    v1::JobSpec job;
    *job.mutable_train() = spec_.train();
    HEARTH_RETURN_IF_ERROR(FillAndValidate(limits_, job));
    FillAndCheckSearch();
    for (int i = 0; i < spec_.space_size(); ++i) {
      CheckParameter(absl::StrCat("space[", i, "]"), spec_.space(i));
    }
    HEARTH_RETURN_IF_ERROR(violations_.ToStatus());
    for (v1::SweepParameter& parameter : *spec_.mutable_space()) {
      if (!parameter.has_choice()) continue;
      DropRepeated(options::FindNamed(TrainTable(), parameter.name()),
                   *parameter.mutable_choice());
    }
    spec_.set_every_point(HasTrialsForEveryPoint(spec_));
    CheckGrid();
    if (StopsEarly(spec_) && FirstRungOf(spec_) >= EpochsOf(spec_)) {
      violations_.Add("first_rung", absl::StrCat("must be less than epochs (",
                                                 EpochsOf(spec_), "), not ",
                                                 FirstRungOf(spec_)));
    }
    if (job.train().has_adopted()) {
      violations_.Add("train.adopted", "must not be set: trials begin anew");
    }
    if (job.train().trains(0).has_none()) {
      violations_.Add("train.trains[0].model",
                      "must be one that trains, for trials are judged by it");
    }
    HEARTH_RETURN_IF_ERROR(violations_.ToStatus());
    return CheckTrials();
  }

 private:
  void FillAndCheckSearch() {
    // The job stays as submitted: its defaults may not hold for a trial's
    // choices.
    const v1::TrainJobSpec train = spec_.train();
    FillAndCheckOptions("", spec_, violations_);
    *spec_.mutable_train() = train;
    spec_.set_groups_data(true);
    spec_.set_tests_best(!spec_.test_all() && !spec_.has_manual() &&
                         !spec_.train().skip_test());
    if (spec_.space().empty() && !spec_.has_manual()) {
      violations_.Add("space", "must have a parameter");
    }
  }

  void CheckParameter(const std::string& path,
                      const v1::SweepParameter& parameter) {
    const std::string& name = parameter.name();
    const NamedOption named = options::FindNamed(TrainTable(), name);
    if (const std::string why = WhyNotSwept(name, named); !why.empty()) {
      violations_.Add(path + ".name", absl::StrCat("\"", name, "\" ", why));
      return;
    }
    if (!names_.insert(name).second) {
      violations_.Add(path + ".name", absl::StrCat(name, " is there twice"));
    }
    if (name == "epochs" && StopsEarly(spec_)) {
      violations_.Add(path + ".name",
                      "epochs cannot be searched by an algorithm that compares "
                      "trials by their epochs");
    }
    if (parameter.domain_case() == v1::SweepParameter::DOMAIN_NOT_SET) {
      violations_.Add(path + ".domain", absl::StrCat(name, " has no values"));
      return;
    }
    const sweep::Domain domain = ToDomain(parameter);
    std::string fault = KindFault(named, domain);
    if (fault.empty()) fault = sweep::FaultOf(domain);
    if (fault.empty() && spec_.has_grid()) fault = sweep::GridFaultOf(domain);
    if (fault.empty() && EndsOf(domain).size() > kMaxTrials) {
      fault = absl::StrCat("must have at most ", kMaxTrials, " values");
    }
    if (!fault.empty()) {
      violations_.Add(path, absl::StrCat(name, " ", fault));
      return;
    }
    for (const std::string& value : EndsOf(domain)) {
      const absl::Status status = CheckValue(named, value);
      if (status.ok()) continue;
      violations_.Add(path, absl::StrCat(name, ": \"", value, "\" ",
                                         std::string(status.message())));
    }
    CheckApplies(path, name, named);
  }

  // An option of one alternative needs that alternative to be chosen or
  // searched.
  void CheckApplies(const std::string& path, const std::string& name,
                    const NamedOption& named) {
    if (named.choice != nullptr) return;
    v1::TrainJobSpec train = spec_.train();
    ChooseDefaults(train);
    const options::Chosen chosen = TrainTable().ChosenIn(train);
    for (const Option* option : named.options) {
      if (options::Applies(*option, chosen) || IsSearched(*option)) return;
    }
    violations_.Add(
        path + ".name",
        absl::StrCat(name, " is ",
                     options::WhyNotApplied(named.Alternatives(), chosen)));
  }

  // Whether the choice that the option belongs to is a parameter.
  bool IsSearched(const Option& option) const {
    const auto* oneof = option.alternatives.front()->real_containing_oneof();
    return std::any_of(spec_.space().begin(), spec_.space().end(),
                       [&](const v1::SweepParameter& parameter) {
                         const NamedOption named =
                             options::FindNamed(TrainTable(), parameter.name());
                         return named.choice != nullptr &&
                                named.choice->oneof == oneof;
                       });
  }

  void CheckGrid() {
    if (!spec_.has_grid() ||
        sweep::GridSize(ToSpace(spec_), kMaxTrials) <= kMaxTrials) {
      return;
    }
    violations_.Add("space", absl::StrCat("must have at most ", kMaxTrials,
                                          " combinations for a grid"));
  }

  absl::Status CheckTrials() {
    const int64_t trials = ToSearchOptions(spec_).trials;
    for (int64_t trial = 0; trial < trials; ++trial) {
      const sweep::Point point = PointOf(spec_, trial);
      const absl::Status status =
          TrialJobSpec(limits_, spec_, point, 0).status();
      if (status.ok()) continue;
      violations_.Add("space",
                      absl::StrCat("makes trial ", trial + 1, " impossible: ",
                                   std::string(status.message())));
      break;
    }
    return violations_.ToStatus();
  }

  const SpecLimits& limits_;
  v1::SweepSpec& spec_;
  FieldViolations violations_;
  std::set<std::string> names_;
};

}  // namespace

absl::Status FillAndValidate(const SpecLimits& limits, v1::SweepSpec& spec) {
  return SweepChecker(limits, spec).Check();
}

sweep::SearchOptions ToSearchOptions(const v1::SweepSpec& spec) {
  const std::optional<sweep::Space> grid = GridOf(spec);
  return {.trials = grid.has_value() ? sweep::GridSize(*grid, kMaxTrials)
                                     : int64_t{spec.trials()},
          .replicas = spec.seeds(),
          .parallel = spec.parallel(),
          .epochs = EpochsOf(spec),
          .stopping = ToStopping(spec),
          .is_open = spec.has_manual()};
}

sweep::Point PointOf(const v1::SweepSpec& spec, int64_t trial) {
  const std::optional<sweep::Space> grid = GridOf(spec);
  return grid.has_value()
             ? sweep::GridPoint(*grid, trial)
             : sweep::DrawPoint(ToSpace(spec), spec.sweep_seed(), trial);
}

std::vector<int64_t> DataOfTrials(const v1::SweepSpec& spec) {
  std::set<std::string> about_data;
  for (const v1::SweepParameter& parameter : spec.space()) {
    if (IsAboutData(parameter.name())) about_data.insert(parameter.name());
  }
  if (!spec.groups_data() || about_data.empty()) return {};
  std::vector<int64_t> data;
  std::map<std::string, int64_t> numbers;
  const int64_t trials = ToSearchOptions(spec).trials;
  for (int64_t trial = 0; trial < trials; ++trial) {
    std::string settings;
    for (const sweep::Setting& setting : PointOf(spec, trial)) {
      if (!about_data.contains(setting.name)) continue;
      absl::StrAppend(&settings, setting.name, "=", setting.value, ";");
    }
    data.push_back(
        numbers.try_emplace(settings, std::ssize(numbers)).first->second);
  }
  return data;
}

absl::StatusOr<v1::JobSpec> TrialJobSpec(const SpecLimits& limits,
                                         const v1::SweepSpec& spec,
                                         const sweep::Point& point,
                                         int64_t replica) {
  v1::JobSpec job;
  v1::TrainJobSpec& train = *job.mutable_train();
  train = spec.train();
  ChooseDefaults(train);
  // Choices first: they decide which options apply.
  for (const bool choices : {true, false}) {
    for (const sweep::Setting& setting : point) {
      const NamedOption named = options::FindNamed(TrainTable(), setting.name);
      if ((named.choice != nullptr) != choices) continue;
      const absl::Status status =
          options::SetNamed(TrainTable(), named, setting.value, train);
      if (absl::IsFailedPrecondition(status)) continue;
      if (!status.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(setting.name, ": \"", setting.value, "\" ",
                         std::string(status.message())));
      }
    }
  }
  v1::TrainSpec& model = *train.mutable_trains(0);
  model.set_model_seed(model.model_seed() + static_cast<uint64_t>(replica));
  // Trials of a sweep share their passes, also with trials that begin later.
  train.set_join(true);
  if (spec.tests_best()) train.set_skip_test(true);
  HEARTH_RETURN_IF_ERROR(FillAndValidate(limits, job));
  return job;
}

std::string ResultKey(const SpecLimits& limits, const v1::SweepSpec& spec,
                      const sweep::Point& point) {
  // Equal trials have equal seeds in all replicas, and options that change no
  // result cannot be searched.
  const absl::StatusOr<v1::JobSpec> job = TrialJobSpec(limits, spec, point, 0);
  return job.ok() ? job->SerializeAsString() : "";
}

absl::StatusOr<v1::JobSpec> TestJobSpec(const SpecLimits& limits,
                                        const v1::SweepSpec& spec,
                                        const sweep::Point& point,
                                        int64_t replica,
                                        const std::string& trained) {
  HEARTH_ASSIGN_OR_RETURN(v1::JobSpec train,
                          TrialJobSpec(limits, spec, point, replica));
  v1::JobSpec job;
  job.mutable_evaluate()->set_job_id(trained);
  *job.mutable_evaluate()->mutable_train() = std::move(*train.mutable_train());
  return job;
}

absl::StatusOr<sweep::Point> ToPoint(const SpecLimits& limits,
                                     const v1::SweepSpec& spec,
                                     const v1::AddTrialRequest& request) {
  FieldViolations violations;
  sweep::Point point;
  std::set<std::string> names;
  for (int i = 0; i < request.parameters_size(); ++i) {
    const v1::TrialSetting& setting = request.parameters(i);
    const std::string path = absl::StrCat("parameters[", i, "]");
    const NamedOption named = options::FindNamed(TrainTable(), setting.name());
    const std::string why = WhyNotSwept(setting.name(), named);
    if (!why.empty()) {
      violations.Add(path + ".name",
                     absl::StrCat("\"", setting.name(), "\" ", why));
      continue;
    }
    if (!names.insert(setting.name()).second) {
      violations.Add(path + ".name",
                     absl::StrCat(setting.name(), " is there twice"));
    }
    if (setting.name() == "epochs" && StopsEarly(spec)) {
      violations.Add(path + ".name", "must not be epochs in this sweep");
    }
    const absl::Status status = CheckValue(named, setting.value());
    if (!status.ok()) {
      violations.Add(path + ".value",
                     absl::StrCat(setting.name(), ": \"", setting.value(),
                                  "\" ", std::string(status.message())));
    }
    point.push_back({setting.name(), setting.value()});
  }
  HEARTH_RETURN_IF_ERROR(violations.ToStatus());
  HEARTH_RETURN_IF_ERROR(TrialJobSpec(limits, spec, point, 0).status());
  return point;
}

std::string MetricOf(const v1::SweepSpec& spec, const v1::EpochReport& epoch) {
  return spec.by_loss() ? "loss" : epoch.metric();
}

double ScoreOf(const v1::EpochResult& result, const std::string& metric) {
  if (metric == "loss") return -result.loss();
  if (!result.has_metric()) return std::numeric_limits<double>::quiet_NaN();
  return ValueOf(result.metric(), metric);
}

double ValueOf(double score, const std::string& metric) {
  return metric == "loss" || metric == "mse" ? -score : score;
}

v1::TrialState ToProto(sweep::TrialState state) {
  switch (state) {
    case sweep::TrialState::kPending:
      return v1::TRIAL_PENDING;
    case sweep::TrialState::kRunning:
      return v1::TRIAL_RUNNING;
    case sweep::TrialState::kWaiting:
      return v1::TRIAL_WAITING;
    case sweep::TrialState::kSucceeded:
      return v1::TRIAL_SUCCEEDED;
    case sweep::TrialState::kFailed:
      return v1::TRIAL_FAILED;
    case sweep::TrialState::kStopped:
      return v1::TRIAL_STOPPED;
  }
  return v1::TRIAL_STATE_UNSPECIFIED;
}

v1::TrialDecision::Action ToProto(sweep::Action action) {
  switch (action) {
    case sweep::Action::kStart:
      return v1::TrialDecision::START;
    case sweep::Action::kHold:
      return v1::TrialDecision::HOLD;
    case sweep::Action::kGoOn:
      return v1::TrialDecision::GO_ON;
    case sweep::Action::kStop:
      return v1::TrialDecision::STOP;
  }
  return v1::TrialDecision::ACTION_UNSPECIFIED;
}

}  // namespace hearth::server
