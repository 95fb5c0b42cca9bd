#include "client/cli/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "client/testing/fake_daemon.h"

namespace hearth::cli {
namespace {

using client::FakeDaemon;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs command lines against a fake daemon.
class CliTest : public ::testing::Test {
 protected:
  CliTest() : environment_{.out = out_, .err = err_} {
    environment_.working_directory = "/home/me";
  }

  int Run(std::vector<std::string> arguments) {
    out_.str("");
    err_.str("");
    setenv("HEARTH_SERVER", daemon_.address().c_str(), 1);
    return RunCli(arguments, environment_);
  }

  nlohmann::json Json() { return nlohmann::json::parse(out_.str()); }

  // Spec of the last submission.
  v1::JobSpec Submitted() { return daemon_.submissions().back().spec(); }

  void AddJob(const std::string& id, v1::JobState state,
              std::vector<v1::JobEvent> events) {
    v1::Job job;
    job.set_id(id);
    job.set_state(state);
    daemon_.AddJob(job, std::move(events));
  }

  FakeDaemon daemon_;
  std::ostringstream out_;
  std::ostringstream err_;
  Environment environment_;
};

TEST_F(CliTest, TrainSubmitsAndWatches) {
  EXPECT_EQ(Run({"train", "--dataset", "cora", "--strategy", "mmap",
                 "--fanouts", "-1,5", "--seed", "1"}),
            kExitDone);
  const v1::DataSpec data = Submitted().train().data();
  EXPECT_EQ(data.dataset(), "cora");
  EXPECT_TRUE(data.has_mmap());
  EXPECT_THAT(data.neighbor().fanouts(), ElementsAre(-1, 5));
  EXPECT_EQ(err_.str(), "train-1\nrunning\nsucceeded\n");
}

TEST_F(CliTest, TrainPrintsOneJsonObject) {
  daemon_.OnSubmit([](v1::Job* job) {
    job->mutable_report()->mutable_train()->set_loss_digest("ab");
    return absl::OkStatus();
  });
  EXPECT_EQ(Run({"train", "--dataset", "cora", "--output", "json"}), kExitDone);
  EXPECT_EQ(Json()["state"], "SUCCEEDED");
  EXPECT_EQ(Json()["report"]["loss_digest"], "ab");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(CliTest, TheLastOfRepeatedOptionsWins) {
  EXPECT_EQ(Run({"train", "--dataset", "a", "--epochs", "2", "--output",
                 "table", "--epochs", "3", "--output", "json"}),
            kExitDone);
  EXPECT_EQ(Submitted().train().data().epochs(), 3);
  EXPECT_EQ(Json()["id"], "train-1");
}

TEST_F(CliTest, GlobalOptionsMayComeFirst) {
  EXPECT_EQ(Run({"--output", "json", "status"}), kExitDone);
  EXPECT_EQ(Json()["pid"], 42);
}

TEST_F(CliTest, ServerFlagWinsOverTheEnvironment) {
  EXPECT_EQ(Run({"status", "--server", "127.0.0.1:1"}), kExitUnreachable);
  EXPECT_THAT(err_.str(), HasSubstr("127.0.0.1:1"));
}

TEST_F(CliTest, DetachPrintsTheId) {
  EXPECT_EQ(Run({"train", "--dataset", "cora", "--detach"}), kExitDone);
  EXPECT_EQ(out_.str(), "train-1\n");
  EXPECT_EQ(err_.str(), "watch it with: hearth --server " + daemon_.address() +
                            " job watch train-1\n");
  EXPECT_TRUE(daemon_.watches().empty());
}

TEST_F(CliTest, DetachAsJson) {
  EXPECT_EQ(Run({"train", "--dataset", "cora", "--detach", "--output", "json"}),
            kExitDone);
  EXPECT_EQ(Json(), nlohmann::json({{"id", "train-1"}}));
}

TEST_F(CliTest, AFailedJobIsExitCode1) {
  daemon_.OnSubmit([](v1::Job* job) {
    job->set_state(v1::FAILED);
    job->mutable_error()->set_code(15);
    job->mutable_error()->set_message("features.npy is damaged");
    return absl::OkStatus();
  });
  EXPECT_EQ(Run({"train", "--dataset", "cora", "--output", "json"}),
            kExitFailed);
  EXPECT_EQ(Json()["error"]["message"], "features.npy is damaged");
  EXPECT_EQ(err_.str(), "train-1 failed: DATA_LOSS: features.npy is damaged\n");
}

TEST_F(CliTest, ARefusedSubmissionSaysWhy) {
  daemon_.OnSubmit([](v1::Job*) {
    return absl::NotFoundError("no dataset \"kora\\n\"; there is cora");
  });
  EXPECT_EQ(Run({"train", "--dataset", "kora"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("there is cora"));
  daemon_.OnSubmit(
      [](v1::Job*) { return absl::InvalidArgumentError("too many epochs"); });
  EXPECT_EQ(Run({"train", "--dataset", "cora"}), kExitUsage);
}

TEST_F(CliTest, NoDaemonSaysHowToStartOne) {
  daemon_.Stop();
  EXPECT_EQ(Run({"train", "--dataset", "cora"}), kExitUnreachable);
  EXPECT_THAT(err_.str(), HasSubstr("hearthd --data-dir"));
  EXPECT_THAT(err_.str(), HasSubstr("quickstart.sh --keep"));
}

TEST_F(CliTest, MistakesOfUsageAreExitCode2) {
  EXPECT_EQ(Run({}), kExitUsage);
  EXPECT_EQ(Run({"trian"}), kExitUsage);
  EXPECT_THAT(err_.str(),
              HasSubstr("unknown command trian; did you mean train?"));
  EXPECT_EQ(Run({"dataset", "lsit"}), kExitUsage);
  EXPECT_THAT(err_.str(),
              HasSubstr("unknown command lsit; did you mean list?"));
  EXPECT_EQ(Run({"train"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("--dataset is required"));
  EXPECT_EQ(Run({"train", "--dataset", "x", "--epoch", "3"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("hearth: unknown option --epoch; did you "
                                    "mean --epochs?\n"));
  EXPECT_EQ(Run({"train", "up1", "--dataset", "x"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("hearth: unexpected argument \"up1\"\n"));
  EXPECT_EQ(Run({"train", "--dataset", "x", "--model", "mlp"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("sage, gcn, gat, gatv2, gin, none"));
  EXPECT_EQ(Run({"status", "--output", "xml"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("\"xml\" is not one of table, json\n"));
  EXPECT_EQ(Run({"job", "list", "--state", "runing"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("did you mean running?"));
  EXPECT_EQ(Run({"dataset", "import", "x", "--source", "d", "--format", "csv"}),
            kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("\"csv\" is not one of auto, diskgnn, "));
  EXPECT_TRUE(daemon_.submissions().empty());
}

TEST_F(CliTest, HelpAndVersionNeedNoDaemon) {
  daemon_.Stop();
  EXPECT_EQ(Run({"--version"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("hearth 0."));
  EXPECT_EQ(Run({"train", "--help"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("--checkpoint-every"));
}

TEST_F(CliTest, FlagsWinOverTheJobFile) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/j.yaml";
  std::ofstream(path) << "dataset: cora\nepochs: 9\nlr: 0.5\n"
                         "data-seed: 3\nmodel-seed: 4\n";
  EXPECT_EQ(Run({"train", "-f", path, "--epochs", "2"}), kExitDone);
  EXPECT_EQ(Submitted().train().data().epochs(), 2);
  EXPECT_EQ(Submitted().train().data().data_seed(), 3);
  EXPECT_EQ(Submitted().train().trains(0).adam().learning_rate(), 0.5);
  EXPECT_EQ(Run({"train", "-f", path, "--seed", "8", "--model-seed", "5"}),
            kExitDone);
  EXPECT_EQ(Submitted().train().data().data_seed(), 8);
  EXPECT_EQ(Submitted().train().trains(0).model_seed(), 5);
}

TEST_F(CliTest, JobFileMistakesNameTheLine) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/b.yaml";
  std::ofstream(path) << "dataset: cora\nepochs: many\n";
  EXPECT_EQ(Run({"train", "-f", path}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("b.yaml line 2: epochs"));
}

TEST_F(CliTest, ImportMakesTheSourceAbsolute) {
  EXPECT_EQ(Run({"dataset", "import", "cora", "--format", "numpy", "--source",
                 "../you/cora", "--in-place"}),
            kExitDone);
  EXPECT_EQ(Submitted().import().name(), "cora");
  EXPECT_EQ(Submitted().import().path(), "/home/you/cora");
  EXPECT_TRUE(Submitted().import().in_place());
  EXPECT_EQ(Submitted().import().labels(), v1::LABEL_KIND_UNSPECIFIED);
}

TEST_F(CliTest, CopyNamesTheMemberThatHasTheDataset) {
  EXPECT_EQ(Run({"dataset", "copy", "cora", "--from", "host-b"}), kExitDone);
  EXPECT_EQ(Submitted().import().name(), "cora");
  EXPECT_EQ(Submitted().import().from_member(), "host-b");
  EXPECT_TRUE(Submitted().import().path().empty());
  EXPECT_TRUE(Submitted().import().share().empty());
  EXPECT_EQ(Run({"dataset", "copy", "cora"}), kExitUsage);
}

TEST_F(CliTest, CopyKeepsAShare) {
  const auto copy = [&](const std::string& flag, const std::string& value) {
    return Run({"dataset", "copy", "cora", "--from", "host-b", flag, value});
  };
  EXPECT_EQ(copy("--placement", "sharded"), kExitDone);
  EXPECT_EQ(Submitted().import().share(), "own");
  EXPECT_EQ(copy("--placement", "whole"), kExitDone);
  EXPECT_EQ(Submitted().import().share(), "");
  EXPECT_EQ(copy("--share", "2/4"), kExitDone);
  EXPECT_EQ(Submitted().import().share(), "2/4");
  EXPECT_EQ(copy("--placement", "other"), kExitUsage);
}

TEST_F(CliTest, ImportTakesTheKindOfLabels) {
  EXPECT_EQ(Run({"dataset", "import", "x", "--source", "d", "--labels",
                 "multi-label"}),
            kExitDone);
  EXPECT_EQ(Submitted().import().labels(), v1::MULTI_LABEL);
  EXPECT_EQ(
      Run({"dataset", "import", "x", "--source", "d", "--labels", "ranks"}),
      kExitUsage);
}

TEST_F(CliTest, ImportTakesEveryOption) {
  EXPECT_EQ(Run({"dataset",
                 "import",
                 "x",
                 "--source",
                 "/d",
                 "--format",
                 "igb",
                 "--memory-limit",
                 "4GiB",
                 "--non-finite",
                 "zero",
                 "--fill-features",
                 "mean",
                 "--bfloat16",
                 "--undirected",
                 "--dedup",
                 "--self-loops",
                 "remove",
                 "--relabel",
                 "--split",
                 "time",
                 "--igb-classes",
                 "2983",
                 "--split-seed",
                 "0"}),
            kExitDone);
  const v1::ImportSpec import = Submitted().import();
  EXPECT_EQ(import.format(), v1::IGB);
  EXPECT_EQ(import.memory_limit_bytes(), uint64_t{4} << 30);
  EXPECT_EQ(import.non_finite(), v1::ZERO_NON_FINITE);
  EXPECT_EQ(import.fill_features(), v1::MEAN_OF_NEIGHBORS);
  EXPECT_TRUE(import.bfloat16_features());
  EXPECT_TRUE(import.edges().add_reverse());
  EXPECT_TRUE(import.edges().remove_duplicates());
  EXPECT_EQ(import.edges().self_loops(), v1::REMOVE_SELF_LOOPS);
  EXPECT_TRUE(import.edge_list().relabel());
  EXPECT_EQ(import.ogb().split(), "time");
  EXPECT_EQ(import.igb().num_classes(), 2983u);
  EXPECT_TRUE(import.igb().has_split_seed());
}

TEST_F(CliTest, PiecesAreMadeByAProgramOfTheirOwn) {
  const std::string folder =
      std::string(std::getenv("TEST_TMPDIR")) + "/programs";
  std::filesystem::create_directory(folder);
  const std::string path = std::getenv("PATH");
  setenv("PATH", folder.c_str(), 1);
  EXPECT_EQ(Run({"piece", "plan", "pieces", "edges.txt"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("hearth-piece is neither in"));
  const std::string program = folder + "/hearth-piece";
  std::ofstream(program) << "#!/bin/sh\nprintf '%s;' \"$@\" >" << folder
                         << "/arguments\nexit 7\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  // The command line becomes the program, with all that follows.
  EXPECT_EXIT(Run({"piece", "--of", "p.json", "--index", "3", "--help"}),
              testing::ExitedWithCode(7), "");
  std::ifstream arguments(folder + "/arguments");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(arguments), {}),
            "--of;p.json;--index;3;--help;");
  EXPECT_EXIT(Run({"piece", "plan", "a", "--header", "no", "b"}),
              testing::ExitedWithCode(7), "");
  std::ifstream others(folder + "/arguments");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(others), {}),
            "plan;a;--header;no;b;");
  setenv("PATH", path.c_str(), 1);
}

TEST_F(CliTest, GenerateTakesEveryOption) {
  EXPECT_EQ(Run({"dataset", "generate", "--to",    "out",        "--format",
                 "ogb",     "--graph",  "rmat",    "--rmat",     "0.5,0.2,0.2",
                 "--nodes", "1000",     "--edges", "9000000000", "--undirected",
                 "--dim",   "7",        "--dtype", "float16",    "--classes",
                 "3",       "--train",  "0.2",     "--valid",    "0.3",
                 "--test",  "0.4",      "--seed",  "9"}),
            kExitDone);
  const v1::GenerateSpec generate = Submitted().generate();
  EXPECT_EQ(generate.destination(), "/home/me/out");
  EXPECT_EQ(generate.format(), v1::OGB);
  EXPECT_EQ(generate.rmat().a(), 0.5);
  EXPECT_EQ(generate.rmat().c(), 0.2);
  EXPECT_EQ(generate.num_edges(), 9000000000u);
  EXPECT_TRUE(generate.undirected());
  EXPECT_EQ(generate.feature_dim(), 7u);
  EXPECT_EQ(generate.feature_dtype(), "float16");
  EXPECT_EQ(generate.num_classes(), 3u);
  EXPECT_EQ(generate.test_share(), 0.4);
  EXPECT_EQ(generate.seed(), 9u);
}

TEST_F(CliTest, GenerateMakesADatasetOrAFolder) {
  EXPECT_EQ(Run({"dataset", "generate", "g", "--nodes", "10", "--edges", "20"}),
            kExitDone);
  EXPECT_EQ(Submitted().generate().name(), "g");
  EXPECT_TRUE(Submitted().generate().has_communities());
  EXPECT_EQ(Submitted().generate().communities().num_communities(), 0u);
  EXPECT_EQ(Run({"dataset", "generate", "g", "--nodes", "10", "--edges", "20",
                 "--communities", "5", "--inside", "0.9"}),
            kExitDone);
  EXPECT_EQ(Submitted().generate().communities().num_communities(), 5u);
  EXPECT_EQ(Submitted().generate().communities().inside(), 0.9);
  EXPECT_EQ(Run({"dataset", "generate", "g", "--nodes", "10", "--edges", "20",
                 "--communities", "5", "--graph", "rmat"}),
            kExitUsage);
  EXPECT_EQ(Run({"dataset", "generate", "g", "--to", "d", "--nodes", "10",
                 "--edges", "20"}),
            kExitUsage);
  EXPECT_EQ(Run({"dataset", "generate", "g", "--format", "ogb", "--nodes", "10",
                 "--edges", "20"}),
            kExitUsage);
}

TEST_F(CliTest, VerifyAndExportOfDatasetsAreJobs) {
  EXPECT_EQ(Run({"dataset", "verify", "cora"}), kExitDone);
  EXPECT_EQ(Submitted().verify().dataset(), "cora");
  EXPECT_EQ(Run({"dataset", "export", "cora", "--to", "out", "--format",
                 "graphbolt"}),
            kExitDone);
  EXPECT_EQ(Submitted().export_dataset().dataset(), "cora");
  EXPECT_EQ(Submitted().export_dataset().destination(), "/home/me/out");
  EXPECT_EQ(Submitted().export_dataset().format(), v1::GRAPHBOLT);
}

TEST_F(CliTest, ExportMakesTheDestinationAbsolute) {
  EXPECT_EQ(Run({"export", "train-3", "--to", "models/a"}), kExitDone);
  EXPECT_EQ(Submitted().export_().job_id(), "train-3");
  EXPECT_EQ(Submitted().export_().destination(), "/home/me/models/a");
}

// A dataset may have the name of a command.
TEST_F(CliTest, DatasetsMayBeCalledLikeCommands) {
  for (const char* name : {"train", "status", "list", "show"}) {
    v1::Dataset dataset;
    dataset.set_name(name);
    daemon_.AddDataset(dataset);
    EXPECT_EQ(Run({"dataset", "show", name, "--output", "json"}), kExitDone);
    EXPECT_EQ(Json()["name"], name);
  }
  EXPECT_EQ(Run({"dataset", "list", "--output", "json"}), kExitDone);
  EXPECT_EQ(Json()["datasets"].size(), 4);
  EXPECT_EQ(Run({"dataset", "delete", "list"}), kExitDone);
  EXPECT_EQ(Run({"dataset", "delete", "list"}), kExitFailed);
}

TEST_F(CliTest, UploadsAreListedAndDeleted) {
  v1::Upload upload;
  upload.set_id("upload-1");
  upload.set_name("graph");
  upload.set_owner("token:ann");
  upload.set_num_files(3);
  upload.set_received_bytes(1 << 20);
  upload.set_size_bytes(3 << 20);
  upload.mutable_expire_time()->set_seconds(1700000000);
  daemon_.AddUpload(upload);
  upload.set_id("upload-2");
  upload.set_job_id("import-7");
  upload.clear_expire_time();
  daemon_.AddUpload(upload);
  EXPECT_EQ(Run({"dataset", "uploads", "list"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("upload-1  graph    token:ann"));
  EXPECT_THAT(out_.str(), HasSubstr("1.0 MiB  3.0 MiB  2023-11-1"));
  EXPECT_THAT(out_.str(), HasSubstr("end of import-7"));
  EXPECT_EQ(Run({"dataset", "uploads", "list", "--output", "json"}), kExitDone);
  ASSERT_EQ(Json()["uploads"].size(), 2);
  EXPECT_EQ(Json()["uploads"][0]["received_bytes"], 1 << 20);
  EXPECT_TRUE(Json()["uploads"][1]["expire_time"].is_null());
  EXPECT_EQ(Run({"dataset", "uploads", "delete", "upload-1"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("deleted upload-1"));
  EXPECT_EQ(Run({"dataset", "uploads", "delete", "upload-1"}), kExitFailed);
}

TEST_F(CliTest, PlansAreListedShownAndDeleted) {
  v1::Plan plan;
  plan.set_name("diskgnn-ab-12");
  plan.add_datasets("graph");
  plan.set_state(v1::Plan::WHOLE);
  plan.set_in_use(true);
  plan.set_size_bytes(3 << 20);
  plan.mutable_use_time()->set_seconds(1700000000);
  v1::PlanProperty& property = *plan.add_properties();
  property.set_name("batches");
  property.set_value("12");
  daemon_.AddPlan(plan);
  plan.set_name("diskgnn-cd-34");
  daemon_.AddPlan(plan);
  EXPECT_EQ(Run({"plan", "list"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("diskgnn-ab-12  graph"));
  EXPECT_THAT(out_.str(), HasSubstr("whole, in use"));
  EXPECT_THAT(out_.str(), HasSubstr("in all 6.0 MiB"));
  EXPECT_EQ(Run({"plan", "show", "diskgnn-ab-12"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("batches"));
  EXPECT_EQ(Run({"plan", "list", "--output", "json"}), kExitDone);
  EXPECT_EQ(Json()["plans"].size(), 2);
  EXPECT_EQ(Run({"plan", "show", "diskgnn-ab-12", "--output", "json"}),
            kExitDone);
  EXPECT_EQ(Json()["state"], "WHOLE");
  EXPECT_EQ(Run({"plan", "delete", "diskgnn-ab-12"}), kExitDone);
  EXPECT_EQ(Run({"plan", "show", "diskgnn-ab-12"}), kExitFailed);
}

TEST_F(CliTest, PrepareAndExplainTakeTheOptionsOfTraining) {
  const std::vector<std::string> options = {
      "--dataset", "graph", "--strategy", "diskgnn", "--refresh", "4"};
  std::vector<std::string> prepare = options;
  prepare.insert(prepare.begin(), "prepare");
  EXPECT_EQ(Run(prepare), kExitDone);
  v1::JobSpec spec = daemon_.submissions().back().spec();
  EXPECT_EQ(spec.prepare().data().dataset(), "graph");
  EXPECT_EQ(spec.prepare().data().refresh_epochs(), 4);
  EXPECT_FALSE(spec.prepare().training_only());
  prepare.insert(prepare.end(), {"--model", "none"});
  EXPECT_EQ(Run(prepare), kExitDone);
  EXPECT_TRUE(daemon_.submissions().back().spec().prepare().training_only());
  prepare.insert(prepare.end(), {"--model", "gin", "--hidden", "24"});
  EXPECT_EQ(Run(prepare), kExitDone);
  EXPECT_EQ(daemon_.submissions().back().spec().prepare().hidden(), 24u);
  std::vector<std::string> explain = options;
  explain.insert(explain.begin(), "explain");
  explain.insert(explain.end(), {"--model", "gcn"});
  EXPECT_EQ(Run(explain), kExitDone);
  spec = daemon_.submissions().back().spec();
  EXPECT_TRUE(spec.explain().train().trains(0).has_gcn());
}

TEST_F(CliTest, PreparingThePartitionAloneImpliesItsOrder) {
  EXPECT_EQ(
      Run({"prepare", "--dataset", "graph", "--partition", "--parts", "9"}),
      kExitDone);
  const v1::PrepareSpec spec = daemon_.submissions().back().spec().prepare();
  EXPECT_TRUE(spec.partition_only());
  EXPECT_EQ(spec.data().partition().parts(), 9u);
  EXPECT_EQ(Run({"train", "--dataset", "graph", "--partition"}), kExitUsage);
}

TEST_F(CliTest, APlanIsPreparedFromPieces) {
  EXPECT_EQ(Run({"prepare", "--dataset", "graph", "--strategy", "diskgnn",
                 "--pieces", "/shared/p", "--num-pieces", "9"}),
            kExitDone);
  const v1::PrepareSpec spec = daemon_.submissions().back().spec().prepare();
  EXPECT_EQ(spec.pieces(), "/shared/p");
  EXPECT_EQ(spec.num_pieces(), 9u);
  EXPECT_EQ(Run({"prepare", "--dataset", "graph", "--num-pieces", "9"}),
            kExitUsage);
}

TEST_F(CliTest, JobListFiltersByState) {
  AddJob("a", v1::FAILED, {});
  AddJob("b", v1::SUCCEEDED, {});
  AddJob("c", v1::RUNNING, {});
  EXPECT_EQ(
      Run({"job", "list", "--state", "failed,Running", "--output", "json"}),
      kExitDone);
  ASSERT_EQ(Json()["jobs"].size(), 2);
  EXPECT_EQ(Json()["jobs"][1]["id"], "c");
  EXPECT_EQ(Run({"job", "list"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("succeeded"));
  EXPECT_EQ(Run({"job", "list", "--state", "lost"}), kExitUsage);
}

TEST_F(CliTest, JobLogsStopAtTheNewestEvent) {
  AddJob("a", v1::RUNNING,
         {client::StateEvent(v1::RUNNING), client::LogEvent("one\x1b"),
          client::LogEvent("two")});
  EXPECT_EQ(Run({"job", "logs", "a"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("info: running\n"));
  EXPECT_THAT(out_.str(), HasSubstr("info: one\\x1b\n"));
  EXPECT_EQ(Run({"job", "logs", "a", "--output", "json"}), kExitDone);
  EXPECT_EQ(Json()["lines"].size(), 3);
  EXPECT_EQ(Json()["lines"][2]["text"], "two");
}

TEST_F(CliTest, JobLogsTellWhyAJobFailed) {
  v1::JobEvent failed = client::StateEvent(v1::FAILED);
  failed.mutable_state()->mutable_error()->set_code(15);
  failed.mutable_state()->mutable_error()->set_message("bad\nblock");
  v1::JobEvent epoch;
  epoch.mutable_epoch()->set_epoch(1);
  v1::JobEvent progress;
  progress.mutable_progress();
  AddJob("a", v1::FAILED, {epoch, progress, failed});
  EXPECT_EQ(Run({"job", "logs", "a"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("info: epoch 1: loss"));
  EXPECT_THAT(out_.str(), HasSubstr("error: failed: DATA_LOSS: bad\\nblock\n"));
  EXPECT_EQ(Run({"job", "logs", "a", "--output", "json"}), kExitDone);
  EXPECT_EQ(Json()["lines"].size(), 2);
}

TEST_F(CliTest, JobCancelAndDelete) {
  AddJob("a", v1::RUNNING, {});
  EXPECT_EQ(Run({"job", "cancel", "a"}), kExitDone);
  EXPECT_THAT(daemon_.cancelled(), ElementsAre("a"));
  EXPECT_EQ(Run({"job", "delete", "a", "--output", "json"}), kExitDone);
  EXPECT_EQ(Json()["deleted"], "a");
  EXPECT_EQ(Run({"job", "show", "a"}), kExitFailed);
}

TEST_F(CliTest, JobResumeWithAnotherBudget) {
  v1::Job job;
  job.set_id("a");
  job.set_state(v1::FAILED);
  v1::DataSpec& data = *job.mutable_spec()->mutable_train()->mutable_data();
  data.set_epochs(7);
  data.mutable_gnndrive();
  daemon_.AddJob(job, {});
  EXPECT_EQ(Run({"job", "resume", "a", "--cpu-cache", "1MiB", "--detach"}),
            kExitDone);
  EXPECT_EQ(out_.str(), "a\n");
  ASSERT_EQ(daemon_.resumptions().size(), 1u);
  const v1::ResumeJobRequest request = daemon_.resumptions()[0];
  EXPECT_EQ(request.id(), "a");
  EXPECT_NE(request.request_id(), "");
  EXPECT_EQ(request.spec().train().data().epochs(), 7u);
  EXPECT_EQ(request.spec().train().data().budgets().cpu_cache_bytes(),
            uint64_t{1} << 20);
  // `resume` has no options that change results.
  EXPECT_EQ(Run({"job", "resume", "a", "--epochs", "8"}), kExitUsage);
  EXPECT_EQ(Run({"job", "resume", "a", "--superbatch", "8"}), kExitUsage);
  EXPECT_EQ(daemon_.resumptions().size(), 1u);
}

TEST_F(CliTest, WatchOfACancelledJobIsExitCode1) {
  AddJob("a", v1::CANCELLED, {client::StateEvent(v1::CANCELLED)});
  EXPECT_EQ(Run({"job", "watch", "a"}), kExitFailed);
  EXPECT_THAT(err_.str(), HasSubstr("a is cancelled"));
}

TEST_F(CliTest, CtrlCLeavesTheJobRunning) {
  AddJob("a", v1::RUNNING, {client::StateEvent(v1::RUNNING)});
  std::stop_source ctrl_c;
  environment_.catch_interrupts = [&] { return ctrl_c.get_token(); };
  daemon_.OnWaitingWatch([&](const std::string&) { ctrl_c.request_stop(); });
  EXPECT_EQ(Run({"job", "watch", "a"}), kExitInterrupted);
  EXPECT_THAT(err_.str(), HasSubstr("a goes on"));
  EXPECT_THAT(err_.str(), HasSubstr("job watch a\n"));
  EXPECT_TRUE(daemon_.cancelled().empty());
}

TEST_F(CliTest, ATerminalSeesALiveLine) {
  environment_.err_is_terminal = true;
  EXPECT_EQ(Run({"train", "--dataset", "cora", "--output", "json"}), kExitDone);
  EXPECT_THAT(err_.str(), HasSubstr("\r\x1b[Krunning"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace hearth::cli
