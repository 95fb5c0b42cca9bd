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
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/options/job_options.h"
#include "client/cli/options/option_values.h"
#include "client/cli/views/job_view.h"
#include "client/cli/views/text.h"
#include "client/hearth_client.h"
#include "client/private_daemon.h"
#include "client/proto_json.h"
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
  // Whether `prepare` makes only the partition.
  bool partition_only = false;
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
                   bool partition_only) {
  v1::JobSpec spec;
  switch (purpose) {
    case Purpose::kTrain:
      *spec.mutable_train() = train;
      break;
    case Purpose::kPrepare:
      *spec.mutable_prepare()->mutable_data() = train.data();
      *spec.mutable_prepare()->mutable_pipeline() = train.pipeline();
      spec.mutable_prepare()->set_training_only(train.trains(0).has_none());
      spec.mutable_prepare()->set_partition_only(partition_only);
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
      RunJob(session, JobFor(purpose, train, arguments.partition_only),
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

absl::StatusOr<std::unique_ptr<client::PrivateDaemon>> StartDaemon(
    const RunArguments& arguments, const std::stop_token& stop,
    const Session& session) {
  client::PrivateDaemonOptions options;
  options.data_dir = DataDirOf(arguments, session);
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
  spec.mutable_export_()->set_destination(AbsolutePath(destination, session));
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

// Imports, trains and exports, one job after the other, until one does not
// succeed; nullopt if `stop` came first. Looks at the destination before hours
// of training.
absl::StatusOr<std::optional<int>> RunJobs(const RunArguments& arguments,
                                           const v1::TrainJobSpec& train,
                                           const std::string& source,
                                           const std::stop_token& stop,
                                           Session& session) {
  const std::string& dataset = train.data().dataset();
  if (!arguments.destination.empty()) {
    HEARTH_RETURN_IF_ERROR(CheckDestination(
        session.client, AbsolutePath(arguments.destination, session)));
  }
  if (!source.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const bool is_missing,
                            IsMissing(session.client, dataset));
    if (is_missing) {
      HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> import,
                              ImportDataset(session, dataset, source, stop));
      if (!import.has_value()) return std::nullopt;
      if (import->state() != v1::SUCCEEDED) return PrintEnded(session, *import);
    }
  }
  v1::JobSpec spec;
  *spec.mutable_train() = train;
  HEARTH_ASSIGN_OR_RETURN(const std::optional<v1::Job> job,
                          RunToEnd(session, spec, stop));
  if (!job.has_value()) return std::nullopt;
  const int exit_code = PrintEnded(session, *job);
  if (exit_code != kExitDone || arguments.destination.empty()) {
    return exit_code;
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::optional<v1::Job> exported,
      Export(session, job->id(), arguments.destination, stop));
  if (!exported.has_value()) return std::nullopt;
  if (exported->state() == v1::SUCCEEDED && session.output == Output::kJson) {
    return kExitDone;
  }
  return PrintEnded(session, *exported);
}

absl::StatusOr<int> Run(const RunArguments& arguments, Session& outer) {
  HEARTH_ASSIGN_OR_RETURN(OptionValues values,
                          ReadTrainArguments(arguments.train, {kSource}));
  std::string source = arguments.source;
  if (const auto named = values.extract(kSource);
      !named.empty() && source.empty()) {
    source = named.mapped().text;
  }
  HEARTH_ASSIGN_OR_RETURN(const v1::TrainJobSpec train,
                          TrainJobFromOptions(values));
  const std::stop_token interrupted = outer.environment.catch_termination();
  HEARTH_ASSIGN_OR_RETURN(const auto daemon,
                          StartDaemon(arguments, interrupted, outer));
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
      RunJobs(arguments, train, source, stop.token(), session);
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
      "again goes on from the last checkpoint");
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
