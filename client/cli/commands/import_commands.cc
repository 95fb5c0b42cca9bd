#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/command_tree.h"
#include "client/cli/commands/session.h"
#include "client/cli/views/text.h"
#include "client/private_daemon.h"
#include "client/proto_json.h"
#include "client/transfer.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"

namespace hearth::cli {

namespace {

struct GenerateArguments {
  std::string name;
  std::string graph = "communities";
  uint64_t nodes = 0;
  uint64_t edges = 0;
  bool undirected = false;
  uint32_t dim = 0;
  std::string dtype;
  uint32_t classes = 0;
  double train = 0;
  double valid = 0;
  double test = 0;
  uint64_t seed = 0;
  uint64_t communities = 0;
  double inside = 0;
  double exponent = 0;
  std::vector<double> rmat;
  v1::Format format = v1::FORMAT_UNSPECIFIED;
  std::string destination;
  std::string memory_limit;
  Submission submission;
};

absl::Status FillGraph(const GenerateArguments& arguments,
                       v1::GenerateSpec& spec) {
  if (arguments.graph == "rmat") {
    if (arguments.communities > 0) {
      return absl::InvalidArgumentError(
          "--communities goes with --graph communities");
    }
    v1::RmatGraph& rmat = *spec.mutable_rmat();
    if (arguments.rmat.size() == 3) {
      rmat.set_a(arguments.rmat[0]);
      rmat.set_b(arguments.rmat[1]);
      rmat.set_c(arguments.rmat[2]);
    }
    return absl::OkStatus();
  }
  if (!arguments.rmat.empty()) {
    return absl::InvalidArgumentError("--rmat goes with --graph rmat");
  }
  v1::CommunityGraph& communities = *spec.mutable_communities();
  communities.set_inside(arguments.inside);
  communities.set_exponent(arguments.exponent);
  communities.set_num_communities(arguments.communities);
  return absl::OkStatus();
}

absl::StatusOr<int> Generate(const GenerateArguments& arguments,
                             Session& session) {
  v1::JobSpec job;
  v1::GenerateSpec& spec = *job.mutable_generate();
  HEARTH_RETURN_IF_ERROR(FillGraph(arguments, spec));
  spec.set_name(arguments.name);
  spec.set_num_nodes(arguments.nodes);
  spec.set_num_edges(arguments.edges);
  spec.set_undirected(arguments.undirected);
  spec.set_feature_dim(arguments.dim);
  spec.set_feature_dtype(arguments.dtype);
  spec.set_num_classes(arguments.classes);
  spec.set_train_share(arguments.train);
  spec.set_valid_share(arguments.valid);
  spec.set_test_share(arguments.test);
  spec.set_seed(arguments.seed);
  spec.set_format(arguments.format);
  if (!arguments.destination.empty()) {
    spec.set_destination(AbsolutePath(arguments.destination, session));
  }
  if (!arguments.memory_limit.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t bytes,
                            ParseByteSize(arguments.memory_limit));
    spec.set_memory_limit_bytes(static_cast<uint64_t>(bytes));
  }
  return RunJob(session, job, arguments.submission);
}

void AddGraphOptions(CLI::App& generate, GenerateArguments& arguments) {
  generate
      .add_option("--graph", arguments.graph,
                  "How the edges are drawn: communities, rmat")
      ->check(OneOf(std::vector<std::string>{"communities", "rmat"}))
      ->capture_default_str();
  generate.add_option("--nodes", arguments.nodes, "Number of nodes")
      ->required();
  generate.add_option("--edges", arguments.edges, "Number of edges")
      ->required();
  generate.add_flag("--undirected", arguments.undirected,
                    "Make half of the edges the reverse of the other half");
  generate.add_option("--communities", arguments.communities,
                      "Number of communities, each with nodes of all classes; "
                      "default 0: the classes are the communities");
  generate.add_option("--inside", arguments.inside,
                      "Share of edges within a community; default 0.8");
  generate.add_option("--exponent", arguments.exponent,
                      "Exponent of the degrees' power law; default 2.5");
  generate
      .add_option("--rmat", arguments.rmat,
                  "Probabilities a,b,c of R-MAT; default 0.57,0.19,0.19")
      ->delimiter(',')
      ->expected(3);
  generate.add_option("--seed", arguments.seed, "Seed of the graph; default 0");
}

void AddContentOptions(CLI::App& generate, GenerateArguments& arguments) {
  generate.add_option("--dim", arguments.dim,
                      "Columns of the features; default 128");
  generate
      .add_option("--dtype", arguments.dtype,
                  "Type of the features: float32, float16 or bfloat16; default "
                  "float32")
      ->check(
          OneOf(std::vector<std::string>{"float32", "float16", "bfloat16"}));
  generate.add_option("--classes", arguments.classes,
                      "Number of classes; default 16");
  generate.add_option("--train", arguments.train,
                      "Share of training nodes; default 0.1");
  generate.add_option("--valid", arguments.valid,
                      "Share of validation nodes; default 0.05");
  generate.add_option("--test", arguments.test,
                      "Share of test nodes; default 0.05");
}

}  // namespace

void AddGenerateCommand(CLI::App& dataset, Action* chosen) {
  CLI::App* generate = dataset.add_subcommand(
      "generate", "Make up a graph whose labels can be learned");
  const auto arguments = std::make_shared<GenerateArguments>();
  CLI::Option* name =
      generate->add_option("NAME", arguments->name, "The dataset's name");
  AddGraphOptions(*generate, *arguments);
  AddContentOptions(*generate, *arguments);
  CLI::Option* to = generate->add_option(
      "--to", arguments->destination,
      "New folder on the daemon's machine, written instead of a dataset");
  name->excludes(to);
  generate
      ->add_option("--format", arguments->format,
                   "With --to: format of the folder's files; default numpy")
      ->transform(OneOf(EnumWords<v1::Format>()))
      ->needs(to);
  generate->add_option("--memory-limit", arguments->memory_limit,
                       "Memory for buffers, such as 4GiB; default 1GiB, or "
                       "half of what the daemon's jobs may take if that is "
                       "less");
  AddSubmissionFlags(*generate, arguments->submission);
  generate->callback([=] {
    *chosen = [=](Session& session) { return Generate(*arguments, session); };
  });
}

namespace {

struct ImportArguments {
  v1::ImportSpec spec;
  std::string source;
  std::string memory_limit;
  v1::Format format = v1::FORMAT_UNSPECIFIED;
  v1::LabelKind labels = v1::LABEL_KIND_UNSPECIFIED;
  v1::SelfLoops self_loops = v1::SELF_LOOPS_UNSPECIFIED;
  v1::NonFinite non_finite = v1::NON_FINITE_UNSPECIFIED;
  v1::FeatureFill fill_features = v1::FEATURE_FILL_UNSPECIFIED;
  bool undirected = false;
  bool dedup = false;
  bool relabel = false;
  v1::EdgeListHeader header = v1::EDGE_LIST_HEADER_UNSPECIFIED;
  std::vector<std::string> columns;
  std::string split;
  uint32_t igb_classes = 0;
  std::string split_seed;
  Submission submission;
};

// Spec of an import, without its source.
absl::StatusOr<v1::ImportSpec> SpecOf(const ImportArguments& arguments) {
  v1::ImportSpec wanted = arguments.spec;
  wanted.set_format(arguments.format);
  wanted.set_labels(arguments.labels);
  wanted.set_non_finite(arguments.non_finite);
  wanted.set_fill_features(arguments.fill_features);
  if (!arguments.memory_limit.empty()) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t bytes,
                            ParseByteSize(arguments.memory_limit));
    wanted.set_memory_limit_bytes(static_cast<uint64_t>(bytes));
  }
  wanted.mutable_edges()->set_add_reverse(arguments.undirected);
  wanted.mutable_edges()->set_remove_duplicates(arguments.dedup);
  wanted.mutable_edges()->set_self_loops(arguments.self_loops);
  if (arguments.relabel) wanted.mutable_edge_list()->set_relabel(true);
  if (arguments.header != v1::EDGE_LIST_HEADER_UNSPECIFIED) {
    wanted.mutable_edge_list()->set_header(arguments.header);
  }
  if (!arguments.columns.empty()) {
    wanted.mutable_edge_list()->set_source_column(arguments.columns[0]);
    wanted.mutable_edge_list()->set_destination_column(arguments.columns[1]);
  }
  if (!arguments.split.empty())
    wanted.mutable_ogb()->set_split(arguments.split);
  if (arguments.igb_classes != 0) {
    wanted.mutable_igb()->set_num_classes(arguments.igb_classes);
  }
  if (!arguments.split_seed.empty()) {
    wanted.mutable_igb()->set_split_seed(std::stoull(arguments.split_seed));
  }
  return wanted;
}

absl::StatusOr<int> Import(const ImportArguments& arguments, Session& session) {
  v1::JobSpec spec;
  HEARTH_ASSIGN_OR_RETURN(*spec.mutable_import(), SpecOf(arguments));
  spec.mutable_import()->set_path(AbsolutePath(arguments.source, session));
  return RunJob(session, spec, arguments.submission);
}

// Sends the files; returns the complete upload.
absl::StatusOr<v1::Upload> Send(const ImportArguments& arguments,
                                Session& session,
                                const std::stop_token& interrupted) {
  TransferProgress progress(session);
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<client::UploadFiles> files,
                          client::UploadFiles::Find(
                              AbsolutePath(arguments.source, session),
                              [&progress](uint64_t done, uint64_t total) {
                                progress.Show("reading", done, total);
                              },
                              interrupted));
  files->set_on_sent([&progress](uint64_t done, uint64_t total) {
    progress.Show("uploading", done, total);
  });
  v1::BeginUploadRequest request = files->request();
  request.set_name(arguments.spec.name());
  absl::StatusOr<v1::Upload> upload =
      session.client.Upload(request, *files, interrupted);
  progress.Clear();
  return upload;
}

absl::StatusOr<int> Upload(const ImportArguments& arguments, Session& session) {
  v1::JobSpec spec;
  HEARTH_ASSIGN_OR_RETURN(*spec.mutable_import(), SpecOf(arguments));
  const std::stop_token interrupted = session.environment.catch_interrupts();
  const absl::StatusOr<v1::Upload> upload =
      Send(arguments, session, interrupted);
  if (!upload.ok() && interrupted.stop_requested()) {
    session.environment.err << "what has come stays with the daemon for a "
                               "while: the same command goes on from there\n";
    return kExitInterrupted;
  }
  HEARTH_RETURN_IF_ERROR(upload.status());
  spec.mutable_import()->set_upload(upload->id());
  return RunJob(session, spec, arguments.submission);
}

void AddSourceOptions(CLI::App& command, const char* source_help,
                      ImportArguments& arguments) {
  command
      .add_option("NAME", *arguments.spec.mutable_name(), "The dataset's name")
      ->required();
  command.add_option("--source", arguments.source, source_help)->required();
  command
      .add_option("--format", arguments.format,
                  "Format of the source; auto = recognized by its files")
      ->transform(OneOf(EnumWords<v1::Format>()))
      ->default_str("auto");
  command.add_option("--memory-limit", arguments.memory_limit,
                     "Memory for the import's buffers, such as 4GiB; default "
                     "1GiB, or half of what the daemon's jobs may take if that "
                     "is less");
}

void AddContentOptions(CLI::App& command, ImportArguments& arguments) {
  command
      .add_option("--labels", arguments.labels,
                  "Kind of labels; auto = by their shape")
      ->transform(OneOf(EnumWords<v1::LabelKind>()))
      ->default_str("auto");
  command
      .add_option("--non-finite", arguments.non_finite,
                  "Treatment of features that are NaN or infinite")
      ->transform(OneOf(std::map<std::string, v1::NonFinite>{
          {"refuse", v1::NON_FINITE_UNSPECIFIED},
          {"keep", v1::KEEP_NON_FINITE},
          {"zero", v1::ZERO_NON_FINITE}}))
      ->default_str("refuse");
  command
      .add_option("--fill-features", arguments.fill_features,
                  "Features for node types without any; mean = the mean of the "
                  "neighbors' features")
      ->transform(OneOf(std::map<std::string, v1::FeatureFill>{
          {"none", v1::FEATURE_FILL_UNSPECIFIED},
          {"mean", v1::MEAN_OF_NEIGHBORS}}))
      ->default_str("none");
  command.add_flag_callback(
      "--bfloat16",
      [&arguments] { arguments.spec.set_bfloat16_features(true); },
      "Read uint16 features as bfloat16");
}

void AddEdgeOptions(CLI::App& command, ImportArguments& arguments) {
  command.add_flag(
      "--undirected", arguments.undirected,
      "Add the reverse of each edge; for edges between two node types, as "
      "edge type rev_NAME");
  command.add_flag("--dedup", arguments.dedup, "Remove duplicate edges");
  command
      .add_option("--self-loops", arguments.self_loops,
                  "Treatment of edges from a node to itself")
      ->transform(OneOf(std::map<std::string, v1::SelfLoops>{
          {"keep", v1::SELF_LOOPS_UNSPECIFIED},
          {"remove", v1::REMOVE_SELF_LOOPS},
          {"add", v1::ADD_SELF_LOOPS}}))
      ->default_str("keep");
  command.add_flag("--relabel", arguments.relabel,
                   "Edge lists: number the nodes in the order of their ids, "
                   "which may be any text, and keep the map");
  command
      .add_option(
          "--header", arguments.header,
          "Edge lists: whether the first line names the columns; auto = "
          "told from the first lines")
      ->transform(OneOf(std::map<std::string, v1::EdgeListHeader>{
          {"auto", v1::EDGE_LIST_HEADER_UNSPECIFIED},
          {"yes", v1::WITH_HEADER},
          {"no", v1::WITHOUT_HEADER}}))
      ->default_str("auto");
  command
      .add_option("--columns", arguments.columns,
                  "Edge lists: columns of source and destination, by number "
                  "(from 1) or by name in the header; default: the columns "
                  "with such names, else the first two")
      ->delimiter(',')
      ->expected(2)
      ->type_name("SRC,DST");
}

void AddFormatOptions(CLI::App& command, ImportArguments& arguments) {
  command.add_option(
      "--split", arguments.split,
      "OGB datasets: name of the split, where there are several");
  command
      .add_option("--igb-classes", arguments.igb_classes,
                  "IGB datasets: number of classes, 19 or 2983; default 19")
      ->check(CLI::IsMember({19, 2983}));
  command
      .add_option("--split-seed", arguments.split_seed,
                  "IGB datasets: split at random by this seed")
      ->check(CLI::TypeValidator<uint64_t>());
}

// Adds the options that `import` and `upload` have in common.
void AddOptions(CLI::App& command, const char* source_help,
                ImportArguments& arguments) {
  AddSourceOptions(command, source_help, arguments);
  AddContentOptions(command, arguments);
  AddEdgeOptions(command, arguments);
  AddFormatOptions(command, arguments);
  AddSubmissionFlags(command, arguments.submission);
}

}  // namespace

void AddImportCommands(CLI::App& dataset, Action* chosen) {
  CLI::App* importing = dataset.add_subcommand(
      "import", "Import a graph from the daemon's machine");
  const auto imported = std::make_shared<ImportArguments>();
  AddOptions(*importing, "Folder or file on the daemon's machine", *imported);
  importing->add_flag_callback(
      "--in-place", [=] { imported->spec.set_in_place(true); },
      "Register features in place instead of copying them");
  importing->callback([=] {
    *chosen = [=](Session& session) { return Import(*imported, session); };
  });
  CLI::App* uploading = dataset.add_subcommand(
      "upload", "Upload a graph from this machine and import it");
  const auto uploaded = std::make_shared<ImportArguments>();
  AddOptions(*uploading,
             "Folder or file on this machine; an interrupted upload of it goes "
             "on",
             *uploaded);
  uploading->callback([=] {
    *chosen = [=](Session& session) { return Upload(*uploaded, session); };
  });
}

namespace {

// Becomes hearth-piece: pieces are made by the engine, of which the client is
// free.
absl::StatusOr<int> RunPiece(const std::vector<std::string>& arguments) {
  HEARTH_ASSIGN_OR_RETURN(std::string program,
                          client::FindProgram("hearth-piece"));
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers = {program.data()};
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return absl::ErrnoToStatus(errno, program);
}

}  // namespace

void AddPieceCommand(CLI::App& app, Action* chosen_local) {
  CLI::App* command = app.add_subcommand(
      "piece",
      "Make a piece of an import or of a plan on this machine, without a "
      "daemon: "
      "piece plan FOLDER TEXT..., piece --of PLAN --index N, piece check --of "
      "PLAN; hearth-piece --help tells more");
  // All that follows belongs to the other program, --help too.
  command->set_help_flag();
  command->fallthrough(false);
  command->prefix_command();
  command->callback([=] {
    const std::vector<std::string> arguments = command->remaining();
    *chosen_local = [=](Session&) { return RunPiece(arguments); };
  });
}

namespace {

constexpr Table::Align kRight = Table::Align::kRight;

absl::StatusOr<int> List(Session& session) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Upload> uploads,
                          session.client.ListUploads());
  if (session.output == Output::kJson) {
    auto list = nlohmann::ordered_json::array();
    for (const v1::Upload& upload : uploads) {
      list.push_back(client::ToJson(upload));
    }
    PrintJson({{"uploads", list}}, session);
    return kExitDone;
  }
  Table table({{"id"},
               {"dataset"},
               {"owner"},
               {"files", kRight},
               {"received", kRight},
               {"size", kRight},
               {"kept until"}});
  for (const v1::Upload& upload : uploads) {
    table.AddRow({upload.id(), upload.name(), upload.owner(),
                  FormatCount(upload.num_files()),
                  FormatByteSize(upload.received_bytes()),
                  FormatByteSize(upload.size_bytes()),
                  upload.job_id().empty()
                      ? FormatTimestamp(upload.expire_time())
                      : absl::StrCat("end of ", upload.job_id())});
  }
  table.Print(session.environment.out);
  return kExitDone;
}

absl::StatusOr<int> Delete(const std::string& id, Session& session) {
  HEARTH_RETURN_IF_ERROR(session.client.DeleteUpload(id));
  return PrintDeleted(id, session);
}

}  // namespace

void AddUploadsCommands(CLI::App& dataset, Action* chosen) {
  CLI::App* uploads = dataset.add_subcommand(
      "uploads",
      "Files that `dataset upload` has sent and that are not imported yet");
  uploads->require_subcommand(1);
  uploads->add_subcommand("list", "All uploads, by dataset")->callback([=] {
    *chosen = List;
  });
  const auto id = std::make_shared<std::string>();
  CLI::App* remove = uploads->add_subcommand(
      "delete",
      "Delete an upload that no job uses, even while it is being sent");
  remove->add_option("ID", *id, "The upload's id")->required();
  remove->callback([=] {
    *chosen = [=](Session& session) { return Delete(*id, session); };
  });
}

}  // namespace hearth::cli
