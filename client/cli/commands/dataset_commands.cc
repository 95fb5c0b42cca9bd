#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/views/text.h"
#include "client/proto_json.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "hearth/v1/datasets.pb.h"

namespace hearth::cli {

namespace {

constexpr Table::Align kRight = Table::Align::kRight;
// Constant columns that a line names; it counts the others.
constexpr int kMaxColumnsNamed = 8;

template <typename Types, typename Count>
uint64_t Total(const Types& types, Count count) {
  uint64_t total = 0;
  for (const auto& type : types) total += count(type);
  return total;
}

std::string Features(const v1::NodeType& type) {
  if (type.feature_dim() == 0) return "none";
  return absl::StrCat(FormatCount(type.feature_dim()), " ",
                      type.feature_dtype());
}

std::string Share(uint64_t part, uint64_t whole) {
  if (whole == 0) return FormatCount(part);
  return absl::StrFormat(
      "%s (%.1f%%)", FormatCount(part),
      100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string ConstantColumns(const v1::FeatureStatistics& features) {
  std::string text = absl::StrCat(features.constant_columns_size());
  const int named =
      std::min(features.constant_columns_size(), kMaxColumnsNamed);
  for (int i = 0; i < named; ++i) {
    absl::StrAppend(&text, i == 0 ? ": " : ", ", features.constant_columns(i));
  }
  return features.constant_columns_size() > named ? text + ", ..." : text;
}

void AddFeatureStatistics(const v1::NodeType& type, Table& table) {
  const v1::FeatureStatistics& features = type.statistics().features();
  table.AddRow({"  values",
                absl::StrFormat("%.4g to %.4g, mean %.4g, deviation %.4g",
                                features.min(), features.max(), features.mean(),
                                features.standard_deviation())});
  table.AddRow({"  NaN or infinite", FormatCount(features.num_non_finite())});
  table.AddRow({"  zeros", Share(features.num_zeros(),
                                 type.num_nodes() * type.feature_dim())});
  table.AddRow(
      {"  rows of zeros", Share(features.num_zero_rows(), type.num_nodes())});
  table.AddRow({"  constant columns", ConstantColumns(features)});
}

void AddClassBalance(const v1::NodeStatistics& statistics, Table& table) {
  const auto& counts = statistics.class_counts();
  if (counts.empty()) return;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  table.AddRow({"  nodes of a class",
                absl::StrCat(FormatCount(*least), " to ", FormatCount(*most))});
}

void AddNodeType(const v1::NodeType& type, Table& table) {
  table.AddRow({absl::StrCat("nodes \"", type.name(), "\""),
                FormatCount(type.num_nodes())});
  table.AddRow({"  features", Features(type)});
  if (type.has_feature_rows()) {
    table.AddRow({"  on this machine", FormatRows(type.feature_rows())});
  }
  if (!type.feature_path().empty()) {
    table.AddRow({"  registered in place", type.feature_path()});
  }
  if (type.statistics().has_features()) AddFeatureStatistics(type, table);
  table.AddRow({"  labels", LabelWords(type.label_kind(), type.label_width())});
  if (type.has_statistics()) {
    const v1::NodeStatistics& statistics = type.statistics();
    if (type.label_width() > 0) {
      table.AddRow(
          {"  unlabeled", Share(statistics.num_unlabeled(), type.num_nodes())});
    }
    AddClassBalance(statistics, table);
    table.AddRow(
        {"  isolated", Share(statistics.num_isolated(), type.num_nodes())});
  }
  table.AddRow({"  train / valid / test",
                absl::StrCat(FormatCount(type.num_train()), " / ",
                             FormatCount(type.num_valid()), " / ",
                             FormatCount(type.num_test()))});
}

void AddEdgeType(const v1::EdgeType& type, Table& table) {
  table.AddRow(
      {absl::StrCat("edges \"", type.name(), "\""),
       absl::StrCat(FormatCount(type.num_edges()), " (", type.source_type(),
                    " to ", type.destination_type(), ")")});
  if (!type.has_statistics()) return;
  const v1::EdgeStatistics& statistics = type.statistics();
  table.AddRow(
      {"  in-degree",
       absl::StrFormat("mean %.1f, median %s, 99%% up to %s, most %s",
                       statistics.mean_in_degree(),
                       FormatCount(statistics.median_in_degree()),
                       FormatCount(statistics.percentile_99_in_degree()),
                       FormatCount(statistics.max_in_degree()))});
  table.AddRow(
      {"  without in-edges", FormatCount(statistics.num_without_in_edges())});
  table.AddRow(
      {"  without out-edges", FormatCount(statistics.num_without_out_edges())});
  table.AddRow({"  self loops", FormatCount(statistics.num_self_loops())});
  if (statistics.has_homophily()) {
    table.AddRow(
        {"  homophily", absl::StrFormat("%.3f", statistics.homophily())});
  }
}

// Prints a line for each dataset.
void PrintDatasetList(const std::vector<v1::Dataset>& datasets,
                      std::ostream& out) {
  Table table({{"name"},
               {"nodes", kRight},
               {"edges", kRight},
               {"features", kRight},
               {"labels", kRight},
               {"size", kRight},
               {"imported"}});
  for (const v1::Dataset& dataset : datasets) {
    v1::NodeType first;
    if (dataset.node_types_size() > 0) first = dataset.node_types(0);
    table.AddRow(
        {dataset.name(),
         FormatCount(Total(dataset.node_types(),
                           [](const auto& type) { return type.num_nodes(); })),
         FormatCount(Total(dataset.edge_types(),
                           [](const auto& type) { return type.num_edges(); })),
         first.has_feature_rows()
             ? absl::StrCat(Features(first), ", ",
                            FormatRows(first.feature_rows()))
             : Features(first),
         LabelWords(first.label_kind(), first.label_width()),
         FormatByteSize(dataset.size_bytes()),
         FormatTimestamp(dataset.create_time())});
  }
  table.Print(out);
}

// Prints all about one dataset: sizes, statistics, steps of the import,
// warnings.
void PrintDataset(const v1::Dataset& dataset, std::ostream& out) {
  Table table({{""}, {""}});
  table.AddRow({"name", dataset.name()});
  table.AddRow({"fingerprint", dataset.fingerprint()});
  table.AddRow({"imported", FormatTimestamp(dataset.create_time())});
  table.AddRow({"size", FormatByteSize(dataset.size_bytes())});
  for (const auto& type : dataset.node_types()) AddNodeType(type, table);
  for (const auto& type : dataset.edge_types()) AddEdgeType(type, table);
  for (const std::string& transform : dataset.transforms()) {
    table.AddRow({"import", transform});
  }
  for (const v1::Plan& partition : dataset.partitions()) {
    table.AddRow({"partition", partition.name()});
    for (const v1::PlanProperty& property : partition.properties()) {
      table.AddRow({absl::StrCat("  ", property.name()), property.value()});
    }
  }
  table.Print(out);
  for (const std::string& warning : dataset.warnings()) {
    out << "warning: " << EscapeControl(warning) << "\n";
  }
}

// Arguments of the commands on one dataset.
struct Arguments {
  std::string name;
  std::string destination;
  v1::Format format = v1::FORMAT_UNSPECIFIED;
  std::string member;
  std::string placement = "whole";
  std::string share;
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

absl::StatusOr<int> Copy(const Arguments& arguments, Session& session) {
  v1::JobSpec spec;
  spec.mutable_import()->set_name(arguments.name);
  spec.mutable_import()->set_from_member(arguments.member);
  spec.mutable_import()->set_share(arguments.share.empty() &&
                                           arguments.placement == "sharded"
                                       ? "own"
                                       : arguments.share);
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
  return PrintDeleted(name, session);
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

void AddCopy(CLI::App& dataset, Action* chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* copy = AddNamed(
      dataset, "copy",
      "Copy a dataset from another member of the daemon's cluster", *arguments);
  copy->add_option("--from", arguments->member,
                   "The member that has it, as `hearth cluster` lists it")
      ->required();
  copy->add_option("--placement", arguments->placement,
                   "whole: all of it; sharded: of the feature rows, this "
                   "machine's share, by its place among the members in the "
                   "cluster's file. Default whole")
      ->check(CLI::IsMember({"whole", "sharded"}));
  copy->add_option("--share", arguments->share,
                   "Another share of the feature rows: 2/4 is the second of "
                   "four");
  AddSubmissionFlags(*copy, arguments->submission);
  copy->callback([=] {
    *chosen = [=](Session& session) { return Copy(*arguments, session); };
  });
}

}  // namespace

void AddDatasetCommands(CLI::App& app, Action* chosen) {
  CLI::App* dataset = app.add_subcommand("dataset", "The daemon's graphs");
  dataset->require_subcommand(1);
  AddImportCommands(*dataset, chosen);
  AddUploadsCommands(*dataset, chosen);
  AddCopy(*dataset, chosen);
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
