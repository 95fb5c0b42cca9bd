#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/commands.h"
#include "client/cli/enum_words.h"
#include "client/cli/job_run.h"
#include "client/cli/one_of.h"
#include "client/cli/submission.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"

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

}  // namespace hearth::cli
