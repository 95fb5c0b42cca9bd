#include "client/cli/views/top_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/views/job_view.h"
#include "client/cli/views/text.h"
#include "engine/base/byte_size.h"

namespace hearth::cli {
namespace {

constexpr char kUnknown[] = "-";

// A stage, and the share of time in which its threads work.
struct Occupancy {
  std::string stage;
  double share = 0;
};

// The last epoch that a job has trained; of a feed, whose client may report
// none, all of its training passes as one.
std::optional<v1::EpochReport> LastEpoch(const v1::Job& job) {
  if (job.report().has_feed()) {
    const v1::PassReport& passes = job.report().feed().train().sum();
    if (passes.batches() == 0) return std::nullopt;
    v1::EpochReport epoch;
    epoch.set_seconds(passes.seconds());
    epoch.set_rows_needed(passes.rows_needed());
    *epoch.mutable_stages() = passes.stages();
    *epoch.mutable_hits() = passes.hits();
    return epoch;
  }
  const v1::TrainReport& report = job.report().train();
  if (report.epochs().empty()) return std::nullopt;
  return *report.epochs().rbegin();
}

std::vector<Occupancy> OccupancyOf(const v1::EpochReport& epoch) {
  std::vector<Occupancy> stages;
  for (const v1::StageReport& stage : epoch.stages()) {
    const double total = stage.busy_seconds() + stage.starved_seconds() +
                         stage.blocked_seconds();
    stages.push_back(
        {stage.name(), total > 0 ? stage.busy_seconds() / total : 0});
  }
  return stages;
}

// Name of the stage that works most, for which the others wait; empty without
// stages.
std::string BoundBy(const std::vector<Occupancy>& stages) {
  const auto busiest = std::max_element(
      stages.begin(), stages.end(),
      [](const auto& a, const auto& b) { return a.share < b.share; });
  return busiest == stages.end() ? "" : busiest->stage;
}

std::string StagesText(const std::vector<Occupancy>& stages) {
  return absl::StrJoin(stages, " ", [](std::string* out, const auto& stage) {
    absl::StrAppendFormat(out, "%s %.0f%%", stage.stage, 100 * stage.share);
  });
}

// Hits of an epoch by level: "cpu_cache 81.2%, gpu_cache 3.0%".
std::string HitsText(const v1::EpochReport& epoch) {
  if (epoch.hits().empty() || epoch.rows_needed() == 0) return kUnknown;
  return absl::StrJoin(
      epoch.hits(), ", ", [&](std::string* out, const v1::LevelHits& level) {
        absl::StrAppendFormat(out, "%s %.1f%%", level.level(),
                              100.0 * static_cast<double>(level.rows()) /
                                  static_cast<double>(epoch.rows_needed()));
      });
}

double RowsPerSecond(const v1::EpochReport& epoch) {
  return epoch.seconds() > 0
             ? static_cast<double>(epoch.rows_needed()) / epoch.seconds()
             : 0;
}

std::string Count(double value) {
  return FormatCount(static_cast<uint64_t>(value));
}

// Progress in counts: "3 of 5".
std::string Of(uint64_t done, uint64_t total) {
  if (total == 0) return done == 0 ? kUnknown : FormatCount(done);
  return absl::StrCat(FormatCount(done), " of ", FormatCount(total));
}

nlohmann::ordered_json JobJson(const v1::Job& job) {
  nlohmann::ordered_json json = {{"id", job.id()},
                                 {"kind", KindWord(job.spec())},
                                 {"of", SubjectOf(job.spec())},
                                 {"state", StateWord(job.state())},
                                 {"waits_for", nullptr},
                                 {"phase", nullptr},
                                 {"epoch", nullptr},
                                 {"epochs", nullptr},
                                 {"done", nullptr},
                                 {"total", nullptr},
                                 {"units_per_second", nullptr},
                                 {"loss", nullptr},
                                 {"rows_per_second", nullptr},
                                 {"hits", nlohmann::ordered_json::object()},
                                 {"stages", nlohmann::ordered_json::object()},
                                 {"bound_by", nullptr}};
  if (!job.waiting_reason().empty()) json["waits_for"] = job.waiting_reason();
  const std::optional<v1::EpochReport> epoch = LastEpoch(job);
  if (!epoch.has_value()) return json;
  json["rows_per_second"] = RowsPerSecond(*epoch);
  for (const v1::LevelHits& level : epoch->hits()) {
    if (epoch->rows_needed() == 0) break;
    json["hits"][level.level()] = static_cast<double>(level.rows()) /
                                  static_cast<double>(epoch->rows_needed());
  }
  const std::vector<Occupancy> stages = OccupancyOf(*epoch);
  for (const Occupancy& stage : stages) {
    json["stages"][stage.stage] = stage.share;
  }
  if (!stages.empty()) json["bound_by"] = BoundBy(stages);
  return json;
}

}  // namespace

void TopView::Add(const v1::Status& status, std::vector<v1::Job> jobs,
                  double seconds) {
  const bool is_same =
      status.pid() == status_.pid() &&
      status.start_time().seconds() == status_.start_time().seconds();
  if (is_same && seconds > answered_) {
    const double passed = seconds - answered_;
    reads_per_second_ =
        static_cast<double>(status.reads() - status_.reads()) / passed;
    bytes_per_second_ =
        static_cast<double>(status.bytes_read() - status_.bytes_read()) /
        passed;
  } else {
    reads_per_second_.reset();
    bytes_per_second_.reset();
  }
  if (!is_same && status_.pid() != 0) ++restarts_;
  status_ = status;
  answered_ = seconds;
  fault_ = absl::OkStatus();
  // Running jobs first, then the others in the order of their turn.
  std::stable_sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const v1::Job& job) {
      return job.state() == v1::RUNNING     ? 0
             : job.state() == v1::PREPARING ? 1
             : job.state() == v1::WAITING   ? 2
                                            : 3;
    };
    return rank(a) < rank(b);
  });
  jobs_ = std::move(jobs);
  std::map<std::string, Doing> doing;
  for (const v1::Job& job : jobs_) {
    if (auto known = doing_.extract(job.id())) doing.insert(std::move(known));
  }
  doing_ = std::move(doing);
}

void TopView::Add(const std::string& job, const v1::JobEvent& event) {
  if (!event.has_progress()) return;
  Doing& doing = doing_[job];
  doing.progress = event.progress();
  doing.estimate.Add(event.progress(), Seconds(event.time()));
}

void TopView::Lose(const absl::Status& why, double seconds) {
  fault_ = why;
  silent_seconds_ = seconds - answered_;
  reads_per_second_.reset();
  bytes_per_second_.reset();
}

std::vector<std::string> TopView::Head() const {
  std::vector<std::string> lines;
  const v1::Status& status = status_;
  lines.push_back(
      absl::StrCat("hearthd ", status.version(), ", process ", status.pid(),
                   ", since ", FormatTimestamp(status.start_time()), ": ",
                   Counted(status.jobs_running(), "job"), " running, ",
                   status.jobs_waiting(), " waiting, ", status.jobs_queued(),
                   " queued", status.draining() ? "; drains" : ""));
  if (!fault_.ok()) {
    lines.push_back(absl::StrCat(
        "THE DAEMON DOES NOT ANSWER, for ", FormatDuration(silent_seconds_),
        "; what follows is of before: ", std::string(fault_.message())));
  } else if (restarts_ > 0) {
    lines.push_back(absl::StrCat("the daemon was started again ",
                                 Counted(restarts_, "time")));
  }
  lines.push_back(absl::StrCat(
      "memory: ", FormatByteSize(status.memory_bytes()), " resident; jobs ",
      FormatByteSize(status.memory_reserved_bytes()), " reserved, ",
      FormatByteSize(status.memory_warm_bytes()), " kept warm, of ",
      FormatByteSize(status.memory_limit_bytes())));
  std::vector<std::string> shares;
  for (const v1::MemoryShare& share : status.memory_shares()) {
    if (share.bytes() == 0) continue;
    shares.push_back(
        absl::StrCat(share.owner(), " ", FormatByteSize(share.bytes())));
  }
  if (!shares.empty()) {
    lines.push_back(absl::StrCat("  for ", absl::StrJoin(shares, ", ")));
  }
  lines.push_back(absl::StrCat(
      "disk: ",
      reads_per_second_.has_value()
          ? absl::StrCat(
                Count(*reads_per_second_), " reads/s, ",
                FormatByteSize(static_cast<uint64_t>(*bytes_per_second_)),
                "/s by ", status.read_queues(), ", ")
          : "",
      status.reads_in_flight(), " reads in flight; ",
      FormatByteSize(status.disk_free_bytes()), " free; plans ",
      FormatByteSize(status.plan_bytes())));
  for (std::string& line : lines) line = EscapeControl(line);
  return lines;
}

std::string TopView::JobTable() const {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"id"},
               {"of"},
               {"state"},
               {"phase"},
               {"epoch", kRight},
               {"done", kRight},
               {"a second", kRight},
               {"loss", kRight},
               {"rows/s", kRight},
               {"hits"},
               {"bound by"},
               {"stages, or what it waits for"}});
  for (const v1::Job& job : jobs_) {
    std::vector<std::string> row(12, kUnknown);
    row[0] = job.id();
    row[1] = SubjectOf(job.spec());
    row[2] = job.held() ? "held" : StateWord(job.state());
    if (const auto at = doing_.find(job.id());
        at != doing_.end() && job.state() != v1::QUEUED) {
      const v1::Progress& progress = at->second.progress;
      row[3] = progress.phase();
      if (progress.epochs() > 0) {
        row[4] = Of(progress.epoch(), progress.epochs());
      }
      row[5] = Of(progress.done(), progress.total());
      if (const auto rate = at->second.estimate.rate()) {
        row[6] = absl::StrFormat("%.1f", *rate);
      }
      if (progress.has_loss()) {
        row[7] = FormatLoss(progress.loss());
      }
    }
    if (const std::optional<v1::EpochReport> epoch = LastEpoch(job)) {
      const std::vector<Occupancy> stages = OccupancyOf(*epoch);
      row[8] = Count(RowsPerSecond(*epoch));
      row[9] = HitsText(*epoch);
      if (!stages.empty()) row[10] = BoundBy(stages);
      row[11] = StagesText(stages);
    }
    if (!job.waiting_reason().empty()) row[11] = job.waiting_reason();
    table.AddRow(row);
  }
  std::ostringstream text;
  table.Print(text);
  return text.str();
}

std::string TopView::Text(int columns, int rows) const {
  std::vector<std::string> lines = Head();
  lines.push_back("");
  if (jobs_.empty()) {
    lines.push_back("no job runs or waits");
  } else {
    std::ostringstream tables;
    tables << JobTable();
    for (const v1::Job& job : jobs_) {
      if (job.machines().empty()) continue;
      tables << "machines of " << job.id() << ":\n";
      PrintLiveMachines(job, tables);
    }
    for (const absl::string_view line :
         absl::StrSplit(tables.str(), '\n', absl::SkipEmpty())) {
      lines.emplace_back(line);
    }
  }
  const size_t height = rows > 0 ? static_cast<size_t>(rows) : lines.size();
  if (lines.size() > height && height > 0) {
    const size_t hidden = lines.size() - height + 1;
    lines.resize(height - 1);
    lines.push_back(absl::StrCat("... ", hidden, " more"));
  }
  for (std::string& line : lines) {
    if (columns > 0) line = FirstCharacters(line, static_cast<size_t>(columns));
  }
  return absl::StrJoin(lines, "\n");
}

nlohmann::ordered_json TopView::Json() const {
  const auto number = [](const std::optional<double>& value) {
    return value.has_value() ? nlohmann::ordered_json(*value)
                             : nlohmann::ordered_json();
  };
  nlohmann::ordered_json json = {
      {"version", status_.version()},
      {"pid", status_.pid()},
      {"jobs_running", status_.jobs_running()},
      {"jobs_waiting", status_.jobs_waiting()},
      {"jobs_queued", status_.jobs_queued()},
      {"memory",
       {{"resident_bytes", status_.memory_bytes()},
        {"reserved_bytes", status_.memory_reserved_bytes()},
        {"warm_bytes", status_.memory_warm_bytes()},
        {"limit_bytes", status_.memory_limit_bytes()},
        {"by_owner", nlohmann::ordered_json::object()}}},
      {"disk",
       {{"reads_per_second", number(reads_per_second_)},
        {"bytes_per_second", number(bytes_per_second_)},
        {"reads_in_flight", status_.reads_in_flight()},
        {"free_bytes", status_.disk_free_bytes()}}},
      {"jobs", nlohmann::ordered_json::array()}};
  for (const v1::MemoryShare& share : status_.memory_shares()) {
    json["memory"]["by_owner"][share.owner()] = share.bytes();
  }
  for (const v1::Job& job : jobs_) {
    nlohmann::ordered_json entry = JobJson(job);
    if (const auto at = doing_.find(job.id()); at != doing_.end()) {
      const v1::Progress& progress = at->second.progress;
      entry["phase"] = progress.phase();
      entry["epoch"] = progress.epoch();
      entry["epochs"] = progress.epochs();
      entry["done"] = progress.done();
      entry["total"] = progress.total();
      entry["units_per_second"] = number(at->second.estimate.rate());
      if (progress.has_loss()) entry["loss"] = progress.loss();
    }
    json["jobs"].push_back(entry);
  }
  return json;
}

}  // namespace hearth::cli
