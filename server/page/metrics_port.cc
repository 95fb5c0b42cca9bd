#include "server/page/metrics_port.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "engine/io/file_system.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "engine/train/model_options.h"
#include "hearth/v1/jobs.pb.h"
#include "server/page/assets.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"

namespace hearth::server {

namespace {

using metrics::Gauge;

class DaemonMetricsImpl final : public DaemonMetrics {
 public:
  DaemonMetricsImpl(const DaemonMetricsDependencies& deps,
                    const std::string& torch_version)
      : deps_(deps) {
    metrics::Registry& registry = deps.registry;
    build_info_ = registry.NewGauge(
        "hearth_build_info", "Always 1; the labels tell what runs.",
        {{"version", kVersion}, {"torch", torch_version}});
    build_info_->Set(1);
    anonymous_ = NewMemoryGauge("anonymous");
    shared_ = NewMemoryGauge("shared");
    free_ = registry.NewGauge(
        "hearth_data_dir_free_bytes",
        "Bytes free on the file system of the data directory.", {});
    limit_ = registry.NewGauge("hearth_memory_limit_bytes",
                               "What jobs may take together.", {});
    limit_->Set(static_cast<double>(deps.memory.limit_bytes()));
    plan_bytes_ =
        registry.NewGauge("hearth_plan_bytes", "What plans take on disk.", {});
    for (const std::string& folder : deps.data_disks.folders()) {
      data_disks_.push_back(
          {.free = registry.NewGauge(
               "hearth_data_disk_free_bytes",
               "Bytes free on the file system of a --data-disk.",
               {{"folder", folder}}),
           .plans = registry.NewGauge("hearth_data_disk_plan_bytes",
                                      "What plans take on a --data-disk.",
                                      {{"folder", folder}})});
    }
    queue_seconds_ = registry.NewGauge(
        "hearth_queue_longest_seconds",
        "Seconds that the job has been queued, or has waited, that has been so "
        "longest; 0 = none is.",
        {});
    hook_ = registry.NewCollectHook([this] { Update(); });
  }

 private:
  std::unique_ptr<Gauge> NewMemoryGauge(const std::string& kind) {
    return deps_.registry.NewGauge(
        "hearth_process_memory_bytes",
        "Resident memory that the daemon owns; pages of files are not.",
        {{"kind", kind}});
  }

  // Called by the hook, one collection at a time.
  void Update() {
    const ProcessMemory memory = ReadProcessMemory();
    anonymous_->Set(static_cast<double>(memory.anonymous_bytes));
    shared_->Set(static_cast<double>(memory.shared_bytes));
    if (const auto free = deps_.files.FreeBytes(deps_.data_dir.path());
        free.ok()) {
      free_->Set(static_cast<double>(*free));
    }
    if (const auto bytes = deps_.plans.TotalBytes(); bytes.ok()) {
      plan_bytes_->Set(static_cast<double>(*bytes));
    }
    for (size_t i = 0; i < data_disks_.size(); ++i) {
      plan::PlanStore& store = *deps_.data_disks.stores()[i];
      if (const auto free = deps_.files.FreeBytes(store.options().folder);
          free.ok()) {
        data_disks_[i].free->Set(static_cast<double>(*free));
      }
      if (const auto bytes = store.TotalBytes(); bytes.ok()) {
        data_disks_[i].plans->Set(static_cast<double>(*bytes));
      }
    }
    queue_seconds_->Set(deps_.longest_queue_seconds());
    for (const auto& [owner, bytes] : deps_.memory.BytesByOwner()) {
      std::unique_ptr<Gauge>& gauge = reserved_[owner];
      if (gauge == nullptr) {
        gauge = deps_.registry.NewGauge("hearth_memory_reserved_bytes",
                                        "Bytes reserved for running jobs and "
                                        "for data that stays warm after "
                                        "them.",
                                        {{"owner", owner}});
      }
      gauge->Set(static_cast<double>(bytes));
    }
    for (const auto& [number, use] : deps_.memory.gpus()) {
      auto& [limit, reserved] = gpus_[number];
      if (limit == nullptr) {
        const metrics::Labels labels = {{"device", train::DeviceName(number)}};
        limit = deps_.registry.NewGauge(
            "hearth_gpu_memory_limit_bytes",
            "Bytes of a GPU's memory that all jobs together may take.", labels);
        reserved =
            deps_.registry.NewGauge("hearth_gpu_memory_reserved_bytes",
                                    "Bytes of a GPU's memory reserved for "
                                    "running jobs and for data that "
                                    "stays warm after them.",
                                    labels);
      }
      limit->Set(static_cast<double>(use.limit_bytes));
      reserved->Set(static_cast<double>(use.taken_bytes));
    }
    const auto counts = deps_.store.CountByState();
    if (!counts.ok()) return;
    for (const auto& [state, count] : *counts) {
      std::unique_ptr<Gauge>& gauge = jobs_[state];
      if (gauge == nullptr) {
        gauge = deps_.registry.NewGauge(
            "hearth_jobs", "Jobs in each state.",
            {{"state", absl::AsciiStrToLower(v1::JobState_Name(state))}});
      }
      gauge->Set(static_cast<double>(count));
    }
  }

  const DaemonMetricsDependencies deps_;
  std::unique_ptr<Gauge> build_info_;
  std::unique_ptr<Gauge> anonymous_;
  std::unique_ptr<Gauge> shared_;
  std::unique_ptr<Gauge> free_;
  std::unique_ptr<Gauge> limit_;
  std::unique_ptr<Gauge> plan_bytes_;
  struct DataDisk {
    std::unique_ptr<Gauge> free;
    std::unique_ptr<Gauge> plans;
  };
  // Series of each --data-disk, in order.
  std::vector<DataDisk> data_disks_;
  std::unique_ptr<Gauge> queue_seconds_;
  std::map<std::string, std::unique_ptr<Gauge>> reserved_;
  // Limit and reserved bytes of each GPU, by number.
  std::map<int, std::pair<std::unique_ptr<Gauge>, std::unique_ptr<Gauge>>>
      gpus_;
  std::map<v1::JobState, std::unique_ptr<Gauge>> jobs_;
  // Declared last, so that it ends before the series that it updates.
  std::unique_ptr<metrics::CollectHook> hook_;
};

}  // namespace

std::unique_ptr<DaemonMetrics> NewDaemonMetrics(
    const DaemonMetricsDependencies& deps, const std::string& torch_version) {
  return std::make_unique<DaemonMetricsImpl>(deps, torch_version);
}

namespace {

using nlohmann::json;

// Progress is stored twice a second, so that one of the last events is
// progress.
constexpr uint64_t kLastEvents = 8;

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

// Whether a smaller value of the metric is the better one.
bool LessIsBetter(const std::string& metric) {
  return metric == "mse" || metric == "loss";
}

// Index of the shown one number `i` of `shown` entries that are evenly chosen
// out of `count`; the last entry is always shown.
int Chosen(int i, int shown, int count) {
  return static_cast<int>(int64_t{i + 1} * count / shown) - 1;
}

// Name of the field that is set in the oneof; empty = none is.
std::string ChoiceOf(const google::protobuf::Message& message,
                     const char* oneof) {
  const auto* field = message.GetReflection()->GetOneofFieldDescriptor(
      message, message.GetDescriptor()->FindOneofByName(oneof));
  return field == nullptr ? "" : field->name();
}

// JSON has no NaN.
json Number(double value) {
  return std::isfinite(value) ? json(value) : json();
}

const v1::TrainJobSpec* TrainingOf(const v1::JobSpec& spec) {
  if (spec.has_train()) return &spec.train();
  if (spec.has_explain()) return &spec.explain().train();
  if (spec.has_evaluate()) return &spec.evaluate().train();
  return nullptr;
}

void AddSpec(const v1::JobSpec& spec, json& job) {
  job["kind"] = ChoiceOf(spec, "kind");
  const v1::TrainJobSpec* training = TrainingOf(spec);
  const v1::DataSpec* data = training != nullptr  ? &training->data()
                             : spec.has_prepare() ? &spec.prepare().data()
                             : spec.has_feed()    ? &spec.feed().data()
                                                  : nullptr;
  if (data != nullptr) {
    job["dataset"] = data->dataset();
    job["strategy"] = ChoiceOf(*data, "strategy");
  }
  if (training != nullptr && training->trains_size() > 0) {
    job["model"] = ChoiceOf(training->trains(0), "model");
  }
  if (spec.has_import()) job["dataset"] = spec.import().name();
  if (spec.has_generate()) job["dataset"] = spec.generate().name();
  if (spec.has_verify()) job["dataset"] = spec.verify().dataset();
}

using Epochs = google::protobuf::RepeatedPtrField<v1::EpochReport>;

// The epoch whose weights are kept, or, while that is not known, the best one
// by validation; null if there is none that was validated.
// `kept` is the number of the epoch whose weights are kept; 0 = none is.
const v1::EpochReport* BestEpoch(const Epochs& epochs, uint32_t kept) {
  const v1::EpochReport* best = nullptr;
  for (const v1::EpochReport& epoch : epochs) {
    if (!epoch.has_valid_metric() || std::isnan(epoch.valid_metric())) continue;
    if (kept > 0) {
      if (epoch.epoch() == kept) return &epoch;
      continue;
    }
    if (best == nullptr ||
        (LessIsBetter(epoch.metric())
             ? epoch.valid_metric() < best->valid_metric()
             : epoch.valid_metric() > best->valid_metric())) {
      best = &epoch;
    }
  }
  return best;
}

void AddEpochs(const Epochs& epochs, uint32_t kept, json& job) {
  json entries = json::array();
  const int count = epochs.size();
  const int shown = std::min(count, DaemonState::kEpochs);
  for (int i = 0; i < shown; ++i) {
    const v1::EpochReport& epoch = epochs[Chosen(i, shown, count)];
    job["metric"] = epoch.metric();
    json entry = {{"epoch", epoch.epoch()},
                  {"loss", Number(epoch.loss())},
                  {"seconds", epoch.seconds()}};
    if (epoch.has_valid_metric()) {
      entry["valid_metric"] = Number(epoch.valid_metric());
    }
    entries.push_back(std::move(entry));
  }
  job["epochs"] = std::move(entries);
  if (const v1::EpochReport* best = BestEpoch(epochs, kept)) {
    job["best_epoch"] = best->epoch();
    job["best_valid_metric"] = Number(best->valid_metric());
  }
}

void AddReport(const v1::TrainReport& report, json& job) {
  AddEpochs(report.epochs(), report.kept_epoch(), job);
  if (report.has_test_metric()) {
    job["test_metric"] = Number(report.test_metric());
  }
  for (const v1::MachineChange& change : report.machine_changes()) {
    job["machine_changes"].push_back({{"epoch", change.epoch()},
                                      {"batch", change.batch()},
                                      {"machines", change.machines()}});
  }
}

void AddReport(const v1::EvaluateReport& report, json& job) {
  job["metric"] = report.metric();
  if (report.has_test_metric()) {
    job["test_metric"] = Number(report.test_metric());
  }
}

std::string TrialStateName(v1::TrialState state) {
  return absl::AsciiStrToLower(
      absl::StripPrefix(v1::TrialState_Name(state), "TRIAL_"));
}

// The job that stands for a trial; empty before there is one.
std::string JobOf(const v1::Trial& trial) {
  if (!trial.best_job().empty()) return trial.best_job();
  return trial.jobs_size() > 0 ? trial.jobs(0) : "";
}

// Adds the newest progress of an active job, if there is any.
void AddProgress(JobStore& store, const v1::Job& active, json& job) {
  const uint64_t last = active.last_sequence();
  const auto batch =
      store.ReadEvents(active.id(), last < kLastEvents ? 1 : last - kLastEvents,
                       2 * kLastEvents);
  if (!batch.ok()) return;
  for (const v1::JobEvent& event : batch->events) {
    if (!event.has_progress()) continue;
    const v1::Progress& progress = event.progress();
    job["progress"] = {{"phase", progress.phase()},
                       {"done", progress.done()},
                       {"total", progress.total()},
                       {"epoch", progress.epoch()},
                       {"epochs", progress.epochs()}};
  }
}

json Describe(JobStore& store, const v1::Job& listed) {
  json job = {{"id", listed.id()},
              {"state", v1::JobState_Name(listed.state())},
              {"create_time", Seconds(listed.create_time())}};
  AddSpec(listed.spec(), job);
  if (!listed.sweep().empty()) {
    job["sweep"] = listed.sweep();
    job["trial"] = listed.trial();
  }
  if (listed.has_start_time()) job["start_time"] = Seconds(listed.start_time());
  if (listed.has_end_time()) job["end_time"] = Seconds(listed.end_time());
  if (listed.has_error()) job["error"] = listed.error().message();
  if (!listed.waiting_reason().empty()) {
    job["waiting_reason"] = listed.waiting_reason();
  }
  if (IsActive(listed.state())) AddProgress(store, listed, job);
  const bool has_results = listed.spec().has_train() ||
                           listed.spec().has_evaluate() ||
                           listed.spec().has_feed();
  if (!has_results) return job;
  // Epochs of a job that has not succeeded are stored as events.
  const auto whole = store.Get(listed.id());
  if (!whole.ok()) return job;
  if (listed.spec().has_train()) AddReport(whole->report().train(), job);
  if (listed.spec().has_feed()) {
    AddEpochs(whole->report().feed().epochs(), /*kept=*/0, job);
  }
  if (whole->report().has_evaluate()) {
    AddReport(whole->report().evaluate(), job);
  }
  return job;
}

json Describe(const v1::Sweep& listed) {
  const v1::TrainJobSpec& train = listed.spec().train();
  json counts = json::object();
  for (const v1::TrialCount& count : listed.counts()) {
    counts[TrialStateName(count.state())] = count.trials();
  }
  json sweep = {{"id", listed.id()},
                {"state", std::string(absl::StripPrefix(
                              v1::SweepState_Name(listed.state()), "SWEEP_"))},
                {"create_time", Seconds(listed.create_time())},
                {"dataset", train.data().dataset()},
                {"strategy", ChoiceOf(train.data(), "strategy")},
                {"algorithm", ChoiceOf(listed.spec(), "algorithm")},
                {"counts", std::move(counts)},
                {"metric", listed.metric()}};
  sweep["model"] =
      train.trains_size() > 0 ? ChoiceOf(train.trains(0), "model") : "";
  if (listed.has_end_time()) sweep["end_time"] = Seconds(listed.end_time());
  if (listed.best_trial() > 0) sweep["best_trial"] = listed.best_trial();
  if (listed.has_best_metric()) {
    sweep["best_metric"] = Number(listed.best_metric());
  }
  if (listed.has_best_test_metric()) {
    sweep["test_metric"] = Number(listed.best_test_metric());
  }
  if (!listed.test_fault().empty()) sweep["test_fault"] = listed.test_fault();
  return sweep;
}

json Describe(const v1::Trial& listed) {
  std::string parameters;
  for (const v1::TrialSetting& setting : listed.parameters()) {
    absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", setting.name(),
                    " ", setting.value());
  }
  json trial = {{"number", listed.number()},
                {"state", TrialStateName(listed.state())},
                {"parameters", parameters},
                {"epochs", listed.epochs()}};
  if (listed.has_metric()) trial["metric"] = Number(listed.metric());
  if (listed.rank() > 0) trial["rank"] = listed.rank();
  if (!listed.reason().empty()) trial["reason"] = listed.reason();
  if (listed.has_test_metric()) {
    trial["test_metric"] = Number(listed.test_metric());
  }
  if (listed.same_as() > 0) trial["same_as"] = listed.same_as();
  const std::string job = JobOf(listed);
  if (!job.empty()) trial["job"] = job;
  return trial;
}

// The trials that are shown, in their order.
std::vector<const v1::Trial*> ShownTrials(const v1::Sweep& sweep) {
  const auto order = [](const v1::Trial* trial) {
    const bool works = trial->state() == v1::TRIAL_RUNNING ||
                       trial->state() == v1::TRIAL_WAITING;
    const uint32_t rank = trial->rank() > 0
                              ? trial->rank()
                              : std::numeric_limits<uint32_t>::max();
    return std::make_tuple(!works, works ? 0 : rank,
                           trial->state() == v1::TRIAL_PENDING,
                           trial->number());
  };
  std::vector<const v1::Trial*> trials;
  for (const v1::Trial& trial : sweep.trials()) trials.push_back(&trial);
  std::sort(trials.begin(), trials.end(),
            [&](const v1::Trial* a, const v1::Trial* b) {
              return order(a) < order(b);
            });
  if (trials.size() > DaemonState::kTrials) {
    trials.resize(DaemonState::kTrials);
  }
  return trials;
}

// Figures by epoch that a job is judged by.
json CurveOf(const v1::TrainReport& report, bool by_loss) {
  json curve = json::array();
  const int count = report.epochs_size();
  const int shown = std::min(count, DaemonState::kCurvePoints);
  for (int i = 0; i < shown; ++i) {
    const v1::EpochReport& epoch = report.epochs(Chosen(i, shown, count));
    if (!by_loss && !epoch.has_valid_metric()) continue;
    curve.push_back(
        {epoch.epoch(), Number(by_loss ? epoch.loss() : epoch.valid_metric())});
  }
  return curve;
}

// Whether a line of /metrics is about the daemon or a job in `active`.
bool IsShown(absl::string_view line, const std::set<std::string>& active) {
  if (line.empty() || line[0] == '#' || absl::StrContains(line, "_bucket{")) {
    return false;
  }
  constexpr absl::string_view kJob = "job=\"";
  const size_t at = line.find(kJob);
  if (at == absl::string_view::npos) return true;
  line.remove_prefix(at + kJob.size());
  return active.contains(std::string(line.substr(0, line.find('"'))));
}

class DaemonStateImpl final : public DaemonState {
 public:
  explicit DaemonStateImpl(const DaemonStateDependencies& dependencies)
      : store_(dependencies.store),
        sweeps_(dependencies.sweeps),
        get_sweep_(dependencies.get_sweep),
        add_machines_(dependencies.add_machines),
        registry_(dependencies.registry),
        clock_(dependencies.clock),
        start_time_(clock_.Now()) {}

  std::string Json() override ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const double now = clock_.SteadySeconds();
    if (json_.empty() || now - made_at_ > kLifetimeSeconds) {
      json_ = Make();
      made_at_ = now;
    }
    return json_;
  }

 private:
  // Description of a job or a sweep as of its event `last_sequence`.
  struct Described {
    uint64_t last_sequence = 0;
    json shown;
    // Of a sweep: whether its trials have curves.
    bool with_curves = false;
  };
  // Curve of a job as of its epoch number `epochs`.
  struct Curve {
    uint32_t epochs = 0;
    json points;
  };

  std::string Make() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto seconds = [](absl::Time time) {
      return absl::ToDoubleSeconds(time - absl::UnixEpoch());
    };
    json state = {{"version", kVersion},
                  {"time", seconds(clock_.Now())},
                  {"start_time", seconds(start_time_)},
                  {"jobs", json::array()},
                  {"sweeps", json::array()},
                  {"series", json::array()}};
    std::set<std::string> active;
    absl::Status status = AddJobs(state, active);
    status.Update(AddSweeps(state));
    if (!status.ok()) state["error"] = std::string(status.message());
    const std::string text = registry_.Text();
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (IsShown(line, active)) state["series"].push_back(std::string(line));
    }
    // Invalid UTF-8 is replaced instead of throwing.
    return state.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  // Adds jobs to `state`, and the ids of the active ones to `active`.
  absl::Status AddJobs(json& state, std::set<std::string>& active)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::vector<v1::Job> jobs,
        store_.Newest({{.states = {v1::PREPARING, v1::RUNNING}, .limit = kJobs},
                       {.states = {v1::QUEUED, v1::WAITING},
                        .limit = kJobs,
                        .outside_sweeps = true},
                       {.states = {v1::SUCCEEDED, v1::FAILED, v1::CANCELLED},
                        .limit = kJobs,
                        .outside_sweeps = true}}));
    std::map<std::string, Described> described;
    for (const v1::Job& job : jobs) {
      if (IsActive(job.state())) active.insert(job.id());
      Described& now = described[job.id()];
      now = std::move(described_[job.id()]);
      if (now.shown.empty() || now.last_sequence != job.last_sequence()) {
        now = {.last_sequence = job.last_sequence(),
               .shown = Describe(store_, job)};
      }
      state["jobs"].push_back(now.shown);
      AddMachines(job.id(), state["jobs"].back());
    }
    described_ = std::move(described);
    return absl::OkStatus();
  }

  void AddMachines(const std::string& id, json& shown) const {
    if (!add_machines_) return;
    v1::Job job;
    job.set_id(id);
    add_machines_(job);
    for (const v1::MachineState& machine : job.machines()) {
      shown["machines"].push_back(
          {{"member", machine.member()},
           {"phase", machine.phase()},
           {"done", machine.done()},
           {"total", machine.total()},
           {"epoch", machine.epoch()},
           {"bytes_sent", machine.bytes_sent()},
           {"bytes_received", machine.bytes_received()},
           {"wait_seconds", machine.wait_seconds()},
           {"silent_seconds", machine.silent_seconds()}});
    }
  }

  // The newest sweeps, and older ones whose jobs are in `jobs`.
  absl::StatusOr<std::vector<v1::Sweep>> ListSweeps(const json& jobs) {
    HEARTH_ASSIGN_OR_RETURN(std::vector<v1::Sweep> sweeps,
                            sweeps_.List(kSweeps));
    std::set<std::string> known;
    for (const v1::Sweep& sweep : sweeps) known.insert(sweep.id());
    for (const json& job : jobs) {
      if (!job.contains("sweep")) continue;
      const auto id = job["sweep"].get<std::string>();
      if (!known.insert(id).second) continue;
      absl::StatusOr<v1::Sweep> sweep = sweeps_.Get(id);
      // It may have been deleted meanwhile.
      if (sweep.ok()) sweeps.push_back(*std::move(sweep));
    }
    return sweeps;
  }

  // Adds sweeps to `state`, which has its jobs.
  absl::Status AddSweeps(json& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Sweep> sweeps,
                            ListSweeps(state["jobs"]));
    std::map<std::string, Described> described;
    for (const v1::Sweep& sweep : sweeps) {
      const bool with_curves =
          &sweep == &sweeps.front() || !HasEnded(sweep.state());
      Described& now = described[sweep.id()];
      now = std::move(described_sweeps_[sweep.id()]);
      if (now.shown.empty() || now.last_sequence != sweep.last_sequence() ||
          now.with_curves != with_curves) {
        now = {.last_sequence = sweep.last_sequence(),
               .shown = Describe(sweep),
               .with_curves = with_curves};
        AddTrials(sweep, with_curves, now.shown);
      }
      state["sweeps"].push_back(now.shown);
    }
    described_sweeps_ = std::move(described);
    for (auto it = curves_.begin(); it != curves_.end();) {
      it = described_sweeps_.contains(it->first) ? std::next(it)
                                                 : curves_.erase(it);
    }
    return absl::OkStatus();
  }

  void AddTrials(const v1::Sweep& listed, bool with_curves, json& sweep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (HasEnded(listed.state()) && listed.last_sequence() > kSweepEvents) {
      return;
    }
    const absl::StatusOr<v1::Sweep> whole = get_sweep_(listed.id());
    if (!whole.ok()) return;
    sweep["trials"] = json::array();
    std::map<std::string, Curve> curves;
    for (const v1::Trial* trial : ShownTrials(*whole)) {
      json shown = Describe(*trial);
      const std::string job = JobOf(*trial);
      if (with_curves && !job.empty() && trial->same_as() == 0) {
        Curve& curve = curves[job];
        curve = std::move(curves_[listed.id()][job]);
        if (curve.points.empty() || curve.epochs != trial->epochs()) {
          const auto read = store_.Get(job);
          curve = {.epochs = trial->epochs(),
                   .points = read.ok() ? CurveOf(read->report().train(),
                                                 listed.metric() == "loss")
                                       : json::array()};
        }
        shown["curve"] = curve.points;
      }
      sweep["trials"].push_back(std::move(shown));
    }
    curves_[listed.id()] = std::move(curves);
  }

  JobStore& store_;
  SweepStore& sweeps_;
  const std::function<absl::StatusOr<v1::Sweep>(const std::string&)> get_sweep_;
  const std::function<void(v1::Job& job)> add_machines_;
  const metrics::Registry& registry_;
  const Clock& clock_;
  const absl::Time start_time_;
  absl::Mutex mutex_;
  // Jobs and sweeps shown last.
  std::map<std::string, Described> described_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Described> described_sweeps_ ABSL_GUARDED_BY(mutex_);
  // Curves of jobs of the sweeps shown last, by sweep and job.
  std::map<std::string, std::map<std::string, Curve>> curves_
      ABSL_GUARDED_BY(mutex_);
  std::string json_ ABSL_GUARDED_BY(mutex_);
  // Time at which `json_` was made, on the steady clock.
  double made_at_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<DaemonState> NewDaemonState(
    const DaemonStateDependencies& dependencies) {
  return std::make_unique<DaemonStateImpl>(dependencies);
}

namespace {

HttpResource Asset(const char* path, const char* content_type,
                   absl::string_view text) {
  return {.path = path, .content_type = content_type, .body = [text] {
            return std::string(text);
          }};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> ServePage(
    const std::string& address, const metrics::Registry& registry,
    DaemonState& state) {
  const auto json = [&state] { return state.Json(); };
  return HttpServer::Listen(
      address,
      {Asset("/", "text/html; charset=utf-8", kPageHtml),
       Asset("/page.css", "text/css; charset=utf-8", kPageCss),
       Asset("/page.js", "text/javascript; charset=utf-8", kPageJs),
       Asset("/tables.js", "text/javascript; charset=utf-8", kTablesJs),
       Asset("/charts.js", "text/javascript; charset=utf-8", kChartsJs),
       {.path = "/api/state", .content_type = "application/json", .body = json},
       {.path = "/metrics",
        .content_type = "text/plain; version=0.0.4; charset=utf-8",
        .body = [&registry] { return registry.Text(); }}},
      {.path = "/api/events", .data = json});
}

}  // namespace hearth::server
