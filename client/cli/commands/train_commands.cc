#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/options/job_options.h"
#include "client/cli/options/option_values.h"
#include "client/cli/views/job_view.h"
#include "client/cli/views/text.h"
#include "client/hearth_client.h"
#include "client/launcher/enrollment.h"
#include "client/launcher/launch.h"
#include "client/launcher/membership.h"
#include "client/private_daemon.h"
#include "client/proto_json.h"
#include "client/tls.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"

namespace hearth::cli {

namespace {

// Options of a train job: flags, and the file of --file.
struct TrainArguments {
  OptionArguments options = {};
  std::string file = {};
};

// Adds --file and a flag for each option of a train job; see AddOptionFlags.
std::function<void()> AddTrainFlags(CLI::App& command,
                                    TrainArguments& arguments) {
  command.add_option("-f,--file", arguments.file,
                     "YAML file with any of these options; flags win");
  return AddOptionFlags(command, TrainFlags(), arguments.options);
}

// Options of the flags and of the file together. `more`: names of further keys
// that the file may have.
absl::StatusOr<OptionValues> ReadTrainArguments(
    const TrainArguments& arguments,
    const std::vector<std::string>& more = {}) {
  const OptionValues& typed = arguments.options.values;
  if (arguments.file.empty()) return typed;
  std::vector<std::string> known = TrainOptionNames();
  known.insert(known.end(), more.begin(), more.end());
  HEARTH_ASSIGN_OR_RETURN(OptionValues from_file,
                          ReadYamlOptions(arguments.file, known));
  return MergeOptions(typed, std::move(from_file));
}

// `status` of the daemon, with the flags of `values` in place of its fields.
absl::Status WithFlags(const absl::Status& status, const OptionValues& values) {
  return WithMessage(status, NameFlags(status.message(), values));
}

struct Arguments {
  TrainArguments train;
  // Of `prepare`: whether it makes only the partition, and the folder and
  // number of pieces that it joins.
  bool partition_only = false;
  std::string pieces;
  uint32_t num_pieces = 0;
  Submission submission;
};

// The command that takes the options.
enum class Purpose { kTrain, kPrepare, kExplain };

// Width of the model's hidden layers; 0 if the model has none, or it is not
// given.
uint32_t HiddenOf(const v1::TrainSpec& spec) {
  const auto* models = v1::TrainSpec::descriptor()->FindOneofByName("model");
  const auto* chosen =
      spec.GetReflection()->GetOneofFieldDescriptor(spec, models);
  if (chosen == nullptr) return 0;
  const google::protobuf::Message& model =
      spec.GetReflection()->GetMessage(spec, chosen);
  const auto* hidden = model.GetDescriptor()->FindFieldByName("hidden");
  return hidden == nullptr ? 0
                           : model.GetReflection()->GetUInt32(model, hidden);
}

v1::JobSpec JobFor(Purpose purpose, const v1::TrainJobSpec& train,
                   const Arguments& arguments, const Session& session) {
  v1::JobSpec spec;
  switch (purpose) {
    case Purpose::kTrain:
      *spec.mutable_train() = train;
      break;
    case Purpose::kPrepare:
      *spec.mutable_prepare()->mutable_data() = train.data();
      *spec.mutable_prepare()->mutable_pipeline() = train.pipeline();
      spec.mutable_prepare()->set_training_only(train.trains(0).has_none());
      spec.mutable_prepare()->set_partition_only(arguments.partition_only);
      if (!arguments.pieces.empty()) {
        spec.mutable_prepare()->set_pieces(
            AbsolutePath(arguments.pieces, session));
        spec.mutable_prepare()->set_num_pieces(arguments.num_pieces);
      }
      spec.mutable_prepare()->set_hidden(HiddenOf(train.trains(0)));
      break;
    case Purpose::kExplain:
      *spec.mutable_explain()->mutable_train() = train;
      break;
  }
  return spec;
}

absl::StatusOr<int> Run(Purpose purpose, const Arguments& arguments,
                        Session& session) {
  HEARTH_ASSIGN_OR_RETURN(OptionValues values,
                          ReadTrainArguments(arguments.train));
  if (arguments.partition_only) {
    values.try_emplace("order", OptionValue{"partition", "--partition"});
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::TrainJobSpec train,
                          TrainJobFromOptions(values));
  const absl::StatusOr<int> exit_code =
      RunJob(session, JobFor(purpose, train, arguments, session),
             arguments.submission);
  if (exit_code.ok()) return exit_code;
  return WithFlags(exit_code.status(), values);
}

void AddCommand(CLI::App& app, const char* name, const char* help,
                Purpose purpose, Action* chosen) {
  CLI::App* command = app.add_subcommand(name, help);
  const auto arguments = std::make_shared<Arguments>();
  if (purpose == Purpose::kPrepare) {
    command->add_flag("--partition", arguments->partition_only,
                      "Make only the partition of --order partition");
    CLI::Option* const pieces =
        command
            ->add_option("--pieces", arguments->pieces,
                         "Join the plan from the pieces in this folder, which "
                         "hearth piece makes on any machines; tells which are "
                         "to be made")
            ->type_name("FOLDER");
    command
        ->add_option("--num-pieces", arguments->num_pieces,
                     "Pieces into which the work is cut, where the folder has "
                     "none yet; default 16")
        ->type_name("N")
        ->check(CLI::Range(1, 512))
        ->needs(pieces);
  }
  AddSubmissionFlags(*command, arguments->submission);
  const std::function<void()> take = AddTrainFlags(*command, arguments->train);
  command->callback([=] {
    take();
    *chosen = [=](Session& session) {
      return Run(purpose, *arguments, session);
    };
  });
}

}  // namespace

void AddTrainCommands(CLI::App& app, Action* chosen) {
  AddCommand(app, "train", "Train a model on a dataset", Purpose::kTrain,
             chosen);
  AddCommand(
      app, "prepare",
      "Make the plan of a train job with the same options, without training",
      Purpose::kPrepare, chosen);
  AddCommand(
      app, "explain",
      "Forecast the reads, seconds, memory and disk of a train job with the "
      "same options, without training",
      Purpose::kExplain, chosen);
}

// `hearth run`, step by step:
//
//   1. A private daemon is started on the data directory. It goes on with the
//      jobs there that have not ended.
//   2. If the dataset does not exist and a source is given, it is imported.
//   3. The job is submitted with a request id that is a digest of its spec, so
//      that the same command finds its job again. A failed job is resumed.
//   4. The job is watched until its end, a signal, or the daemon's end.
//   5. The daemon is stopped; a job that has not ended is at a checkpoint then.
//
// Where a launcher has started the command on several machines, each is a rank:
//
//   1. The daemon is a member of a cluster of the run's own.
//   2. The rank enrolls at rank 0's daemon, again and again. Its dataset is
//      imported as above.
//   3. Rank 0 waits until all are there, and does the rest. Others wait for its
//      exit code, which is theirs.

namespace {

constexpr char kSource[] = "source";

struct RunArguments {
  TrainArguments train;
  std::string source;
  std::string data_dir;
  std::string hearthd;
  std::string config;
  std::string destination;
};

// A stop that is requested when one of two others is.
class EitherStop {
 public:
  EitherStop(std::stop_token one, std::stop_token other)
      : on_one_(std::move(one), Request{this}),
        on_other_(std::move(other), Request{this}) {}
  EitherStop(const EitherStop&) = delete;
  EitherStop& operator=(const EitherStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  struct Request {
    EitherStop* either;
    void operator()() const { either->source_.request_stop(); }
  };

  std::stop_source source_;
  std::stop_callback<Request> on_one_;
  std::stop_callback<Request> on_other_;
};

std::string DataDirOf(const RunArguments& arguments, const Session& session) {
  if (!arguments.data_dir.empty()) {
    return AbsolutePath(arguments.data_dir, session);
  }
  const char* scratch = std::getenv("TMPDIR");
  return AbsolutePath(
      absl::StrCat(scratch != nullptr && *scratch != '\0' ? scratch : "/tmp",
                   "/hearth-", geteuid()),
      session);
}

// `cluster_file`: empty for a daemon that is alone.
absl::StatusOr<std::unique_ptr<client::PrivateDaemon>> StartDaemon(
    const RunArguments& arguments, const std::string& data_dir,
    const std::string& cluster_file, const std::stop_token& stop,
    const Session& session) {
  client::PrivateDaemonOptions options;
  options.data_dir = data_dir;
  if (arguments.hearthd.empty()) {
    HEARTH_ASSIGN_OR_RETURN(options.program, client::FindProgram("hearthd"));
  } else {
    options.program = AbsolutePath(arguments.hearthd, session);
  }
  // No port: many private daemons may run on one machine.
  options.flags = {"--metrics-listen", ""};
  if (!arguments.config.empty()) {
    options.flags.insert(options.flags.end(),
                         {"--config", AbsolutePath(arguments.config, session)});
  }
  if (!cluster_file.empty()) {
    options.flags.insert(options.flags.end(), {"--cluster", cluster_file});
  }
  return client::PrivateDaemon::Start(options, stop);
}

absl::StatusOr<bool> IsMissing(client::Client& client,
                               const std::string& dataset) {
  const absl::Status found = client.GetDataset(dataset).status();
  if (!found.ok() && !absl::IsNotFound(found)) return found;
  return !found.ok();
}

// Whether the dataset or the exported model of a job was removed since.
absl::StatusOr<bool> ProductIsMissing(client::Client& client,
                                      const v1::JobSpec& spec) {
  if (spec.has_import()) return IsMissing(client, spec.import().name());
  if (spec.has_export_()) {
    std::error_code error;
    return std::filesystem::symlink_status(spec.export_().destination(), error)
               .type() == std::filesystem::file_type::not_found;
  }
  return false;
}

// The job of an earlier run of the same command, or a new one. A job whose
// product is missing gets a successor, whose request id depends on the id of
// the job, so that later runs find the successor, too.
absl::StatusOr<v1::Job> FindOrSubmit(client::Client& client,
                                     const v1::JobSpec& spec) {
  std::string predecessor;
  while (true) {
    Sha256 digest;
    digest.Update(spec.SerializeAsString());
    digest.Update(predecessor);
    HEARTH_ASSIGN_OR_RETURN(
        const v1::Job job,
        client.SubmitJob(spec, 0, absl::StrCat("run-", digest.HexDigest())));
    if (job.state() == v1::FAILED || job.state() == v1::CANCELLED) {
      return client.ResumeJob(job.id(), job.spec());
    }
    if (job.state() != v1::SUCCEEDED) return job;
    HEARTH_ASSIGN_OR_RETURN(const bool is_missing,
                            ProductIsMissing(client, spec));
    if (!is_missing) return job;
    predecessor = job.id();
  }
}

// Submits or resumes a job and watches it to its end; nullopt if `stop` came
// first.
absl::StatusOr<std::optional<v1::Job>> RunToEnd(Session& session,
                                                const v1::JobSpec& spec,
                                                const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                          FindOrSubmit(session.client, spec));
  if (job.state() == v1::SUCCEEDED && session.output == Output::kTable) {
    session.environment.err << EscapeControl(job.id())
                            << " had succeeded before\n";
  }
  return WatchToEnd(session, job, job.last_sequence(), stop);
}

absl::StatusOr<std::optional<v1::Job>> ImportDataset(
    Session& session, const std::string& name, const std::string& source,
    const std::stop_token& stop) {
  v1::JobSpec spec;
  spec.mutable_import()->set_name(name);
  spec.mutable_import()->set_path(AbsolutePath(source, session));
  return RunToEnd(session, spec, stop);
}

absl::StatusOr<std::optional<v1::Job>> Export(Session& session,
                                              const std::string& job,
                                              const std::string& destination,
                                              const std::stop_token& stop) {
  v1::JobSpec spec;
  spec.mutable_export_()->set_job_id(job);
  spec.mutable_export_()->set_destination(destination);
  return RunToEnd(session, spec, stop);
}

// OK if a model can be exported to `destination`, which is on this machine, or
// if any model was exported there before: an earlier run of the same command
// may have done so. (If another one did, the export itself will fail.)
absl::Status CheckDestination(client::Client& client,
                              const std::string& destination) {
  const std::filesystem::path path(destination);
  std::error_code error;
  if (!std::filesystem::is_directory(path.parent_path(), error)) {
    return absl::NotFoundError(
        absl::StrCat("--to: ", path.parent_path().string(), " is no folder"));
  }
  if (std::filesystem::symlink_status(path, error).type() ==
      std::filesystem::file_type::not_found) {
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                          client.ListJobs({v1::SUCCEEDED}));
  for (const v1::Job& job : jobs) {
    if (job.spec().export_().destination() == destination) {
      return absl::OkStatus();
    }
  }
  return absl::AlreadyExistsError(
      absl::StrCat("--to: ", destination, " exists already"));
}

// What the command does, read from its arguments.
struct Task {
  v1::TrainJobSpec train = {};
  std::string source = {};
  // Absolute path; empty if no model is exported.
  std::string destination = {};
};

// Imports the dataset unless it is there: done, unless that exit code is not
// kExitDone; nullopt if `stop` came first.
absl::StatusOr<std::optional<int>> BringDataset(const Task& task,
                                                const std::stop_token& stop,
                                                Session& session) {
  if (task.source.empty()) return kExitDone;
  const std::string& dataset = task.train.data().dataset();
  HEARTH_ASSIGN_OR_RETURN(const bool is_missing,
                          IsMissing(session.client, dataset));
  if (!is_missing) return kExitDone;
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> import,
                          ImportDataset(session, dataset, task.source, stop));
  if (!import.has_value()) return std::nullopt;
  if (import->state() == v1::SUCCEEDED) return kExitDone;
  return PrintEnded(session, *import);
}

// Trains and exports, until a job does not succeed; nullopt if `stop` came
// first.
absl::StatusOr<std::optional<int>> TrainAndExport(const Task& task,
                                                  const std::stop_token& stop,
                                                  Session& session) {
  v1::JobSpec spec;
  *spec.mutable_train() = task.train;
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> job,
                          RunToEnd(session, spec, stop));
  if (!job.has_value()) return std::nullopt;
  const int exit_code = PrintEnded(session, *job);
  if (exit_code != kExitDone || task.destination.empty()) return exit_code;
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> exported,
                          Export(session, job->id(), task.destination, stop));
  if (!exported.has_value()) return std::nullopt;
  if (exported->state() == v1::SUCCEEDED && session.output == Output::kJson) {
    return kExitDone;
  }
  return PrintEnded(session, *exported);
}

// Looks at the destination before hours of training.
absl::StatusOr<std::optional<int>> RunAlone(const Task& task,
                                            const std::stop_token& stop,
                                            Session& session) {
  if (!task.destination.empty()) {
    HEARTH_RETURN_IF_ERROR(CheckDestination(session.client, task.destination));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::optional<int> brought,
                          BringDataset(task, stop, session));
  if (brought != kExitDone) return brought;
  return TrainAndExport(task, stop, session);
}

// This process as one of those that a launcher has started.
struct Rank {
  launcher::Launch launch;
  launcher::Membership membership;
};

absl::StatusOr<std::optional<int>> RunRankToEnd(
    const Task& task, const Rank& rank, launcher::Enrollment& enrollment,
    const std::stop_token& stop, Session& session) {
  const bool leads = rank.launch.rank == 0;
  if (leads && !task.destination.empty()) {
    HEARTH_RETURN_IF_ERROR(CheckDestination(session.client, task.destination));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::optional<int> brought,
                          BringDataset(task, stop, session));
  if (brought != kExitDone) return brought;
  enrollment.SetReady(rank.membership.address);
  if (leads) {
    HEARTH_RETURN_IF_ERROR(enrollment.AwaitAll(stop));
    return TrainAndExport(task, stop, session);
  }
  return enrollment.AwaitEnd(stop);
}

// A daemon that is just ending may break TLS for a moment.
constexpr int kMostRefusals = 4;
// Others call each second.
constexpr absl::Duration kFailureIsTold = absl::Seconds(3);

// Does the part of a rank. A process that is interrupted tells the others
// nothing: its launcher may start it again.
absl::StatusOr<std::optional<int>> RunRank(const Task& task, const Rank& rank,
                                           const std::stop_token& interrupted,
                                           const std::stop_token& stop,
                                           Session& session) {
  const std::unique_ptr<client::Client> leader =
      client::NewClient(rank.membership.to_leader);
  int refusals = 0;
  launcher::Enrollment enrollment(
      [&](const v1::EnrollRequest& request) -> absl::StatusOr<v1::Enrolled> {
        absl::StatusOr<v1::Enrolled> answer = leader->Enroll(request);
        const std::string why =
            client::IsUnreachable(answer.status())
                ? client::WhyTlsIsRefused(rank.membership.to_leader)
                : "";
        refusals = why.empty() ? 0 : refusals + 1;
        if (refusals < kMostRefusals) return answer;
        return absl::PermissionDeniedError(absl::StrCat(
            "rank 0 has another secret (HEARTH_CLUSTER_SECRET_FILE), or run "
            "id: ",
            why));
      },
      rank.launch.size, {});
  absl::StatusOr<std::optional<int>> exit_code;
  {
    const EitherStop either(stop, enrollment.failed());
    exit_code = RunRankToEnd(task, rank, enrollment, either.token(), session);
  }
  if (absl::Status failure = enrollment.failure(); !failure.ok()) {
    // The others hear of it from rank 0's daemon, at their next calls.
    if (rank.launch.rank == 0) absl::SleepFor(kFailureIsTold);
    return Annotate(failure, absl::StrCat("rank ", rank.launch.rank));
  }
  if (interrupted.stop_requested()) return exit_code;
  enrollment.End(exit_code.ok() ? exit_code->value_or(kExitFailed)
                                : kExitFailed);
  return exit_code;
}

absl::StatusOr<uint16_t> ClusterPort() {
  const char* const text = std::getenv("HEARTH_CLUSTER_PORT");
  if (text == nullptr || *text == '\0') return launcher::kDefaultPort;
  uint32_t port = 0;
  if (absl::SimpleAtoi(text, &port) && port > 0 && port <= 65535) {
    return static_cast<uint16_t>(port);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "HEARTH_CLUSTER_PORT: must be from 1 to 65535, not \"", text, "\""));
}

std::string VariableOr(const char* name, const std::string& fallback) {
  const char* const value = std::getenv(name);
  return value == nullptr ? fallback : value;
}

// This process's rank; nullopt if no launcher has started it. `data_dir`
// becomes that of the rank, and `train` a job of all.
absl::StatusOr<std::optional<Rank>> FindRank(const Session& session,
                                             const std::stop_token& stop,
                                             std::string& data_dir,
                                             v1::TrainJobSpec& train) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::optional<launcher::Launch> launch,
      launcher::FindLaunch([](const char* name) { return std::getenv(name); }));
  if (!launch.has_value()) return std::nullopt;
  if (train.machines() > 1 && train.machines() != launch->size) {
    return absl::InvalidArgumentError(
        absl::StrCat("machines: ", train.machines(), " were asked for, but ",
                     launch->by, " has started ", launch->size));
  }
  train.set_machines(launch->size);
  const std::string shared_folder = data_dir;
  if (launch->shares_machine) {
    absl::StrAppend(&data_dir, "/rank-", launch->rank);
  }
  const std::string secret = VariableOr("HEARTH_CLUSTER_SECRET_FILE", "");
  HEARTH_ASSIGN_OR_RETURN(const uint16_t port, ClusterPort());
  HEARTH_ASSIGN_OR_RETURN(
      launcher::Membership membership,
      launcher::Join(
          {.launch = *launch,
           .data_dir = data_dir,
           .secret_file = secret.empty() ? "" : AbsolutePath(secret, session),
           .shared_folder = shared_folder,
           .port = port,
           .host = VariableOr("HEARTH_CLUSTER_HOST", "")},
          absl::Now(), stop));
  return Rank{*launch, std::move(membership)};
}

absl::StatusOr<int> Run(const RunArguments& arguments, Session& outer) {
  HEARTH_ASSIGN_OR_RETURN(OptionValues values,
                          ReadTrainArguments(arguments.train, {kSource}));
  Task task = {.source = arguments.source};
  if (const auto named = values.extract(kSource);
      !named.empty() && task.source.empty()) {
    task.source = named.mapped().text;
  }
  if (!arguments.destination.empty()) {
    task.destination = AbsolutePath(arguments.destination, outer);
  }
  HEARTH_ASSIGN_OR_RETURN(task.train, TrainJobFromOptions(values));
  std::string data_dir = DataDirOf(arguments, outer);
  const std::stop_token interrupted = outer.environment.catch_termination();
  HEARTH_ASSIGN_OR_RETURN(const std::optional<Rank> rank,
                          FindRank(outer, interrupted, data_dir, task.train));
  HEARTH_ASSIGN_OR_RETURN(
      const auto daemon,
      StartDaemon(arguments, data_dir,
                  rank.has_value() ? rank->membership.cluster_file : "",
                  interrupted, outer));
  client::ClientOptions options;
  options.server = daemon->address();
  if (const char* trace_parent = std::getenv("TRACEPARENT")) {
    options.trace_parent = trace_parent;
  }
  std::unique_ptr<client::Client> client = client::NewClient(options);
  Session session = {.client = *client,
                     .output = outer.output,
                     .environment = outer.environment,
                     .server_flag = absl::StrCat(" --server ", options.server)};
  const EitherStop stop(interrupted, daemon->ended());
  const absl::StatusOr<std::optional<int>> exit_code =
      rank.has_value()
          ? RunRank(task, *rank, interrupted, stop.token(), session)
          : RunAlone(task, stop.token(), session);
  // A connection breaks a moment before the daemon's end is noticed.
  const bool ended_itself = daemon->ended().stop_requested() ||
                            absl::IsUnavailable(exit_code.status());
  // The daemon does not end while this connection is open.
  client.reset();
  const absl::Status stopped = daemon->Stop();
  if (interrupted.stop_requested()) {
    outer.environment.err
        << "stopped; the same command goes on from the last checkpoint\n";
    return kExitInterrupted;
  }
  // The daemon's end may be the cause of other errors.
  if (ended_itself || exit_code.ok()) HEARTH_RETURN_IF_ERROR(stopped);
  if (!exit_code.ok()) return WithFlags(exit_code.status(), values);
  if (exit_code->has_value()) return **exit_code;
  return absl::InternalError("hearthd ended before the job did");
}

}  // namespace

void AddRunCommand(CLI::App& app, Action* chosen_local) {
  CLI::App* command = app.add_subcommand(
      "run",
      "Train with a private daemon, which ends with the job; the same command "
      "again goes on from the last checkpoint. Started by torchrun or srun on "
      "several machines, their daemons train together");
  const auto arguments = std::make_shared<RunArguments>();
  command
      ->add_option("--source", arguments->source,
                   "Folder or file of the dataset, which is imported unless "
                   "it is there; \"source\" in the YAML file")
      ->take_last();
  command
      ->add_option("--data-dir", arguments->data_dir,
                   "Data directory of the daemon; default $TMPDIR/hearth-UID, "
                   "else /tmp/hearth-UID")
      ->take_last();
  command
      ->add_option("--to", arguments->destination, "New folder for the model")
      ->take_last();
  command
      ->add_option("--hearthd", arguments->hearthd,
                   "The daemon's program; default that beside this one, "
                   "else in $PATH")
      ->take_last();
  command
      ->add_option("--hearthd-config", arguments->config,
                   "YAML file with options of hearthd")
      ->take_last();
  const std::function<void()> take = AddTrainFlags(*command, arguments->train);
  command->callback([=] {
    take();
    *chosen_local = [=](Session& session) { return Run(*arguments, session); };
  });
}

namespace {

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Plan> plans,
                          session.client.ListPlans());
  if (session.output == Output::kTable) {
    PrintPlanList(plans, session.environment.out);
    return kExitDone;
  }
  auto list = nlohmann::ordered_json::array();
  for (const v1::Plan& plan : plans) list.push_back(client::ToJson(plan));
  PrintJson({{"plans", list}}, session);
  return kExitDone;
}

absl::StatusOr<int> Show(const std::string& name, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Plan plan, session.client.GetPlan(name));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(plan), session);
  } else {
    PrintPlan(plan, session.environment.out);
  }
  return kExitDone;
}

absl::StatusOr<int> Delete(const std::string& name, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeletePlan(name));
  return PrintDeleted(name, session);
}

void AddNamed(CLI::App& plan, const char* command, const char* help,
              absl::StatusOr<int> (*act)(const std::string&, Session&),
              Action* chosen) {
  const auto name = std::make_shared<std::string>();
  CLI::App* added = plan.add_subcommand(command, help);
  added->add_option("NAME", *name, "The plan's name")->required();
  added->callback(
      [=] { *chosen = [=](Session& session) { return act(*name, session); }; });
}

}  // namespace

void AddPlanCommands(CLI::App& app, Action* chosen) {
  CLI::App* plan = app.add_subcommand(
      "plan", "Prepared samples, packs and partitions, kept for later jobs");
  plan->require_subcommand(1);
  plan->add_subcommand("list", "All plans, the last used first")->callback([=] {
    *chosen = List;
  });
  AddNamed(*plan, "show", "One plan", Show, chosen);
  AddNamed(*plan, "delete", "Delete a plan that no job uses", Delete, chosen);
}

}  // namespace hearth::cli
