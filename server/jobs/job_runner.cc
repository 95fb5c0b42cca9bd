#include "server/jobs/job_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/ingest/import/import_options.h"
#include "engine/io/whole_file.h"
#include "engine/job/checkpoint/checkpoint.h"
#include "engine/job/checkpoint/export_model.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/pass_board.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/interface/train_metrics.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/run/explain_job.h"
#include "engine/job/run/shared_pass.h"
#include "engine/job/run/train_job.h"
#include "engine/store/dataset.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/memory_budget.h"
#include "engine/train/model_options.h"
#include "server/cluster/cluster.h"
#include "server/cluster/leader.h"
#include "server/cluster/rank_session.h"
#include "server/cluster/row_exchange.h"
#include "server/jobs/dataset_jobs.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/model_files.h"
#include "server/jobs/node_files.h"
#include "server/log.h"
#include "server/mapping/report_mapping.h"
#include "server/mapping/spec_mapping.h"
#include "server/storage/data_dir.h"

namespace hearth::server {

RetiredSeries::RetiredSeries(metrics::Registry& registry, const Clock& clock)
    : clock_(clock),
      hook_(registry.NewCollectHook([this] { DropExpired(); })) {}

void RetiredSeries::Add(std::shared_ptr<void> series) {
  DropExpired();
  absl::MutexLock lock(&mutex_);
  series_.emplace_back(clock_.SteadySeconds() + kLifetimeSeconds,
                       std::move(series));
  if (series_.size() > kMaxJobs) series_.pop_front();
}

void RetiredSeries::DropExpired() {
  absl::MutexLock lock(&mutex_);
  const double now = clock_.SteadySeconds();
  while (!series_.empty() && series_.front().first <= now) series_.pop_front();
}

JobObserver::JobObserver(JobEvents& events, const Clock& clock,
                         metrics::Registry& registry, const Subject& subject)
    : events_(events),
      clock_(clock),
      progress_time_(registry.NewGauge(
          "hearth_job_last_progress_timestamp_seconds",
          "Unix time of a running job's last progress, or of its start.",
          {{"job", subject.id}})) {
  Touch(*progress_time_);
  if (!subject.has_checkpoints) return;
  checkpoint_time_ = registry.NewGauge(
      "hearth_job_last_checkpoint_timestamp_seconds",
      "Unix time of a running job's last checkpoint, or of its start.",
      {{"job", subject.id}});
  Touch(*checkpoint_time_);
}

void JobObserver::Touch(metrics::Gauge& time) {
  time.Set(absl::ToDoubleSeconds(clock_.Now() - absl::UnixEpoch()));
}

void JobObserver::OnRunning() { events_.OnRunning(); }

void JobObserver::OnProgress(const job::Progress& progress) {
  Touch(*progress_time_);
  const double now = clock_.SteadySeconds();
  if (last_progress_.has_value() &&
      now - *last_progress_ < kSecondsBetweenProgress) {
    return;
  }
  last_progress_ = now;
  v1::JobEvent event;
  *event.mutable_progress() = ToProto(progress);
  events_.Append(event);
}

absl::Status JobObserver::OnFirstEpochKey(int64_t key) {
  return events_.OnFirstEpochKey(static_cast<uint32_t>(key));
}

absl::Status JobObserver::OnEpoch(const job::EpochReport& epoch) {
  return events_.OnEpoch(ToProto(epoch));
}

void JobObserver::OnDurable() {
  if (checkpoint_time_ != nullptr) Touch(*checkpoint_time_);
  events_.OnDurable();
}

void JobObserver::OnLog(job::Severity severity, const std::string& text) {
  v1::JobEvent event;
  event.mutable_log()->set_severity(ToProto(severity));
  event.mutable_log()->set_text(text);
  events_.Append(event);
}

namespace {

// Maximum size of a model's file that is compared.
constexpr uint64_t kMaxModelBytes = uint64_t{4} << 30;

// Passes log lines of work done ahead for a job to the log of hearthd.
class LogObserver final : public job::Observer {
 public:
  explicit LogObserver(const std::string& id) : id_(id) {}

  void OnRunning() override {}
  absl::Status OnFirstEpochKey(int64_t /*key*/) override {
    return absl::OkStatus();
  }
  void OnProgress(const job::Progress& /*progress*/) override {}
  absl::Status OnEpoch(const job::EpochReport& /*epoch*/) override {
    return absl::OkStatus();
  }
  void OnDurable() override {}
  void OnLog(job::Severity /*severity*/, const std::string& text) override {
    LogInfo(id_, ", ahead: ", text);
  }

 private:
  const std::string id_;
};

// Passes on the calls of a rank's job, and some of them to others.
class RankObserver final : public job::Observer {
 public:
  struct Others {
    std::function<void(const job::Progress&)> on_progress =
        [](const job::Progress&) {};
    std::function<void()> on_durable = [] {};
  };

  RankObserver(job::Observer& observer, Others others)
      : observer_(observer), others_(std::move(others)) {}

  void OnRunning() override { observer_.OnRunning(); }
  void OnProgress(const job::Progress& progress) override {
    others_.on_progress(progress);
    observer_.OnProgress(progress);
  }
  absl::Status OnFirstEpochKey(int64_t key) override {
    return observer_.OnFirstEpochKey(key);
  }
  absl::Status OnEpoch(const job::EpochReport& epoch) override {
    return observer_.OnEpoch(epoch);
  }
  void OnDurable() override {
    others_.on_durable();
    observer_.OnDurable();
  }
  void OnLog(job::Severity severity, const std::string& text) override {
    observer_.OnLog(severity, text);
  }

 private:
  job::Observer& observer_;
  const Others others_;
};

class EngineJobRunner final : public JobRunner {
 public:
  EngineJobRunner(const JobRunnerDependencies& dependencies,
                  std::vector<std::string> import_roots)
      : dependencies_(dependencies), import_roots_(std::move(import_roots)) {}

  absl::StatusOr<v1::JobReport> Run(const v1::Job& job, JobEvents& events,
                                    std::stop_token stop) override {
    // Memory that the job has freed goes back to the system, for other
    // processes.
    const absl::Cleanup release = ReleaseFreePages;
    JobObserver observer(
        events, dependencies_.environment.clock, dependencies_.registry,
        {.id = job.id(),
         .has_checkpoints = LaneOf(job.spec()) == Lane::kTraining &&
                            !job.spec().has_evaluate() &&
                            !job.spec().has_rank() && !job.spec().has_feed()});
    // Training jobs and forecasts count themselves.
    std::optional<job::RunningJobs::Job> running;
    if (LaneOf(job.spec()) == Lane::kShort && !job.spec().has_explain()) {
      running.emplace(dependencies_.environment.running_jobs);
    }
    switch (job.spec().kind_case()) {
      case v1::JobSpec::kImport: {
        v1::ImportSpec spec = job.spec().import();
        if (!spec.from_member().empty()) {
          return RunCopy(DatasetParts(files()), dependencies_.cluster, job.id(),
                         spec, observer, std::move(stop));
        }
        HEARTH_ASSIGN_OR_RETURN(
            const job::MemoryLedger::Reservation reservation,
            ReserveLimit(spec, observer));
        return Import(job.id(), std::move(spec), observer, std::move(stop));
      }
      case v1::JobSpec::kGenerate: {
        v1::GenerateSpec spec = job.spec().generate();
        HEARTH_ASSIGN_OR_RETURN(
            const job::MemoryLedger::Reservation reservation,
            ReserveLimit(spec, observer));
        return RunGenerate(DatasetParts(export_files()), job.id(), spec,
                           observer, std::move(stop));
      }
      case v1::JobSpec::kVerify:
        return RunVerify(DatasetParts(files()), job.spec().verify(), observer,
                         std::move(stop));
      case v1::JobSpec::kExportDataset: {
        const uint64_t bytes = std::min(
            kMostExportBytes, dependencies_.environment.memory.limit_bytes());
        HEARTH_ASSIGN_OR_RETURN(
            const job::MemoryLedger::Reservation reservation,
            ReserveMemory(bytes));
        return RunExportDataset(DatasetParts(export_files()),
                                job.spec().export_dataset(), bytes, observer,
                                std::move(stop));
      }
      case v1::JobSpec::kTrain:
        return Train(job, observer, std::move(stop));
      case v1::JobSpec::kRank:
        return FollowLeader(job, observer, std::move(stop));
      case v1::JobSpec::kPrepare:
        return Prepare(job, observer, std::move(stop));
      case v1::JobSpec::kExplain:
        return Explain(job, observer, std::move(stop));
      case v1::JobSpec::kExport:
        return Export(job, observer);
      case v1::JobSpec::kEvaluate:
        return Evaluate(job, observer, std::move(stop));
      case v1::JobSpec::kFeed:
        return Feed(job, observer, std::move(stop));
      case v1::JobSpec::KIND_NOT_SET:
        break;
    }
    return absl::UnimplementedError(
        "this hearthd does not know the job's kind; a newer one accepted it");
  }

  void Discard(const std::string& id) override {
    if (dependencies_.cluster != nullptr) {
      // A job that is resumed waits for its machines anew.
      dependencies_.cluster->NoteComplete(id);
    }
    const std::string folder = dependencies_.data_dir.UnfinishedDatasetPath(id);
    if (absl::IsNotFound(files().Stat(folder).status())) return;
    const absl::Status removed = dependencies_.throw_away
                                     ? dependencies_.throw_away(folder)
                                     : files().RemoveTree(folder);
    if (removed.ok()) return;
    LogWarning(
        id, ": what it has left goes at the next start: ", removed.ToString());
  }

  absl::StatusOr<v1::PrepareReport> PrepareAhead(
      const v1::Job& job, std::stop_token stop) override {
    const absl::Cleanup release = ReleaseFreePages;
    const v1::TrainJobSpec& spec = job.spec().train();
    const job::TrainJobOptions options = ToTrainJobOptions(
        spec, dependencies_.data_dir.DatasetPath(spec.data().dataset()),
        dependencies_.data_dir.JobPath(job.id()));
    LogObserver observer(job.id());
    HEARTH_ASSIGN_OR_RETURN(
        const job::PrepareReport report,
        job::RunPrepareJob(
            dependencies_.environment,
            {.data = options.data,
             .pipeline = options.pipeline,
             .training_only = !options.HasModel(),
             .embedding_width = train::HiddenWidth(options.train.model)},
            observer, std::move(stop)));
    return ToProto(report);
  }

 private:
  io::FileSystem& files() const { return dependencies_.environment.files; }

  io::FileSystem& import_files() const {
    return dependencies_.import_files != nullptr ? *dependencies_.import_files
                                                 : files();
  }
  io::FileSystem& export_files() const {
    return dependencies_.export_files != nullptr ? *dependencies_.export_files
                                                 : files();
  }

  DatasetJobDependencies DatasetParts(io::FileSystem& used) const {
    return {used, dependencies_.environment.clock, dependencies_.data_dir};
  }

  // Reserves the memory limit of a job that imports or exports a graph.
  absl::StatusOr<job::MemoryLedger::Reservation> ReserveMemory(
      uint64_t bytes) const {
    const job::MemoryLedger& ledger = dependencies_.environment.memory;
    if (ledger.Availability(bytes) == job::MemoryAvailability::kNever) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the job may take ", FormatByteSize(bytes),
          " of memory (memory_limit_bytes), but all jobs together at most ",
          FormatByteSize(ledger.most_bytes()),
          " (the daemon's memory limit); a smaller --memory-limit fits"));
    }
    strategy::MemoryEstimate estimate;
    estimate.Add("import", bytes);
    job::MemoryLedger::Reservation reservation;
    HEARTH_RETURN_IF_ERROR(
        dependencies_.environment.memory.Reserve(estimate, reservation));
    return reservation;
  }

  // Reserves the memory limit of a job that makes a dataset. Lowers the default
  // to half of the memory that jobs may take; results do not depend on it.
  template <typename Spec>
  absl::StatusOr<job::MemoryLedger::Reservation> ReserveLimit(
      Spec& spec, job::Observer& observer) const {
    const uint64_t fitting = dependencies_.environment.memory.most_bytes() / 2;
    const uint64_t asked = spec.memory_limit_bytes();
    const bool lowered =
        asked == ingest::ImportOptions().memory_limit_bytes && asked > fitting;
    if (lowered) spec.set_memory_limit_bytes(fitting);
    HEARTH_ASSIGN_OR_RETURN(job::MemoryLedger::Reservation reservation,
                            ReserveMemory(spec.memory_limit_bytes()));
    if (lowered) {
      observer.OnLog(job::Severity::kInfo,
                     absl::StrCat("memory limit: ", FormatByteSize(fitting),
                                  ", half of what jobs may take; "
                                  "--memory-limit sets another"));
    }
    return reservation;
  }

  absl::StatusOr<v1::JobReport> Import(const std::string& job_id,
                                       v1::ImportSpec spec,
                                       job::Observer& observer,
                                       std::stop_token stop) {
    std::vector<std::string> roots = import_roots_;
    if (!spec.upload().empty()) {
      HEARTH_ASSIGN_OR_RETURN(*spec.mutable_path(),
                              dependencies_.upload_source(spec.upload()));
      roots.clear();
    }
    return RunImport(DatasetParts(import_files()), job_id, spec, roots,
                     observer, std::move(stop));
  }

  absl::StatusOr<v1::JobReport> Train(const v1::Job& job,
                                      job::Observer& observer,
                                      std::stop_token stop) {
    const v1::TrainJobSpec& spec = job.spec().train();
    if (spec.has_adopted()) {
      HEARTH_RETURN_IF_ERROR(TakeCheckpointOf(spec, FolderOf(job)));
    }
    if (spec.machines() > 1)
      return LeadTraining(job, observer, std::move(stop));
    HEARTH_ASSIGN_OR_RETURN(
        const job::TrainReport result,
        RunTraining(dependencies_.environment, job.id(),
                    ToTrainJobOptions(spec, DatasetOf(spec), FolderOf(job)),
                    observer, std::move(stop)));
    v1::JobReport report;
    *report.mutable_train() = ToProto(result);
    return report;
  }

  std::string DatasetOf(const v1::TrainJobSpec& spec) const {
    return dependencies_.data_dir.DatasetPath(spec.data().dataset());
  }
  std::string FolderOf(const v1::Job& job) const {
    return dependencies_.data_dir.JobPath(job.id());
  }

  // Moves the checkpoint of the rank whose job an adopted one goes on with to
  // `folder`, unless that has one.
  absl::Status TakeCheckpointOf(const v1::TrainJobSpec& spec,
                                const std::string& folder) {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                            store::Dataset::Open(files(), DatasetOf(spec)));
    const auto has_checkpoint =
        [&](const std::string& path) -> absl::StatusOr<bool> {
      HEARTH_ASSIGN_OR_RETURN(
          const job::FoundCheckpoint found,
          job::FindCheckpoint(files(), path, dataset->manifest().fingerprint));
      return found.checkpoint.has_value();
    };
    HEARTH_ASSIGN_OR_RETURN(const bool has_own, has_checkpoint(folder));
    if (has_own) return absl::OkStatus();
    const std::string& rank_job = spec.adopted().rank_job();
    const std::string from = dependencies_.data_dir.JobPath(rank_job);
    HEARTH_ASSIGN_OR_RETURN(const bool has_theirs, has_checkpoint(from));
    if (!has_theirs) {
      return absl::FailedPreconditionError(
          absl::StrCat("adopted: ", rank_job, " has no checkpoint any more"));
    }
    HEARTH_RETURN_IF_ERROR(files().RemoveTree(folder));
    HEARTH_RETURN_IF_ERROR(files().Rename(from, folder));
    return files().SyncDirectory(io::ParentDirectory(folder));
  }

  // The own rank of a job.
  struct OwnRank {
    const v1::Job& job;
    const v1::TrainJobSpec& spec;
    // RankSpec.convoy.
    const std::string& convoy;
    RankObserver& observer;
  };

  // Trains the own rank on `group`, which may be of fewer machines than the
  // spec asks for; `result` gets the whole report.
  absl::StatusOr<v1::MachineReport> TrainRankOf(
      const OwnRank& own, LinkGroup& group, job::PassBoard& board,
      const std::vector<std::string>& members, std::stop_token stop,
      job::TrainReport& result) {
    job::TrainJobOptions options =
        ToTrainJobOptions(own.spec, DatasetOf(own.spec), FolderOf(own.job));
    const int64_t each = options.data.trainers;
    options.data.window = {.first = group.rank() * each,
                           .all = group.size() * each};
    options.sharing_key = own.convoy;
    const job::Ranks ranks = {
        .group = group, .board = board, .process = dependencies_.environment};
    job::JobEnvironment environment = dependencies_.environment;
    environment.new_train_step = [this, &group](
                                     const train::TrainOptions& train,
                                     const train::ModelShape& shape) {
      return dependencies_.new_ranked_step(train, shape, group);
    };
    environment.ranks = &ranks;
    environment.remote_rows = NewPeerRows(*dependencies_.cluster, members);
    HEARTH_ASSIGN_OR_RETURN(
        result, RunTraining(environment, own.job.id(), options, own.observer,
                            std::move(stop)));
    v1::MachineReport report;
    report.set_loss_digest(result.loss_digest);
    report.set_bytes_read(result.bytes_read);
    return report;
  }

  absl::StatusOr<v1::JobReport> LeadTraining(const v1::Job& job,
                                             job::Observer& observer,
                                             std::stop_token stop) {
    if (dependencies_.cluster == nullptr || !dependencies_.new_ranked_step) {
      return absl::FailedPreconditionError(
          "machines: this daemon has no cluster (hearthd --cluster)");
    }
    const v1::TrainJobSpec& spec = job.spec().train();
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                            store::Dataset::Open(files(), DatasetOf(spec)));
    const std::string& fingerprint = dataset->manifest().fingerprint;
    if (dataset->manifest().is_sharded() && spec.min_machines() > 0 &&
        spec.min_machines() < spec.machines()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "min_machines: must not be below machines (", spec.machines(),
          "), as dataset ", dataset->manifest().name,
          " has its feature rows spread over them (--placement sharded)"));
    }
    HEARTH_RETURN_IF_ERROR(files().CreateDirectory(FolderOf(job)));
    HEARTH_ASSIGN_OR_RETURN(
        const job::FoundCheckpoint found,
        job::FindCheckpoint(files(), FolderOf(job), fingerprint));
    std::string convoy;
    job::SharedPassGroups* const groups =
        dependencies_.environment.shared_passes;
    const LedJob led = {
        .id = job.id(),
        .spec = spec,
        .fingerprint = fingerprint,
        .folder = FolderOf(job),
        .checkpoint = found.checkpoint.has_value()
                          ? job::CheckpointFileName(*found.checkpoint)
                          : "",
        .convoy =
            [&](const std::string& machines) -> absl::StatusOr<std::string> {
          if (groups == nullptr) return "";
          HEARTH_ASSIGN_OR_RETURN(convoy, groups->ConvoyOf(job.id(), machines));
          return convoy;
        },
        .log =
            [&](const std::string& text) {
              observer.OnLog(job::Severity::kInfo, text);
            }};
    RankObserver ranked(observer, {.on_durable = [&] {
                          dependencies_.cluster->ForgetDeaths(job.id());
                        }});
    const OwnRank own = {
        .job = job, .spec = spec, .convoy = convoy, .observer = ranked};
    job::TrainReport result;
    HEARTH_ASSIGN_OR_RETURN(
        const std::vector<v1::MachineReport> machines,
        Lead(*dependencies_.cluster, files(), led, std::move(stop),
             [&](LinkGroup& group, job::PassBoard& board,
                 const std::vector<std::string>& members,
                 std::stop_token attempt) {
               return TrainRankOf(own, group, board, members,
                                  std::move(attempt), result);
             }));
    v1::JobReport report;
    *report.mutable_train() = ToProto(result);
    report.mutable_train()->mutable_machines()->Assign(machines.begin(),
                                                       machines.end());
    return report;
  }

  absl::StatusOr<v1::JobReport> FollowLeader(const v1::Job& job,
                                             job::Observer& observer,
                                             std::stop_token stop) {
    const v1::RankSpec& spec = job.spec().rank();
    const std::shared_ptr<RankSession> session =
        dependencies_.cluster == nullptr
            ? nullptr
            : dependencies_.cluster->sessions().Find(spec);
    if (session == nullptr) {
      return absl::AbortedError(absl::StrCat("attempt ", spec.attempt(), " at ",
                                             spec.leader(), "'s ",
                                             spec.job_id(), " is over"));
    }
    RankObserver ranked(observer,
                        {.on_progress = [&](const job::Progress& progress) {
                          session->SetProgress(ToProto(progress));
                        }});
    const OwnRank own = {.job = job,
                         .spec = spec.train(),
                         .convoy = spec.convoy(),
                         .observer = ranked};
    job::TrainReport result;
    absl::StatusOr<v1::MachineReport> machine = session->Follow(
        *dependencies_.cluster, files(), FolderOf(job), std::move(stop),
        [&](LinkGroup& group, job::PassBoard& board,
            const std::vector<std::string>& members, std::stop_token attempt) {
          return TrainRankOf(own, group, board, members, std::move(attempt),
                             result);
        });
    if (WaitCauseOf(machine.status()) != WaitCause::kNone) {
      // The leader waits, and begins another attempt, with another job here.
      observer.OnLog(job::Severity::kWarning,
                     std::string(machine.status().message()));
      return absl::CancelledError(machine.status().message());
    }
    HEARTH_RETURN_IF_ERROR(machine.status());
    v1::JobReport report;
    *report.mutable_rank() = *std::move(machine);
    return report;
  }

  absl::StatusOr<v1::JobReport> Evaluate(const v1::Job& job,
                                         job::Observer& observer,
                                         std::stop_token stop) {
    const v1::EvaluateSpec& spec = job.spec().evaluate();
    HEARTH_ASSIGN_OR_RETURN(
        const job::TrainReport result,
        RunTraining(dependencies_.environment, job.id(),
                    job::ForTest(ToTrainJobOptions(
                        spec.train(), DatasetOf(spec.train()),
                        dependencies_.data_dir.JobPath(spec.job_id()))),
                    observer, std::move(stop)));
    v1::JobReport report;
    *report.mutable_evaluate() = ToEvaluateReport(result);
    return report;
  }

  absl::StatusOr<v1::JobReport> Feed(const v1::Job& job,
                                     job::Observer& observer,
                                     std::stop_token stop) {
    const v1::FeedSpec& spec = job.spec().feed();
    const std::vector<std::shared_ptr<feed::Channel>> channels =
        dependencies_.feed_channels(job.id(), spec.data().trainers());
    for (const std::shared_ptr<feed::Channel>& channel : channels) {
      // Before any memory is taken.
      if (!channel->ClientWaits()) {
        return WaitForClientError("no client has come yet");
      }
    }
    if (spec.nodes_size() > 0) {
      HEARTH_ASSIGN_OR_RETURN(const bool has_nodes,
                              dependencies_.node_files->HasAll(job));
      if (!has_nodes) {
        return WaitForClientError("the client has not sent its nodes yet");
      }
    }
    HEARTH_ASSIGN_OR_RETURN(
        const job::TrainReport result,
        RunTraining(
            dependencies_.environment, job.id(),
            ToFeedJobOptions(
                spec, dependencies_.data_dir.DatasetPath(spec.data().dataset()),
                dependencies_.data_dir.JobPath(job.id()), channels),
            observer, std::move(stop)));
    v1::JobReport report;
    *report.mutable_feed() = ToFeedReport(result, channels);
    return report;
  }

  absl::StatusOr<job::TrainReport> RunTraining(
      const job::JobEnvironment& environment, const std::string& id,
      job::TrainJobOptions options, job::Observer& observer,
      std::stop_token stop) {
    options.name = id;
    const std::shared_ptr<job::TrainMetrics> metrics =
        job::NewTrainMetrics(dependencies_.registry, id,
                             options.data.automatic.has_value()
                                 ? "auto"
                                 : strategy::Name(options.data.strategy));
    absl::StatusOr<job::TrainReport> report = job::RunTrainJob(
        environment, options, observer, *metrics, std::move(stop));
    dependencies_.retired_series.Add(metrics);
    return report;
  }

  absl::StatusOr<v1::JobReport> Prepare(const v1::Job& job,
                                        job::Observer& observer,
                                        std::stop_token stop) {
    const v1::PrepareSpec& spec = job.spec().prepare();
    if (!spec.pieces().empty()) {
      // Plans of pieces are written where exports may be.
      HEARTH_RETURN_IF_ERROR(CheckOutside(
          export_files(), dependencies_.data_dir.path(), spec.pieces()));
    }
    HEARTH_ASSIGN_OR_RETURN(
        const job::PrepareReport result,
        job::RunPrepareJob(
            dependencies_.environment,
            ToPrepareJobOptions(spec, dependencies_.data_dir.DatasetPath(
                                          spec.data().dataset())),
            observer, std::move(stop)));
    v1::JobReport report;
    *report.mutable_prepare() = ToProto(result);
    return report;
  }

  absl::StatusOr<v1::JobReport> Explain(const v1::Job& job,
                                        job::Observer& observer,
                                        std::stop_token stop) {
    const v1::TrainJobSpec& spec = job.spec().explain().train();
    job::TrainJobOptions options =
        ToTrainJobOptions(spec, DatasetOf(spec), FolderOf(job));
    // Of several machines, this one's part.
    if (spec.machines() > 1) {
      options.data.window = {.first = 0,
                             .all = spec.machines() * options.data.trainers};
    }
    HEARTH_ASSIGN_OR_RETURN(
        const job::ExplainReport result,
        job::RunExplainJob(dependencies_.environment, options, observer,
                           std::move(stop)));
    v1::JobReport report;
    *report.mutable_explain() = ToProto(result);
    return report;
  }

  absl::StatusOr<v1::JobReport> Export(const v1::Job& job,
                                       job::Observer& observer) {
    const v1::ExportSpec& spec = job.spec().export_();
    HEARTH_ASSIGN_OR_RETURN(const v1::Job trained,
                            dependencies_.store.Get(spec.job_id()));
    HEARTH_ASSIGN_OR_RETURN(const std::string model,
                            ModelFolder(dependencies_.data_dir, trained));
    HEARTH_RETURN_IF_ERROR(CheckOutside(
        export_files(), dependencies_.data_dir.path(), spec.destination()));
    observer.OnRunning();
    const absl::Status status =
        job::ExportModel(export_files(), model, spec.destination());
    if (!absl::IsAlreadyExists(status) ||
        !IsSameModel(model, spec.destination())) {
      HEARTH_RETURN_IF_ERROR(status);
    }
    v1::JobReport report;
    report.mutable_export_()->set_path(spec.destination());
    return report;
  }

  // Whether two folders hold the same model: an export that was interrupted
  // after its end then has nothing left to do.
  bool IsSameModel(const std::string& one, const std::string& other) {
    for (const char* name : {"config.json", "model.safetensors"}) {
      const auto first = io::ReadWholeFile(
          export_files(), io::JoinPath(one, name), kMaxModelBytes);
      const auto second = io::ReadWholeFile(
          export_files(), io::JoinPath(other, name), kMaxModelBytes);
      if (!first.ok() || !second.ok() || *first != *second) return false;
    }
    return true;
  }

  const JobRunnerDependencies dependencies_;
  const std::vector<std::string> import_roots_;
};

}  // namespace

std::unique_ptr<JobRunner> NewJobRunner(
    const JobRunnerDependencies& dependencies,
    std::vector<std::string> import_roots) {
  return std::make_unique<EngineJobRunner>(dependencies,
                                           std::move(import_roots));
}

}  // namespace hearth::server
