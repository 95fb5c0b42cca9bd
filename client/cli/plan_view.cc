#include "client/cli/plan_view.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/table.h"
#include "engine/base/byte_size.h"

namespace hearth::cli {
namespace {

constexpr char kUnknown[] = "-";
constexpr Table::Align kRight = Table::Align::kRight;

std::string StateText(const v1::Plan& plan) {
  std::string state =
      v1::Plan::State_IsValid(plan.state())
          ? absl::AsciiStrToLower(v1::Plan::State_Name(plan.state()))
          : absl::StrCat("state ", plan.state());
  return plan.in_use() ? absl::StrCat(state, ", in use") : state;
}

std::string DatasetsText(const v1::Plan& plan) {
  return plan.datasets().empty() ? kUnknown
                                 : absl::StrJoin(plan.datasets(), ", ");
}

std::string SecondsText(double seconds) {
  return absl::StrFormat("%.1f s", seconds);
}

}  // namespace

void PrintPlanList(const std::vector<v1::Plan>& plans, std::ostream& out) {
  Table table(
      {{"name"}, {"dataset"}, {"state"}, {"size", kRight}, {"last used"}});
  uint64_t bytes = 0;
  for (const v1::Plan& plan : plans) {
    table.AddRow(
        {plan.name(), DatasetsText(plan), StateText(plan),
         FormatByteSize(plan.size_bytes()),
         plan.has_use_time() ? FormatTimestamp(plan.use_time()) : kUnknown});
    bytes += plan.size_bytes();
  }
  table.Print(out);
  if (plans.size() > 1) out << "in all " << FormatByteSize(bytes) << "\n";
}

void PrintPlan(const v1::Plan& plan, std::ostream& out) {
  Table table({{""}, {""}});
  table.AddRow({"name", plan.name()});
  table.AddRow({"strategy", plan.strategy()});
  table.AddRow({"datasets", DatasetsText(plan)});
  table.AddRow({"fingerprint", plan.fingerprint()});
  table.AddRow({"state", StateText(plan)});
  table.AddRow({"size", FormatByteSize(plan.size_bytes())});
  if (plan.has_create_time()) {
    table.AddRow({"made", FormatTimestamp(plan.create_time())});
  }
  if (plan.has_use_time()) {
    table.AddRow({"last used", FormatTimestamp(plan.use_time())});
  }
  for (const v1::PlanProperty& property : plan.properties()) {
    table.AddRow({property.name(), property.value()});
  }
  table.Print(out);
}

void PrintPreparation(const v1::PreparationReport& preparation,
                      std::ostream& out) {
  out << "plan " << EscapeControl(preparation.plan());
  if (preparation.first_epoch() > 1) {
    out << ", from epoch " << preparation.first_epoch() << " on";
  }
  out << ": " << (preparation.reused() ? "found" : "made") << " in "
      << SecondsText(preparation.seconds());
  if (!preparation.phases().empty()) {
    out << " ("
        << absl::StrJoin(preparation.phases(), ", ",
                         [](std::string* text, const v1::PhaseSeconds& phase) {
                           absl::StrAppend(text, EscapeControl(phase.name()),
                                           " ", SecondsText(phase.seconds()));
                         })
        << ")";
  }
  out << ", " << FormatByteSize(preparation.disk_bytes()) << " on disk\n";
  if (!preparation.reason().empty()) {
    out << "  " << EscapeControl(preparation.reason()) << "\n";
  }
}

void PrintHistory(const v1::HistoryChoice& history, std::ostream& out) {
  if (history.embeddings() == 0) {
    out << "history: none, rows are worth all of the cache\n";
  } else {
    out << "history: embeddings of " << Counted(history.embeddings(), "node")
        << ", each for " << Counted(history.staleness(), "batch", "batches")
        << ", in " << FormatByteSize(history.bytes());
    if (history.has_share()) {
      out << " (" << absl::StrFormat("%.0f", 100 * history.share())
          << "% of the cache)";
    }
    out << "\n";
  }
  out << "rows for each seed: "
      << absl::StrFormat("%.1f", history.redundancy_ratio())
      << " without a history; in random order "
      << absl::StrFormat("%.1f", history.shuffled_redundancy_ratio()) << "\n";
}

void PrintCuts(const google::protobuf::RepeatedPtrField<v1::BudgetCut>& cuts,
               uint64_t memory_limit_bytes, std::ostream& out) {
  for (const v1::BudgetCut& cut : cuts) {
    const auto text = [&](uint64_t amount) {
      return cut.unit() == "bytes" ? FormatByteSize(amount)
                                   : absl::StrCat(amount);
    };
    out << EscapeControl(cut.option()) << ": " << text(cut.chosen())
        << " instead of " << text(cut.asked())
        << ", to fit the memory limit of " << FormatByteSize(memory_limit_bytes)
        << "\n";
  }
}

void PrintExplanation(const v1::ExplainReport& report, std::ostream& out) {
  Table facts({{""}, {""}});
  const auto add = [&facts](const std::string& name, const std::string& value) {
    facts.AddRow({name, value});
  };
  add("batches an epoch", FormatCount(report.batches()));
  add("rows needed", FormatCount(report.rows_needed()));
  add("bytes needed", FormatByteSize(report.bytes_needed()));
  if (report.has_bytes_read()) {
    add("bytes read", FormatByteSize(report.bytes_read()));
  }
  if (report.has_read_ops()) add("reads", FormatCount(report.read_ops()));
  if (report.has_epoch_seconds()) {
    add("an epoch takes", SecondsText(report.epoch_seconds()));
  }
  if (report.has_prepare_seconds()) {
    add("preparing takes", SecondsText(report.prepare_seconds()));
  }
  if (report.has_disk_bytes()) {
    add("on disk", FormatByteSize(report.disk_bytes()));
  }
  add("in memory",
      absl::StrCat("at most ", FormatByteSize(report.memory_bytes())));
  if (!report.plan().empty()) {
    add("plan",
        absl::StrCat(report.plan(), report.plan_exists() ? " (there)" : ""));
  }
  add("sampled for this",
      absl::StrCat(FormatCount(report.sampled_batches()), " of ",
                   Counted(report.total_batches(), "batch", "batches")));
  facts.Print(out);
  if (!report.levels().empty()) {
    out << "\n";
    Table levels({{"level"}, {"rows an epoch", kRight}, {"bytes", kRight}});
    for (const v1::LevelForecast& level : report.levels()) {
      levels.AddRow({level.level(), FormatCount(level.rows()),
                     FormatByteSize(level.bytes())});
    }
    levels.Print(out);
  }
  if (report.has_history()) {
    out << "\n";
    PrintHistory(report.history(), out);
  }
  out << "\n";
  Table memory({{"memory for"}, {"at most", kRight}});
  for (const v1::MemoryShare& share : report.memory()) {
    if (share.bytes() == 0) continue;
    const std::string place =
        share.device().empty() ? "" : absl::StrCat(" on ", share.device());
    memory.AddRow({EscapeControl(absl::StrCat(share.owner(), place)),
                   FormatByteSize(share.bytes())});
  }
  memory.Print(out);
  PrintCuts(report.cuts(), report.memory_limit_bytes(), out);
  for (const std::string& note : report.notes()) {
    out << EscapeControl(note) << "\n";
  }
}

}  // namespace hearth::cli
