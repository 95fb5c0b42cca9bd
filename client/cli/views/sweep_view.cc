#include "client/cli/views/sweep_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "client/cli/views/text.h"

namespace hearth::cli {
namespace {

constexpr Table::Align kRight = Table::Align::kRight;
constexpr size_t kCurveWidth = 24;

// A metric or loss: "0.8127"; losses may be large.
std::string MetricText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.4g", value) : "not finite";
}

// Word of an enum value: "running" for "TRIAL_RUNNING" and "TRIAL_".
std::string WordOf(const std::string& name, absl::string_view prefix) {
  absl::string_view word = name;
  absl::ConsumePrefix(&word, prefix);
  return absl::AsciiStrToLower(word);
}

std::vector<std::string> ParameterNames(const v1::Sweep& sweep) {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const v1::SweepParameter& parameter : sweep.spec().space()) {
    add(parameter.name());
  }
  // Added trials may have further parameters.
  for (const v1::Trial& trial : sweep.trials()) {
    for (const v1::TrialSetting& setting : trial.parameters()) {
      add(setting.name());
    }
  }
  return names;
}

std::string ValueOf(const v1::Trial& trial, const std::string& name) {
  for (const v1::TrialSetting& setting : trial.parameters()) {
    if (setting.name() == name) return setting.value();
  }
  return "";
}

std::string SettingsText(
    const google::protobuf::RepeatedPtrField<v1::TrialSetting>& settings) {
  return absl::StrJoin(
      settings, ", ", [](std::string* out, const v1::TrialSetting& setting) {
        absl::StrAppend(out, setting.name(), " ", setting.value());
      });
}

// A curve as a line of block characters, the lowest value at the bottom.
std::string CurveText(const std::vector<double>& curve) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄",
                                            "▅", "▆", "▇", "█"};
  std::vector<double> finite;
  std::copy_if(curve.begin(), curve.end(), std::back_inserter(finite),
               [](double value) { return std::isfinite(value); });
  if (finite.empty()) return "";
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  const double range = *high - *low;
  std::string text;
  const size_t width = std::min(curve.size(), kCurveWidth);
  for (size_t i = 0; i < width; ++i) {
    // A curve longer than the width: the last epoch of each share.
    const double value = curve[(i + 1) * curve.size() / width - 1];
    const double share = range > 0 ? (value - *low) / range : 1;
    text += std::isfinite(value)
                ? kBlocks[static_cast<size_t>(std::lround(share * 7))]
                : "!";
  }
  return text;
}

std::string CountsText(const v1::Sweep& sweep) {
  return absl::StrJoin(
      sweep.counts(), ", ", [](std::string* out, const v1::TrialCount& count) {
        absl::StrAppend(out, count.trials(), " ", StateWord(count.state()));
      });
}

// Ascending numbers as ranges: "1-4, 7".
std::string RangesText(absl::Span<const uint32_t> numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() &&
           numbers[end] == numbers[i] + static_cast<uint32_t>(end - i)) {
      ++end;
    }
    absl::StrAppend(&text, text.empty() ? "" : ", ", numbers[i]);
    if (end - i > 1) {
      absl::StrAppend(&text, end - i > 2 ? "-" : ", ", numbers[end - 1]);
    }
    i = end;
  }
  return text;
}

std::string EqualLine(uint32_t trial, absl::Span<const uint32_t> equal) {
  return equal.size() == 1
             ? absl::StrCat("trial ", equal.front(), " is the same as trial ",
                            trial, " and takes its result")
             : absl::StrCat("trials ", RangesText(equal),
                            " are the same as trial ", trial,
                            " and take its result");
}

// Why a trial waits, was stopped or has another trial's result.
std::string WhyText(const v1::Trial& trial) {
  if (!trial.waiting_reason().empty()) return trial.waiting_reason();
  if (trial.same_as() == 0) return trial.reason();
  return absl::StrCat("same as trial ", trial.same_as(),
                      trial.reason().empty() ? "" : ": ", trial.reason());
}

// Test metric of the best trial: ", test 0.81".
std::string TestText(const v1::Sweep& sweep) {
  return sweep.has_best_test_metric()
             ? absl::StrCat(", test ", MetricText(sweep.best_test_metric()))
             : "";
}

std::vector<const v1::Trial*> Chosen(const v1::Sweep& sweep, size_t most) {
  std::vector<const v1::Trial*> trials;
  std::set<uint32_t> ranks;
  for (const v1::Trial& trial : sweep.trials()) {
    if (most > 0 && trial.same_as() > 0) continue;
    trials.push_back(&trial);
    if (trial.rank() > 0) ranks.insert(trial.rank());
  }
  if (most == 0) return trials;
  const uint32_t last =
      ranks.size() <= most
          ? UINT32_MAX
          : *std::next(ranks.begin(), static_cast<int64_t>(most) - 1);
  std::erase_if(trials, [&](const v1::Trial* trial) {
    const bool leads = trial->rank() > 0 && trial->rank() <= last;
    return !leads && trial->state() != v1::TRIAL_RUNNING;
  });
  return trials;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

void SweepHistory::Add(const v1::SweepEvent& event) {
  if (!event.has_results()) return;
  metric_ = event.results().metric();
  for (const v1::EpochResult& result : event.results().results()) {
    results_.push_back(result);
    const double value = metric_ == "loss"     ? result.loss()
                         : result.has_metric() ? result.metric()
                                               : std::nan("");
    values_[result.trial()][result.replica()].push_back(value);
  }
}

std::vector<double> SweepHistory::CurveOf(uint32_t trial) const {
  const auto found = values_.find(trial);
  if (found == values_.end()) return {};
  size_t epochs = SIZE_MAX;
  for (const auto& [replica, values] : found->second) {
    epochs = std::min(epochs, values.size());
  }
  std::vector<double> curve(epochs, 0);
  for (const auto& [replica, values] : found->second) {
    for (size_t i = 0; i < epochs; ++i) {
      curve[i] += values[i] / static_cast<double>(found->second.size());
    }
  }
  return curve;
}

std::string StateWord(v1::SweepState state) {
  return WordOf(v1::SweepState_Name(state), "SWEEP_");
}

std::string StateWord(v1::TrialState state) {
  return WordOf(v1::TrialState_Name(state), "TRIAL_");
}

std::string EveryPointLine(const v1::SweepSpec& spec) {
  return absl::StrCat("a grid: the space has no more points than the ",
                      Counted(spec.trials(), "trial"),
                      " asked for, and each is tried once");
}

void PrintSweepList(const std::vector<v1::Sweep>& sweeps, std::ostream& out) {
  Table table({{"id"}, {"state"}, {"trials"}, {"best"}, {"of"}, {"begun"}});
  for (const v1::Sweep& sweep : sweeps) {
    table.AddRow({sweep.id(), StateWord(sweep.state()), CountsText(sweep),
                  sweep.has_best_metric()
                      ? absl::StrCat(sweep.metric(), " ",
                                     MetricText(sweep.best_metric()))
                      : "-",
                  sweep.best_trial() > 0
                      ? absl::StrCat("trial ", sweep.best_trial(), ": ",
                                     SettingsText(sweep.best_parameters()))
                      : "-",
                  FormatTimestamp(sweep.create_time())});
  }
  table.Print(out);
}

void PrintSweep(const v1::Sweep& sweep, const SweepHistory& history,
                std::ostream& out, size_t most) {
  out << EscapeControl(sweep.id()) << ": " << StateWord(sweep.state()) << ", "
      << CountsText(sweep) << "\n";
  if (sweep.spec().every_point()) {
    out << EveryPointLine(sweep.spec()) << "\n";
  }
  if (!sweep.trace_id().empty()) {
    out << "trace " << EscapeControl(sweep.trace_id()) << "\n";
  }
  if (sweep.has_best_metric()) {
    out << "best so far: trial " << sweep.best_trial() << ", "
        << EscapeControl(sweep.metric()) << " "
        << MetricText(sweep.best_metric()) << TestText(sweep) << " ("
        << EscapeControl(SettingsText(sweep.best_parameters())) << ")\n";
  }
  if (!sweep.test_fault().empty()) {
    out << "the best trial was not tested: "
        << EscapeControl(sweep.test_fault()) << "\n";
  }
  const std::vector<std::string> names = ParameterNames(sweep);
  std::vector<Table::Column> columns = {{"trial", kRight}};
  for (const std::string& name : names) columns.push_back({name, kRight});
  columns.insert(columns.end(),
                 {{"epochs", kRight},
                  {sweep.metric().empty() ? "metric" : sweep.metric(), kRight},
                  {"test", kRight},
                  {"rank", kRight},
                  {"state"},
                  {"convoy"},
                  {"curve"},
                  {"why"}});
  Table table(columns);
  for (const v1::Trial* trial : Chosen(sweep, most)) {
    std::vector<std::string> row = {absl::StrCat(trial->number())};
    for (const std::string& name : names) row.push_back(ValueOf(*trial, name));
    row.push_back(absl::StrCat(trial->epochs()));
    row.push_back(trial->has_metric() ? MetricText(trial->metric()) : "-");
    row.push_back(trial->has_test_metric() ? MetricText(trial->test_metric())
                                           : "-");
    row.push_back(trial->rank() > 0 ? absl::StrCat(trial->rank()) : "-");
    row.push_back(StateWord(trial->state()));
    row.push_back(RangesText(trial->shared_with()));
    row.push_back(CurveText(history.CurveOf(
        trial->same_as() > 0 ? trial->same_as() : trial->number())));
    row.push_back(WhyText(*trial));
    table.AddRow(row);
  }
  table.Print(out);
}

void PrintTrial(const v1::Sweep& sweep, const v1::Trial& trial,
                std::ostream& out) {
  Table table({{""}, {""}});
  table.AddRow({"sweep", sweep.id()});
  table.AddRow({"trial", absl::StrCat(trial.number())});
  for (const v1::TrialSetting& setting : trial.parameters()) {
    table.AddRow({setting.name(), setting.value()});
  }
  table.AddRow(
      {sweep.metric(), trial.has_metric() ? MetricText(trial.metric()) : "-"});
  table.AddRow({"test", trial.has_test_metric()
                            ? MetricText(trial.test_metric())
                            : "-"});
  table.AddRow({"epochs", absl::StrCat(trial.epochs())});
  table.AddRow({"state", StateWord(trial.state())});
  table.AddRow({"job", trial.best_job()});
  table.Print(out);
}

void WriteCsv(const v1::Sweep& sweep, const SweepHistory& history,
              std::ostream& out) {
  const std::vector<std::string> names = ParameterNames(sweep);
  out << "trial,replica,job";
  for (const std::string& name : names) out << "," << CsvCell(name);
  out << ",epoch,loss,metric,state,rank\n";
  for (const v1::EpochResult& result : history.results()) {
    // Skips trials that were added after `sweep` was read.
    if (static_cast<int>(result.trial()) > sweep.trials_size()) continue;
    const v1::Trial& trial = sweep.trials(static_cast<int>(result.trial()) - 1);
    out << result.trial() << "," << result.replica() << ","
        << CsvCell(result.job());
    for (const std::string& name : names) {
      out << "," << CsvCell(ValueOf(trial, name));
    }
    out << "," << result.epoch() << "," << FormatDouble(result.loss()) << ","
        << (result.has_metric() ? FormatDouble(result.metric()) : "") << ","
        << StateWord(trial.state()) << "," << trial.rank() << "\n";
  }
}

void SweepLog::NoteEqual(uint32_t trial, uint32_t same_as) {
  if (same_as > 0) equal_[same_as].push_back(trial);
}

std::string SweepLog::Subject(uint32_t trial) const {
  const auto equal = equal_.find(trial);
  if (equal == equal_.end()) return absl::StrCat("trial ", trial);
  return absl::StrCat("trial ", trial, " (and ", RangesText(equal->second),
                      ")");
}

std::vector<std::string> SweepLog::Take(const v1::SweepEvent& event) {
  std::vector<std::string> lines;
  if (event.has_state()) {
    lines.push_back(StateWord(event.state().state()));
    for (int i = 0; i < event.state().same_as_size(); ++i) {
      NoteEqual(static_cast<uint32_t>(i + 1), event.state().same_as(i));
    }
    if (event.state().same_as_size() > 0) {
      for (const auto& [trial, equal] : equal_) {
        lines.push_back(EqualLine(trial, equal));
      }
    }
  }
  if (event.has_added() && event.added().same_as() > 0) {
    NoteEqual(event.added().trial(), event.added().same_as());
    lines.push_back(
        EqualLine(event.added().same_as(), {event.added().trial()}));
  }
  if (event.has_ended()) {
    const v1::ReplicaEnd& end = event.ended();
    const bool succeeded = end.state() == v1::SUCCEEDED;
    if (succeeded) succeeded_[end.trial()].insert(end.replica());
    // One line for all replicas of a trial.
    if (!succeeded || succeeded_[end.trial()] == begun_[end.trial()]) {
      lines.push_back(absl::StrCat(
          Subject(end.trial()), " ",
          absl::AsciiStrToLower(v1::JobState_Name(end.state())),
          end.reason().empty() ? "" : ": ", EscapeControl(end.reason())));
    }
  }
  if (event.has_test()) {
    const v1::TestBegin& test = event.test();
    lines.push_back(
        test.fault().empty()
            ? absl::StrCat("trial ", test.trial(), ", the best, is tested")
            : absl::StrCat("no test: ", EscapeControl(test.fault())));
  }
  if (event.has_tested() && !event.tested().has_test_metric()) {
    lines.push_back(
        absl::StrCat("no test: ", EscapeControl(event.tested().reason())));
  }
  std::set<uint32_t> told;
  if (event.has_ended()) told.insert(event.ended().trial());
  for (const v1::TrialDecision& decision : event.decisions()) {
    if (decision.action() == v1::TrialDecision::START && !event.has_test()) {
      begun_[decision.trial()].insert(decision.replica());
    }
    if (decision.action() == v1::TrialDecision::STOP &&
        told.insert(decision.trial()).second) {
      lines.push_back(absl::StrCat(Subject(decision.trial()), " stopped: ",
                                   EscapeControl(decision.reason())));
    }
  }
  // The trial was stopped by its number.
  if (event.has_stop() && told.insert(event.stop().trial()).second) {
    lines.push_back(absl::StrCat(Subject(event.stop().trial()), " stopped"));
    for (auto& [trial, equal] : equal_) std::erase(equal, event.stop().trial());
    std::erase_if(equal_,
                  [](const auto& entry) { return entry.second.empty(); });
  }
  return lines;
}

}  // namespace hearth::cli
