#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/escape.h"
#include "client/cli/figures.h"
#include "client/cli/job_run.h"
#include "client/cli/label_words.h"
#include "client/cli/layout_words.h"
#include "client/cli/table.h"
#include "client/proto_json.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

namespace hearth::cli {
namespace {

constexpr Table::Align kRight = Table::Align::kRight;

struct ImportArguments {
  std::string name;
  v1::Layout layout = v1::LAYOUT_UNSPECIFIED;
  v1::LabelKind labels = v1::LABEL_KIND_UNSPECIFIED;
  std::string source;
  std::string memory_limit;
  bool in_place = false;
  bool detach = false;
};

absl::StatusOr<int> Import(const ImportArguments& arguments, Session& session) {
  v1::JobSpec spec;
  v1::ImportSpec* import = spec.mutable_import();
  import->set_name(arguments.name);
  import->set_layout(arguments.layout);
  import->set_labels(arguments.labels);
  import->set_path(AbsolutePath(arguments.source, session));
  if (!arguments.memory_limit.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t bytes,
                            ParseByteSize(arguments.memory_limit));
    import->set_memory_limit_bytes(static_cast<uint64_t>(bytes));
  }
  import->set_in_place(arguments.in_place);
  return RunJob(session, spec, arguments.detach);
}

uint64_t TotalNodes(const v1::Dataset& dataset) {
  uint64_t total = 0;
  for (const auto& type : dataset.node_types()) total += type.num_nodes();
  return total;
}

uint64_t TotalEdges(const v1::Dataset& dataset) {
  uint64_t total = 0;
  for (const auto& type : dataset.edge_types()) total += type.num_edges();
  return total;
}

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Dataset> datasets,
                          session.client.ListDatasets());
  if (session.output == Output::kJson) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& dataset : datasets)
      list.push_back(client::ToJson(dataset));
    PrintJson({{"datasets", list}}, session);
    return kExitDone;
  }
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
    table.AddRow({dataset.name(), FormatCount(TotalNodes(dataset)),
                  FormatCount(TotalEdges(dataset)),
                  absl::StrCat(FormatCount(first.feature_dim()), " ",
                               first.feature_dtype()),
                  LabelWords(first.label_kind(), first.label_width()),
                  FormatByteSize(dataset.size_bytes()),
                  FormatTimestamp(dataset.create_time())});
  }
  table.Print(session.environment.out);
  return kExitDone;
}

void AddNodeType(const v1::NodeType& type, Table* table) {
  const std::string prefix = absl::StrCat("nodes \"", type.name(), "\"");
  table->AddRow({prefix, FormatCount(type.num_nodes())});
  table->AddRow({"  features", absl::StrCat(FormatCount(type.feature_dim()),
                                            " ", type.feature_dtype())});
  if (!type.feature_path().empty()) {
    table->AddRow({"  registered in place", type.feature_path()});
  }
  table->AddRow(
      {"  labels", LabelWords(type.label_kind(), type.label_width())});
  table->AddRow({"  train / valid / test",
                 absl::StrCat(FormatCount(type.num_train()), " / ",
                              FormatCount(type.num_valid()), " / ",
                              FormatCount(type.num_test()))});
}

absl::StatusOr<int> Show(const std::string& name, Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Dataset dataset,
                          session.client.GetDataset(name));
  if (session.output == Output::kJson) {
    PrintJson(client::ToJson(dataset), session);
    return kExitDone;
  }
  Table table({{""}, {""}});
  table.AddRow({"name", dataset.name()});
  table.AddRow({"fingerprint", dataset.fingerprint()});
  table.AddRow({"imported", FormatTimestamp(dataset.create_time())});
  table.AddRow({"size", FormatByteSize(dataset.size_bytes())});
  for (const auto& type : dataset.node_types()) AddNodeType(type, &table);
  for (const auto& type : dataset.edge_types()) {
    table.AddRow(
        {absl::StrCat("edges \"", type.name(), "\""),
         absl::StrCat(FormatCount(type.num_edges()), " (", type.source_type(),
                      " to ", type.destination_type(), ")")});
  }
  table.Print(session.environment.out);
  return kExitDone;
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

void AddImport(CLI::App& dataset, Action* chosen) {
  CLI::App* import = dataset.add_subcommand(
      "import", "Bring a graph from the daemon's machine into the daemon");
  const auto arguments = std::make_shared<ImportArguments>();
  import->add_option("NAME", arguments->name, "The dataset's name")->required();
  import
      ->add_option("--format", arguments->layout,
                   "How the source is laid out: auto, numpy")
      ->transform(CLI::Transformer(LayoutWords()))
      ->default_str("auto");
  import
      ->add_option("--source", arguments->source,
                   "The folder or file on the daemon's machine")
      ->required();
  import
      ->add_option("--labels", arguments->labels,
                   "What the labels are: auto, classes, multi-label (columns "
                   "of 0 and 1) or targets (numbers to predict)")
      ->transform(CLI::CheckedTransformer(LabelKindWords()))
      ->default_str("auto");
  import->add_option("--memory-limit", arguments->memory_limit,
                     "Memory for the import's buffers, such as 4GiB; default "
                     "1GiB");
  import->add_flag("--in-place", arguments->in_place,
                   "Use features where they lie instead of copying them");
  import->add_flag("--detach", arguments->detach, "Do not wait for the end");
  import->callback([=] {
    *chosen = [=](Session& session) { return Import(*arguments, session);
};
}  // namespace
);
}  // namespace hearth::cli

}  // namespace

void AddDatasetCommands(CLI::App& app, Action* chosen) {
  CLI::App* dataset = app.add_subcommand("dataset", "The daemon's graphs");
  dataset->require_subcommand(1);
  AddImport(*dataset, chosen);
  dataset->add_subcommand("list", "All datasets")->callback([=] {
    *chosen = List;
  });
  const auto name = std::make_shared<std::string>();
  CLI::App* show = dataset->add_subcommand("show", "One dataset");
  show->add_option("NAME", *name, "The dataset's name")->required();
  show->callback([=] {
    *chosen = [=](Session& session) { return Show(*name, session); };
  });
  CLI::App* remove = dataset->add_subcommand(
      "delete", "Delete a dataset; arrays registered in place stay");
  remove->add_option("NAME", *name, "The dataset's name")->required();
  remove->callback([=] {
    *chosen = [=](Session& session) { return Delete(*name, session); };
  });
}

}  // namespace hearth::cli
