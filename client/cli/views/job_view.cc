#include "client/cli/views/job_view.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/options/job_options.h"
#include "client/cli/views/text.h"
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

void PrintPiecesToMake(const v1::PiecesToMake& to_make, std::ostream& out) {
  out << to_make.missing() << " of " << Counted(to_make.pieces(), "piece")
      << (to_make.missing() == 1 ? " is" : " are")
      << " to be made before the plan is: hearth piece --of "
      << EscapeControl(to_make.plan()) << " --index N\n  "
      << EscapeControl(to_make.fault()) << "\n";
}

void PrintPreparation(const v1::PreparationReport& preparation,
                      std::ostream& out) {
  if (preparation.has_to_make()) {
    PrintPiecesToMake(preparation.to_make(), out);
    return;
  }
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

void PrintLocality(const std::string& metric, const v1::LocalityChoice& choice,
                   std::ostream& out) {
  out << "order: " << FormatCount(choice.macro_batch_parts()) << " of "
      << Counted(choice.parts(), "part") << " in a macro batch; label distance "
      << absl::StrFormat("%.4f", choice.label_distance())
      << ", in random order "
      << absl::StrFormat("%.4f", choice.shuffled_label_distance()) << "\n";
  if (!choice.has_valid_metric()) return;
  out << "epoch 2: valid " << MetricWords(metric) << " "
      << FormatMetric(metric, choice.valid_metric()) << ", "
      << FormatCount(choice.rows_needed()) << " rows; in random order "
      << FormatMetric(metric, choice.shuffled_valid_metric()) << ", "
      << FormatCount(choice.shuffled_rows_needed()) << " rows\n"
      << (choice.reverted()
              ? "from epoch 3 on the order was random, as it learned more\n"
              : "");
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

namespace {

// Prints what the daemon chose and, with all prices, what it chose from.
void PrintChoice(const v1::AutoChoice& choice, bool with_prices,
                 std::ostream& out) {
  out << "strategy auto chose " << EscapeControl(choice.reason()) << "\n";
  if (!choice.before().empty()) {
    out << "it took over from " << EscapeControl(choice.before())
        << ", which was much slower than told, for the epochs that were left\n";
  }
  if (!with_prices) return;
  out << "\n";
  Table table({{"strategy"},
               {"in all", kRight},
               {"preparing", kRight},
               {"first epoch", kRight},
               {"an epoch", kRight},
               {"reads an epoch", kRight},
               {"memory", kRight},
               {"disk", kRight}});
  std::vector<std::string> refusals;
  for (const v1::AutoCandidate& candidate : choice.candidates()) {
    const std::string name = EscapeControl(candidate.strategy());
    if (!candidate.refusal().empty()) {
      refusals.push_back(
          absl::StrCat(name, ": ", EscapeControl(candidate.refusal())));
      continue;
    }
    table.AddRow({name, SecondsText(candidate.seconds()),
                  SecondsText(candidate.prepare_seconds()),
                  SecondsText(candidate.first_epoch_seconds()),
                  SecondsText(candidate.epoch_seconds()),
                  FormatByteSize(candidate.bytes_read()),
                  FormatByteSize(candidate.memory_bytes()),
                  FormatByteSize(candidate.disk_bytes())});
  }
  table.Print(out);
  for (const std::string& refusal : refusals) out << refusal << "\n";
  if (choice.has_rates()) {
    const v1::AutoRates& rates = choice.rates();
    out << "prices follow from "
        << Counted(rates.sampled_batches(), "sampled batch", "sampled batches")
        << ", " << FormatCount(std::llround(1000 * rates.sample_seconds()))
        << " ms to sample one, "
        << FormatCount(std::llround(1000 * rates.step_seconds()))
        << " ms to train on it; a disk that reads "
        << FormatByteSize(static_cast<uint64_t>(rates.read_bytes_per_second()))
        << " and writes "
        << FormatByteSize(static_cast<uint64_t>(rates.write_bytes_per_second()))
        << " a second, and makes "
        << FormatCount(static_cast<uint64_t>(rates.reads_per_second()))
        << " small reads; " << Counted(rates.processors(), "processor") << "\n";
  }
  out << "\n";
}

}  // namespace

void PrintExplanation(const v1::ExplainReport& report, std::ostream& out) {
  if (report.has_auto_()) {
    PrintChoice(report.auto_(), /*with_prices=*/true, out);
  }
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
  if (report.has_first_epoch_seconds()) {
    add("the first epoch takes", SecondsText(report.first_epoch_seconds()));
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
  if (report.has_locality()) {
    out << "\n";
    PrintLocality("", report.locality(), out);
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

namespace {

constexpr char kNoTest[] =
    "no test: the dataset has no test nodes with labels\n";
std::string Elapsed(const v1::Job& job) {
  if (!job.has_start_time() || !job.has_end_time()) return kUnknown;
  return FormatDuration(Seconds(job.end_time()) - Seconds(job.start_time()));
}

std::string Decimal(double value, int digits) {
  return absl::StrFormat("%.*f", digits, value);
}

// Share of the needed rows that caches held.
std::string HitRatio(const v1::EpochReport& epoch) {
  if (epoch.hits().empty() || epoch.rows_needed() == 0) return kUnknown;
  uint64_t hits = 0;
  for (const v1::LevelHits& level : epoch.hits()) hits += level.rows();
  return absl::StrFormat("%.1f%%",
                         100.0 * static_cast<double>(hits) /
                             static_cast<double>(epoch.rows_needed()));
}

void PrintEpochs(const v1::TrainReport& report, std::ostream& out) {
  Table table({{"epoch", kRight},
               {"loss", kRight},
               {absl::StrCat("valid ", MetricWords(report.metric())), kRight},
               {"seconds", kRight},
               {"batches", kRight},
               {"rows", kRight},
               {"hits", kRight},
               {"bytes needed", kRight},
               {"bytes read", kRight},
               {"I/O wait", kRight}});
  for (const v1::EpochReport& epoch : report.epochs()) {
    table.AddRow(
        {absl::StrCat(epoch.epoch()), FormatLoss(epoch.loss()),
         epoch.has_valid_metric()
             ? FormatMetric(report.metric(), epoch.valid_metric())
             : kUnknown,
         Decimal(epoch.seconds(), 1), FormatCount(epoch.batches()),
         FormatCount(epoch.rows_needed()), HitRatio(epoch),
         FormatByteSize(epoch.bytes_needed()),
         epoch.has_bytes_read() ? FormatByteSize(epoch.bytes_read()) : kUnknown,
         epoch.has_io_wait_seconds()
             ? absl::StrCat(Decimal(epoch.io_wait_seconds(), 1), " s")
             : kUnknown});
  }
  table.Print(out);
}

// Prints how epochs with and without a history compare.
void PrintComparison(const v1::TrainReport& report, std::ostream& out) {
  const std::string metric =
      absl::StrCat("valid ", MetricWords(report.metric()));
  Table table({{"epoch", kRight},
               {metric, kRight},
               {"without", kRight},
               {"loss", kRight},
               {"without", kRight},
               {"rows", kRight},
               {"without", kRight},
               {"seconds", kRight},
               {"without", kRight}});
  bool compared = false;
  for (const v1::EpochReport& epoch : report.epochs()) {
    if (!epoch.has_without_history()) continue;
    compared = true;
    const v1::ExactEpoch& exact = epoch.without_history();
    table.AddRow({absl::StrCat(epoch.epoch()),
                  FormatMetric(report.metric(), epoch.valid_metric()),
                  FormatMetric(report.metric(), exact.valid_metric()),
                  FormatLoss(epoch.loss()), FormatLoss(exact.loss()),
                  FormatCount(epoch.rows_needed()),
                  FormatCount(exact.rows_needed()), Decimal(epoch.seconds(), 1),
                  Decimal(exact.seconds(), 1)});
  }
  if (!compared) return;
  out << "\nwith and without the history\n";
  table.Print(out);
}

// Prints the time of an epoch or of passes by stage.
template <typename Passes>
void PrintStages(const Passes& epoch, std::ostream& out) {
  Table table({{"stage"},
               {"threads", kRight},
               {"busy s", kRight},
               {"starved s", kRight},
               {"blocked s", kRight}});
  for (const v1::StageReport& stage : epoch.stages()) {
    table.AddRow({stage.name(), absl::StrCat(stage.threads()),
                  Decimal(stage.busy_seconds(), 1),
                  Decimal(stage.starved_seconds(), 1),
                  Decimal(stage.blocked_seconds(), 1)});
  }
  table.Print(out);
}

// Prints the peak memory, for a report with such fields.
template <typename Report>
void PrintPeakMemory(const Report& report, std::ostream& out) {
  if (report.peak_memory_bytes() == 0) return;
  out << "peak memory of the daemon: "
      << FormatByteSize(report.peak_memory_bytes()) << " (at most "
      << FormatByteSize(report.memory_bound_bytes()) << ")\n";
  PrintCuts(report.cuts(), report.memory_limit_bytes(), out);
}

// Prints the test metric, for a report with such fields.
template <typename Report>
void PrintTestMetric(const Report& report, std::ostream& out) {
  if (!report.has_test_metric()) return;
  out << "test " << MetricWords(report.metric()) << ": "
      << FormatMetric(report.metric(), report.test_metric()) << "\n";
}

// Prints what each machine did of a job of several.
void PrintMachines(const v1::TrainReport& report, std::ostream& out) {
  if (report.machines().empty()) return;
  out << "\n";
  Table table({{"machine"},
               {"sent", kRight},
               {"received", kRight},
               {"waited", kRight},
               {"read from disk", kRight}});
  for (const v1::MachineReport& machine : report.machines()) {
    table.AddRow({machine.member(), FormatByteSize(machine.bytes_sent()),
                  FormatByteSize(machine.bytes_received()),
                  absl::StrCat(Decimal(machine.wait_seconds(), 1), " s"),
                  FormatByteSize(machine.bytes_read())});
  }
  table.Print(out);
}

// Prints where another number of machines began to train a job.
void PrintMachineChanges(const v1::TrainReport& report, std::ostream& out) {
  for (const v1::MachineChange& change : report.machine_changes()) {
    out << "trained by " << Counted(change.machines(), "machine")
        << " from epoch " << change.epoch() << ", batch " << change.batch()
        << "\n";
  }
}

}  // namespace

void PrintLiveMachines(const v1::Job& job, std::ostream& out) {
  if (job.machines().empty()) return;
  Table table({{"machine"},
               {"phase"},
               {"epoch", kRight},
               {"batch", kRight},
               {"sent", kRight},
               {"received", kRight},
               {"waited", kRight},
               {"silent", kRight}});
  for (const v1::MachineState& machine : job.machines()) {
    table.AddRow(
        {machine.member(), machine.phase(),
         machine.epoch() == 0 ? kUnknown : absl::StrCat(machine.epoch()),
         machine.total() == 0
             ? kUnknown
             : absl::StrCat(machine.done(), "/", machine.total()),
         FormatByteSize(machine.bytes_sent()),
         FormatByteSize(machine.bytes_received()),
         absl::StrCat(Decimal(machine.wait_seconds(), 1), " s"),
         absl::StrCat(Decimal(machine.silent_seconds(), 1), " s")});
  }
  table.Print(out);
}

namespace {

void PrintCompany(const v1::Company& company, std::ostream& out) {
  out << "shared its passes with: "
      << EscapeControl(absl::StrJoin(company.jobs(), ", "))
      << "\nread: " << FormatByteSize(company.bytes_charged())
      << " as its part of " << FormatByteSize(company.bytes_alone()) << "\n";
}

// Prints the hits by level ("  constant_buffer: 84.2% of the rows") of
// strategies with several levels, and how the other rows were read.
void PrintLevels(const v1::EpochReport& epoch, std::ostream& out) {
  if (epoch.rows_needed() == 0) return;
  const auto share = [&](uint64_t rows) {
    return absl::StrCat(Decimal(100 * static_cast<double>(rows) /
                                    static_cast<double>(epoch.rows_needed()),
                                1),
                        "% of the rows");
  };
  if (epoch.hits_size() > 1) {
    for (const v1::LevelHits& level : epoch.hits()) {
      out << "  " << EscapeControl(level.level()) << ": " << share(level.rows())
          << "\n";
    }
    out << "  read: " << share(epoch.rows_read()) << "\n";
  }
  if (!epoch.has_overlap()) return;
  const v1::ReadOverlap& overlap = epoch.overlap();
  out << "  batches read at a time: " << Decimal(overlap.mean_merged(), 1)
      << ", for " << FormatCount(overlap.target_reads())
      << " reads to overlap, by " << EscapeControl(overlap.storage_path())
      << "\n";
  if (overlap.held_by_merge_max() + overlap.held_by_staging() > 0) {
    out << "  batches that came late: "
        << FormatCount(overlap.held_by_merge_max()) << " for --merge-max, "
        << FormatCount(overlap.held_by_staging()) << " for --staging\n";
  }
}

// Prints which parts of the split had no nodes, for a job with a model.
void PrintLeftOut(const v1::TrainJobSpec& spec, const v1::TrainReport& report,
                  std::ostream& out) {
  if (report.model_path().empty()) return;
  const bool validated =
      std::any_of(report.epochs().begin(), report.epochs().end(),
                  [](const auto& epoch) { return epoch.has_valid_metric(); });
  if (!validated && report.epochs_size() > 0) {
    out << "no validation: the dataset has no validation nodes with labels\n";
  }
  if (!report.has_test_metric() && !spec.skip_test()) {
    out << kNoTest;
  }
}

void PrintTrainReport(const v1::TrainJobSpec& spec,
                      const v1::TrainReport& report, std::ostream& out) {
  if (report.epochs_size() > 0) {
    PrintEpochs(report, out);
    PrintComparison(report, out);
    const v1::EpochReport& last = report.epochs(report.epochs_size() - 1);
    if (last.stages_size() > 0) {
      out << "\nepoch " << last.epoch() << " by stage\n";
      PrintStages(last, out);
    }
    for (const v1::PhaseSeconds& phase : last.phases()) {
      out << "  " << EscapeControl(phase.name()) << ": "
          << Decimal(phase.seconds(), 1) << " s\n";
    }
    PrintLevels(last, out);
    out << "\n";
  }
  if (report.has_auto_()) {
    PrintChoice(report.auto_(), /*with_prices=*/false, out);
  }
  if (report.has_partition()) PrintPreparation(report.partition(), out);
  for (const v1::PreparationReport& preparation : report.preparations()) {
    PrintPreparation(preparation, out);
  }
  PrintMachines(report, out);
  PrintMachineChanges(report, out);
  PrintTestMetric(report, out);
  PrintLeftOut(spec, report, out);
  PrintPeakMemory(report, out);
  if (report.has_first_batch_seconds()) {
    out << "first batch after: " << Decimal(report.first_batch_seconds(), 2)
        << " s" << (report.warm_start() ? " (warm start)" : "") << "\n";
  }
  if (report.verified_once_size() > 0) {
    out << "verified before the first batch only: "
        << EscapeControl(absl::StrJoin(report.verified_once(), ", ")) << "\n";
  }
  // Only the end of a job knows it.
  if (!report.loss_digest().empty() && !report.exact()) {
    out << "exact: no ("
        << (report.row_dtype().empty()
                ? "embeddings of earlier batches were used, batches came as "
                  "they "
                  "were ready, or had the nodes in memory only"
                : absl::StrCat("feature rows are rounded to ",
                               EscapeControl(report.row_dtype())))
        << ")\n";
  }
  if (!report.device().empty() && report.device() != "cpu") {
    out << "trained on: " << EscapeControl(report.device()) << "\n";
  }
  if (!report.precision().empty() && report.precision() != "fp32") {
    out << "precision: " << EscapeControl(report.precision()) << "\n";
  }
  if (report.has_history()) PrintHistory(report.history(), out);
  if (report.has_history() && report.epochs_size() > 0) {
    const v1::EpochReport& last = report.epochs(report.epochs_size() - 1);
    out << "rows for each seed of epoch " << last.epoch() << ": "
        << Decimal(last.redundancy_ratio(), 1) << "\n";
  }
  if (report.has_locality()) {
    PrintLocality(report.metric(), report.locality(), out);
  }
  if (report.has_company()) PrintCompany(report.company(), out);
  if (report.resumes() > 0) {
    out << "went on from a checkpoint: " << Counted(report.resumes(), "time")
        << "\n";
  }
  if (!report.loss_digest().empty()) {
    out << "loss digest: " << EscapeControl(report.loss_digest()) << "\n";
  }
  if (!report.model_path().empty()) {
    out << "model: " << EscapeControl(report.model_path());
    if (report.kept_epoch() > 0)
      out << " (epoch " << report.kept_epoch() << ")";
    out << "\n";
  }
}

void PrintEvaluateReport(const v1::EvaluateReport& report, std::ostream& out) {
  if (report.has_test_metric()) {
    PrintTestMetric(report, out);
  } else {
    out << kNoTest;
  }
  PrintPeakMemory(report, out);
  if (report.has_company()) PrintCompany(report.company(), out);
  out << "weights: from epoch " << report.kept_epoch() << "\n";
}

// Prints what a feed's client has reported of its own training.
void PrintReportedEpochs(const v1::FeedReport& report, std::ostream& out) {
  if (report.epochs().empty()) return;
  Table table({{"epoch", kRight}, {"loss", kRight}, {"valid"}, {"", kRight}});
  for (const v1::EpochReport& epoch : report.epochs()) {
    const bool validated = epoch.has_valid_metric();
    table.AddRow({absl::StrCat(epoch.epoch()), FormatLoss(epoch.loss()),
                  validated ? MetricWords(epoch.metric()) : kUnknown,
                  validated ? FormatMetric(epoch.metric(), epoch.valid_metric())
                            : kUnknown});
  }
  table.Print(out);
  out << "\n";
}

void PrintFeedReport(const v1::FeedReport& report, std::ostream& out) {
  PrintReportedEpochs(report, out);
  Table table({{"split"},
               {"passes", kRight},
               {"batches", kRight},
               {"rows", kRight},
               {"bytes needed", kRight},
               {"bytes read", kRight},
               {"seconds", kRight}});
  const auto add = [&](const char* split, const v1::FeedReport::Passes& part) {
    if (part.passes() == 0) return;
    const v1::PassReport& sum = part.sum();
    table.AddRow(
        {split, FormatCount(part.passes()), FormatCount(sum.batches()),
         FormatCount(sum.rows_needed()), FormatByteSize(sum.bytes_needed()),
         sum.has_bytes_read() ? FormatByteSize(sum.bytes_read()) : kUnknown,
         Decimal(sum.seconds(), 1)});
  };
  add("train", report.train());
  add("valid", report.valid());
  add("test", report.test());
  table.Print(out);
  if (report.train().sum().stages_size() > 0) {
    out << "\npasses over the training nodes by stage\n";
    PrintStages(report.train().sum(), out);
    out << "\n";
  }
  for (const v1::PreparationReport& preparation : report.preparations()) {
    PrintPreparation(preparation, out);
  }
  out << "the client waited for batches: " << SecondsText(report.wait_seconds())
      << ", worked on them: " << SecondsText(report.script_seconds()) << "\n";
  if (report.copied_batches() > 0) {
    out << "batches that it copied, since it kept others: "
        << FormatCount(report.copied_batches()) << "\n";
  }
  PrintPeakMemory(report, out);
  if (report.has_company()) PrintCompany(report.company(), out);
}

void PrintReport(const v1::Job& job, std::ostream& out) {
  const v1::JobReport& report = job.report();
  if (report.has_train()) {
    PrintTrainReport(job.spec().train(), report.train(), out);
  }
  if (report.has_prepare()) {
    if (report.prepare().has_partition()) {
      PrintPreparation(report.prepare().partition(), out);
    }
    if (report.prepare().has_preparation()) {
      PrintPreparation(report.prepare().preparation(), out);
    }
    PrintPeakMemory(report.prepare(), out);
  }
  if (report.has_explain()) PrintExplanation(report.explain(), out);
  if (report.has_evaluate()) PrintEvaluateReport(report.evaluate(), out);
  if (report.has_feed()) PrintFeedReport(report.feed(), out);
  if (report.has_export_()) {
    out << "exported to " << EscapeControl(report.export_().path()) << "\n";
  }
  if (report.has_verify()) {
    const v1::VerifyReport& verify = report.verify();
    out << "no damage: " << Counted(verify.files(), "array") << ", "
        << Counted(verify.blocks(), "block") << ", "
        << FormatByteSize(verify.bytes()) << " in "
        << Decimal(verify.seconds(), 1) << " s\n";
  }
  if (report.has_import()) {
    const v1::ImportReport& import = report.import();
    out << (job.spec().has_generate()                   ? "generated "
            : job.spec().import().from_member().empty() ? "imported "
                                                        : "copied ")
        << EscapeControl(SubjectOf(job.spec())) << ": "
        << Counted(import.num_nodes(), "node") << ", "
        << Counted(import.num_edges(), "edge") << ", "
        << Counted(import.feature_dim(), "feature") << ", "
        << LabelWords(import.label_kind(), import.label_width()) << "; "
        << FormatByteSize(import.bytes_written()) << " written in "
        << Decimal(import.seconds(), 1) << " s\n";
  }
}

void AddDatasetSpec(const v1::JobSpec& spec, Table* table) {
  if (spec.has_generate()) {
    const v1::GenerateSpec& generate = spec.generate();
    table->AddRow({"to", SubjectOf(spec)});
    table->AddRow({"graph", generate.has_rmat() ? "rmat" : "communities"});
    table->AddRow({"nodes", FormatCount(generate.num_nodes())});
    table->AddRow({"edges", FormatCount(generate.num_edges())});
    table->AddRow({"features", absl::StrCat(generate.feature_dim(), " ",
                                            generate.feature_dtype())});
    table->AddRow({"classes", FormatCount(generate.num_classes())});
    if (generate.communities().num_communities() > 0) {
      table->AddRow({"communities",
                     FormatCount(generate.communities().num_communities())});
    }
    table->AddRow({"seed", absl::StrCat(generate.seed())});
  } else if (spec.has_verify()) {
    table->AddRow({"dataset", spec.verify().dataset()});
  } else if (spec.has_export_dataset()) {
    table->AddRow({"dataset", spec.export_dataset().dataset()});
    table->AddRow({"to", spec.export_dataset().destination()});
  }
}

void AddOptions(const std::vector<std::pair<std::string, std::string>>& options,
                Table* table) {
  for (const auto& [name, value] : options) table->AddRow({name, value});
}

void AddSpec(const v1::JobSpec& spec, Table* table) {
  if (spec.has_train()) {
    AddOptions(OptionsOfTrainJob(spec.train()), table);
  } else if (spec.has_prepare()) {
    AddOptions(OptionsOfPrepareJob(spec.prepare()), table);
  } else if (spec.has_feed()) {
    AddOptions(OptionsOfFeedJob(spec.feed()), table);
  } else if (spec.has_explain()) {
    AddOptions(OptionsOfTrainJob(spec.explain().train()), table);
  } else if (spec.has_import()) {
    table->AddRow({"dataset", spec.import().name()});
    if (!spec.import().from_member().empty()) {
      table->AddRow({"from", spec.import().from_member()});
      if (!spec.import().share().empty()) {
        table->AddRow({"share of feature rows", spec.import().share()});
      }
      return;
    }
    table->AddRow({"format", EnumWord(spec.import().format())});
    table->AddRow({"source", spec.import().upload().empty()
                                 ? spec.import().path()
                                 : spec.import().upload()});
    table->AddRow({"labels", EnumWord(spec.import().labels())});
    table->AddRow({"in-place", spec.import().in_place() ? "yes" : "no"});
  } else if (spec.has_evaluate()) {
    table->AddRow({"job", spec.evaluate().job_id()});
    AddOptions(OptionsOfTrainJob(spec.evaluate().train()), table);
  } else if (spec.has_rank()) {
    table->AddRow({"leader", spec.rank().leader()});
    table->AddRow({"job there", spec.rank().job_id()});
    table->AddRow({"attempt", absl::StrCat(spec.rank().attempt())});
    table->AddRow({"rank", absl::StrCat(spec.rank().rank())});
    AddOptions(OptionsOfTrainJob(spec.rank().train()), table);
  } else if (spec.has_export_()) {
    table->AddRow({"job", spec.export_().job_id()});
    table->AddRow({"to", spec.export_().destination()});
  } else {
    AddDatasetSpec(spec, table);
  }
}

}  // namespace

std::string SubjectOf(const v1::JobSpec& spec) {
  switch (spec.kind_case()) {
    case v1::JobSpec::kImport:
      return spec.import().name();
    case v1::JobSpec::kTrain:
      return spec.train().data().dataset();
    case v1::JobSpec::kExport:
      return spec.export_().job_id();
    case v1::JobSpec::kVerify:
      return spec.verify().dataset();
    case v1::JobSpec::kGenerate:
      return spec.generate().name().empty() ? spec.generate().destination()
                                            : spec.generate().name();
    case v1::JobSpec::kExportDataset:
      return spec.export_dataset().dataset();
    case v1::JobSpec::kPrepare:
      return spec.prepare().data().dataset();
    case v1::JobSpec::kExplain:
      return spec.explain().train().data().dataset();
    case v1::JobSpec::kEvaluate:
      return spec.evaluate().job_id();
    case v1::JobSpec::kRank:
      return spec.rank().train().data().dataset();
    case v1::JobSpec::kFeed:
      return spec.feed().data().dataset();
    case v1::JobSpec::KIND_NOT_SET:
      break;
  }
  return kUnknown;
}

void PrintJobList(const std::vector<v1::Job>& jobs, std::ostream& out) {
  Table table({{"id"},
               {"kind"},
               {"of"},
               {"state"},
               {"created"},
               {"owner"},
               {"priority", kRight},
               {"took", kRight}});
  for (const v1::Job& job : jobs) {
    table.AddRow({job.id(), KindWord(job.spec()), SubjectOf(job.spec()),
                  StateWord(job.state()), FormatTimestamp(job.create_time()),
                  job.owner().empty() ? "-" : job.owner(),
                  absl::StrCat(job.priority()), Elapsed(job)});
  }
  table.Print(out);
}

void PrintJob(const v1::Job& job, std::ostream& out) {
  Table table({{""}, {""}});
  table.AddRow({"id", job.id()});
  table.AddRow({"kind", KindWord(job.spec())});
  table.AddRow({"state", StateWord(job.state())});
  if (!job.waiting_reason().empty()) {
    table.AddRow({"waits for", job.waiting_reason()});
  }
  if (!job.sweep().empty()) {
    table.AddRow(
        {"trial of", absl::StrCat(job.sweep(), ", number ", job.trial(),
                                  job.held() ? ", held back" : "")});
  }
  if (!job.owner().empty()) table.AddRow({"owner", job.owner()});
  if (!job.trace_id().empty()) table.AddRow({"trace", job.trace_id()});
  table.AddRow({"priority", absl::StrCat(job.priority())});
  table.AddRow({"created", FormatTimestamp(job.create_time())});
  table.AddRow({"started", FormatTimestamp(job.start_time())});
  table.AddRow({"ended", FormatTimestamp(job.end_time())});
  AddSpec(job.spec(), &table);
  table.Print(out);
  out << "\n";
  PrintLiveMachines(job, out);
  if (!job.machines().empty()) out << "\n";
  PrintReport(job, out);
  if (job.has_error()) out << "error: " << ErrorText(job.error()) << "\n";
}

void PrintOutcome(const v1::Job& job, std::ostream& out) {
  if (job.state() == v1::SUCCEEDED) {
    PrintReport(job, out);
    return;
  }
  out << EscapeControl(job.id());
  if (job.state() == v1::FAILED) {
    out << " failed: " << ErrorText(job.error()) << "\n";
  } else {
    out << " is " << StateWord(job.state()) << "\n";
  }
}

}  // namespace hearth::cli
