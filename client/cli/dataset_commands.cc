#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/dataset_view.h"
#include "client/cli/enum_words.h"
#include "client/cli/escape.h"
#include "client/cli/job_run.h"
#include "client/cli/one_of.h"
#include "client/cli/submission.h"
#include "client/proto_json.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

/// Arguments of the commands on one dataset.
struct Arguments {
  std::string name;
  std::string destination;
  v1::Format format = v1::FORMAT_UNSPECIFIED;
  Submission submission;
};

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Dataset> datasets,
                          session.client.ListDatasets());
  if (session.output == Output::kTable) {
    PrintDatasetList(datasets, session.environment.out);
    return kExitDone;
  }
  auto list = nlohmann::ordered_json::array();
  for (const auto& dataset : datasets) list.push_back(client::ToJson(dataset));
  PrintJson({{"datasets", list}}, session);
  return kExitDone;
}

absl::StatusOr<int> Show(const std::string& name, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Dataset dataset,
                          session.client.GetDataset(name));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(dataset), session);
  } else {
    PrintDataset(dataset, session.environment.out);
  }
  return kExitDone;
}

absl::StatusOr<int> Verify(const Arguments& arguments, Session& session) {
  v1::JobSpec spec;
  spec.mutable_verify()->set_dataset(arguments.name);
  return RunJob(session, spec, arguments.submission);
}

absl::StatusOr<int> Export(const Arguments& arguments, Session& session) {
  v1::JobSpec spec;
  v1::ExportDatasetSpec& dataset = *spec.mutable_export_dataset();
  dataset.set_dataset(arguments.name);
  dataset.set_destination(AbsolutePath(arguments.destination, session));
  dataset.set_format(arguments.format);
  return RunJob(session, spec, arguments.submission);
}

absl::StatusOr<int> Delete(const std::string& name, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeleteDataset(name));
  if (session.output == Output::kJson) {
    PrintJson({{"deleted", name}}, session);
  } else {
    session.environment.out << "deleted " << EscapeControl(name) << "\n";
  }
  return kExitDone;
}

CLI::App* AddNamed(CLI::App& dataset, const char* command, const char* help,
                   Arguments& arguments) {
  CLI::App* added = dataset.add_subcommand(command, help);
  added->add_option("NAME", arguments.name, "The dataset's name")->required();
  return added;
}

void AddVerify(CLI::App& dataset, Action* chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verify = AddNamed(
      dataset, "verify", "Check all bytes of a dataset against its checksums",
      *arguments);
  AddSubmissionFlags(*verify, arguments->submission);
  verify->callback([=] {
    *chosen = [=](Session& session) { return Verify(*arguments, session); };
  });
}

void AddExport(CLI::App& dataset, Action* chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* write = AddNamed(dataset, "export",
                             "Write a dataset to a new folder on the daemon's "
                             "machine, for other tools",
                             *arguments);
  write
      ->add_option("--to", arguments->destination,
                   "New folder on the daemon's machine")
      ->required();
  write
      ->add_option(
          "--format", arguments->format,
          "Format of the folder's files; default numpy, or graphbolt for "
          "several types")
      ->transform(OneOf(EnumWords<v1::Format>()));
  AddSubmissionFlags(*write, arguments->submission);
  write->callback([=] {
    *chosen = [=](Session& session) { return Export(*arguments, session); };
  });
}

}  // namespace

void AddDatasetCommands(CLI::App& app, Action* chosen) {
  CLI::App* dataset = app.add_subcommand("dataset", "The daemon's graphs");
  dataset->require_subcommand(1);
  AddImportCommands(*dataset, chosen);
  AddUploadsCommands(*dataset, chosen);
  AddGenerateCommand(*dataset, chosen);
  dataset->add_subcommand("list", "All datasets")->callback([=] {
    *chosen = List;
  });
  const auto arguments = std::make_shared<Arguments>();
  AddNamed(*dataset, "show", "One dataset", *arguments)->callback([=] {
    *chosen = [=](Session& session) { return Show(arguments->name, session); };
  });
  AddVerify(*dataset, chosen);
  AddExport(*dataset, chosen);
  AddNamed(*dataset, "delete",
           "Delete a dataset; arrays registered in place stay", *arguments)
      ->callback([=] {
        *chosen = [=](Session& session) {
          return Delete(arguments->name, session);
        };
      });
}

}  // namespace hearth::cli
