#include "server/page/daemon_state.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/version.h"

namespace hearth::server {
namespace {

using nlohmann::json;

// Progress is stored twice a second, so that one of the last events tells it.
constexpr uint64_t kLastEvents = 8;

double Seconds(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

// The name of the field that is set in a oneof; empty = none is.
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

void AddReport(const v1::TrainReport& report, json& job) {
  json epochs = json::array();
  const int count = report.epochs_size();
  const int shown = std::min(count, DaemonState::kEpochs);
  for (int i = 0; i < shown; ++i) {
    // The last one is always shown.
    const v1::EpochReport& epoch =
        report.epochs(static_cast<int>(int64_t{i + 1} * count / shown) - 1);
    job["metric"] = epoch.metric();
    json entry = {{"epoch", epoch.epoch()},
                  {"loss", Number(epoch.loss())},
                  {"seconds", epoch.seconds()}};
    if (epoch.has_valid_metric()) {
      entry["valid_metric"] = Number(epoch.valid_metric());
    }
    epochs.push_back(std::move(entry));
  }
  if (report.has_test_metric()) {
    job["test_metric"] = Number(report.test_metric());
  }
  job["epochs"] = std::move(epochs);
}

void AddReport(const v1::EvaluateReport& report, json& job) {
  job["metric"] = report.metric();
  if (report.has_test_metric()) {
    job["test_metric"] = Number(report.test_metric());
  }
}

bool IsActive(v1::JobState state) {
  return state == v1::PREPARING || state == v1::RUNNING;
}

// The newest progress of an active job, if it has made any.
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
  if (listed.has_start_time()) job["start_time"] = Seconds(listed.start_time());
  if (listed.has_end_time()) job["end_time"] = Seconds(listed.end_time());
  if (listed.has_error()) job["error"] = listed.error().message();
  if (!listed.waiting_reason().empty()) {
    job["waiting_reason"] = listed.waiting_reason();
  }
  if (IsActive(listed.state())) AddProgress(store, listed, job);
  if (!listed.spec().has_train() && !listed.spec().has_evaluate()) return job;
  // Epochs of a job that has not succeeded are with its events.
  const auto whole = store.Get(listed.id());
  if (!whole.ok()) return job;
  if (listed.spec().has_train()) AddReport(whole->report().train(), job);
  if (whole->report().has_evaluate()) {
    AddReport(whole->report().evaluate(), job);
  }
  return job;
}

// Whether a line of /metrics is of the daemon or of a job among `active`.
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
  DaemonStateImpl(JobStore& store, const metrics::Registry& registry,
                  const Clock& clock)
      : store_(store),
        registry_(registry),
        clock_(clock),
        start_time_(clock.Now()) {}

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
  // A job as it was when it had so many events.
  struct Described {
    uint64_t last_sequence = 0;
    json job;
  };

  std::string Make() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto seconds = [](absl::Time time) {
      return absl::ToDoubleSeconds(time - absl::UnixEpoch());
    };
    json state = {{"version", kVersion},
                  {"time", seconds(clock_.Now())},
                  {"start_time", seconds(start_time_)},
                  {"jobs", json::array()},
                  {"series", json::array()}};
    const std::set<std::string> active = AddJobs(state);
    const std::string text = registry_.Text();
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      if (IsShown(line, active)) state["series"].push_back(std::string(line));
    }
    // Bytes that are not UTF-8 are replaced, not thrown.
    return state.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  // The ids of those that are active.
  std::set<std::string> AddJobs(json& state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    JobQuery query;
    query.page_size = kJobs;
    const auto page = store_.List(query);
    if (!page.ok()) {
      state["error"] = std::string(page.status().message());
      return {};
    }
    std::set<std::string> active;
    std::map<std::string, Described> described;
    for (const v1::Job& job : page->jobs) {
      if (IsActive(job.state())) active.insert(job.id());
      Described& now = described[job.id()];
      now = std::move(described_[job.id()]);
      if (now.job.empty() || now.last_sequence != job.last_sequence()) {
        now = {job.last_sequence(), Describe(store_, job)};
      }
      state["jobs"].push_back(now.job);
    }
    described_ = std::move(described);
    return active;
  }

  JobStore& store_;
  const metrics::Registry& registry_;
  const Clock& clock_;
  const absl::Time start_time_;
  absl::Mutex mutex_;
  // Those shown last.
  std::map<std::string, Described> described_ ABSL_GUARDED_BY(mutex_);
  std::string json_ ABSL_GUARDED_BY(mutex_);
  // When it was made, on the steady clock.
  double made_at_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<DaemonState> NewDaemonState(JobStore& store,
                                            const metrics::Registry& registry,
                                            const Clock& clock) {
  return std::make_unique<DaemonStateImpl>(store, registry, clock);
}

}  // namespace hearth::server
