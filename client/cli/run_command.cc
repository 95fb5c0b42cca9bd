#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/job_run.h"
#include "client/cli/train_arguments.h"
#include "client/cli/train_options.h"
#include "client/hearth_client.h"
#include "client/private_daemon.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"

/// A run, step by step:
///
///   1. a daemon is started on the data directory (see private_daemon.h), which
///      goes on with whatever was not at its end there;
///   2. the dataset is imported, if it is not there and a source is named;
///   3. the job is submitted, by a request id that is made of its spec: the
///      same command finds the same job again, and resumes one that failed;
///   4. it is watched to its end, or until a signal, or the daemon's end;
///   5. the daemon is stopped, at a checkpoint where the job has not ended.

namespace hearth::cli {
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

// Requested when one of two is.
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
  // Many may run on one machine: none has a port.
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

// Whether what a job has made was removed since.
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

// The job that the same command began before, or a new one. Each whose product
// is missing has a successor, whose request id is made of its id too: the
// command finds that again as well.
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

// Runs a job to its end; nullopt if `stop` came first.
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

// All jobs, one after the other, until one has not succeeded; nullopt if `stop`
// came first.
absl::StatusOr<std::optional<int>> RunJobs(const RunArguments& arguments,
                                           const v1::TrainJobSpec& train,
                                           const std::string& source,
                                           const std::stop_token& stop,
                                           Session& session) {
  const std::string& dataset = train.data().dataset();
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
  // A connection breaks a moment before the end is noted.
  const bool ended_itself = daemon->ended().stop_requested() ||
                            absl::IsUnavailable(exit_code.status());
  // The daemon waits for connections that are open to end.
  client.reset();
  const absl::Status stopped = daemon->Stop();
  if (interrupted.stop_requested()) {
    outer.environment.err
        << "stopped; the same command goes on from the last checkpoint\n";
    return kExitInterrupted;
  }
  // It may be why the rest failed.
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

}  // namespace hearth::cli
