#include "server/mapping/spec_mapping.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/store/row_codec.h"
#include "engine/train/metric.h"
#include "engine/train/model_options.h"
#include "server/mapping/dataset_spec_mapping.h"
#include "server/mapping/request_checks.h"
#include "server/mapping/training_mapping.h"

namespace hearth::server {

namespace {

constexpr int32_t kMostNeighbors = 1 << 20;

absl::StatusOr<job::EdgeTypeFanouts> ParseEntry(absl::string_view entry) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(entry, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be like paper:cites:paper=15,10, not \"", entry, "\""));
  }
  job::EdgeTypeFanouts of_type = {.edge_type = std::string(parts.first),
                                  .fanouts = {}};
  for (const absl::string_view number : absl::StrSplit(parts.second, ',')) {
    int32_t fanout = 0;
    if (!absl::SimpleAtoi(number, &fanout) || fanout < -1 ||
        fanout > kMostNeighbors) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", number, "\" of ", of_type.edge_type,
                       " must be within -1 .. ", kMostNeighbors));
    }
    of_type.fanouts.push_back(fanout);
  }
  return of_type;
}

}  // namespace

absl::StatusOr<std::vector<job::EdgeTypeFanouts>> ParseFanoutsOf(
    absl::string_view text) {
  std::vector<job::EdgeTypeFanouts> all;
  if (text.empty()) return all;
  for (const absl::string_view entry : absl::StrSplit(text, ';')) {
    HEARTH_ASSIGN_OR_RETURN(job::EdgeTypeFanouts of_type, ParseEntry(entry));
    const bool again =
        std::any_of(all.begin(), all.end(), [&](const auto& other) {
          return other.edge_type == of_type.edge_type;
        });
    if (again) {
      return absl::InvalidArgumentError(
          absl::StrCat("names ", of_type.edge_type, " twice"));
    }
    all.push_back(std::move(of_type));
  }
  return all;
}

namespace {

// Values of DataSpec.topology.
constexpr char kMemory[] = "memory";
constexpr char kMapped[] = "mapped";
constexpr char kSlabs[] = "slabs";

// Default numbers of threads: samplers and extractors one per four processors,
// the model's threads one per two, each at most 16.
constexpr uint32_t kProcessorsPerThread = 4;
constexpr uint32_t kProcessorsPerTrainThread = 2;
constexpr uint32_t kMostThreads = 16;

// Distinct epochs of a feed that does not say how many it has.
constexpr uint32_t kEpochsOfFeed = 100'000;

// Shards of a batch over all machines.
constexpr uint32_t kMostShards = 256;

// Nodes of a feed's own; no graph has more.
constexpr uint64_t kMostNodes = uint64_t{1} << 40;

train::OptimizerOptions ToOptimizerOptions(const v1::TrainSpec& train) {
  switch (train.optimizer_case()) {
    case v1::TrainSpec::kAdamw:
      return train::AdamWOptions{.learning_rate = train.adamw().learning_rate(),
                                 .weight_decay = train.adamw().weight_decay()};
    case v1::TrainSpec::kSgd:
      return train::SgdOptions{.learning_rate = train.sgd().learning_rate(),
                               .momentum = train.sgd().momentum(),
                               .weight_decay = train.sgd().weight_decay()};
    case v1::TrainSpec::kAdam:
    case v1::TrainSpec::OPTIMIZER_NOT_SET:
      break;
  }
  return train::AdamOptions{.learning_rate = train.adam().learning_rate(),
                            .weight_decay = train.adam().weight_decay()};
}

// Checks one job spec, filling in defaults. FillAndCheckOptions checks the
// fields' descriptions; this class checks rules for several fields, or about
// the machine.
class SpecChecker {
 public:
  explicit SpecChecker(const SpecLimits& limits) : limits_(limits) {}

  absl::Status Check(v1::JobSpec& spec) {
    switch (spec.kind_case()) {
      case v1::JobSpec::kImport:
        CheckImport(*spec.mutable_import(), violations_);
        break;
      case v1::JobSpec::kTrain:
        CheckTrainJob("train", *spec.mutable_train());
        break;
      case v1::JobSpec::kExport:
        CheckExport(spec.export_());
        break;
      case v1::JobSpec::kVerify:
        CheckVerify(spec.verify(), violations_);
        break;
      case v1::JobSpec::kGenerate:
        CheckGenerate(*spec.mutable_generate(), violations_);
        break;
      case v1::JobSpec::kExportDataset:
        CheckExportDataset(spec.export_dataset(), violations_);
        break;
      case v1::JobSpec::kPrepare:
        CheckPrepare(*spec.mutable_prepare());
        break;
      case v1::JobSpec::kExplain:
        CheckTrainJob("explain.train",
                      *spec.mutable_explain()->mutable_train());
        break;
      case v1::JobSpec::kEvaluate:
        CheckModelOf("evaluate.job_id", spec.evaluate().job_id());
        if (spec.evaluate().has_train()) {
          CheckTrainJob("evaluate.train",
                        *spec.mutable_evaluate()->mutable_train());
        }
        break;
      case v1::JobSpec::kFeed:
        CheckFeed(*spec.mutable_feed());
        break;
      case v1::JobSpec::kRank:
        CheckRank(*spec.mutable_rank());
        break;
      case v1::JobSpec::KIND_NOT_SET:
        violations_.Add("spec.kind",
                        "must be one of import, train, export, verify, "
                        "generate, export_dataset, prepare, explain, "
                        "evaluate, feed");
    }
    // Requests for missing features are distinguished from wrong ones.
    if (!unimplemented_.empty()) {
      return unimplemented_.ToStatus(absl::StatusCode::kUnimplemented);
    }
    return !violations_.empty()
               ? violations_.ToStatus()
               : absent_.ToStatus(absl::StatusCode::kFailedPrecondition);
  }

 private:
  void CheckModelOf(const std::string& path, const std::string& job_id) {
    if (job_id.empty()) violations_.Add(path, "must be the id of a train job");
  }

  void CheckExport(const v1::ExportSpec& spec) {
    CheckModelOf("export.job_id", spec.job_id());
    CheckPath("export.destination", spec.destination(), violations_);
  }

  // LADIES draws a layer's nodes for all seeds of a batch together.
  void CheckLadies(const std::string& path, const v1::DataSpec& data) {
    if (data.has_on()) {
      violations_.Add(path + ".history",
                      "must be off: sampler ladies samples no layer before "
                      "others are decided about");
    }
    if (data.trainers() > 1) {
      violations_.Add(
          path + ".trainers",
          absl::StrCat("must be 1: sampler ladies draws for a batch as a "
                       "whole, not for shards of it, not ",
                       data.trainers()));
    }
  }

  // In a subgraph, layers are parts of one another.
  void CheckSubgraph(const std::string& path, const v1::DataSpec& data) {
    if (data.has_on()) {
      violations_.Add(path + ".history",
                      "must be off: sampler subgraph draws a batch as one "
                      "graph, of which a history would leave out nodes");
    }
  }

  // Fills in and checks the pipeline's options. Threads of the pipeline that
  // are not given get the processors that training leaves.
  template <typename Spec>
  void FillAndCheckAll(const std::string& path, Spec& spec) {
    const v1::PipelineSpec given = spec.pipeline();
    FillAndCheckOptions(path, spec, violations_);
    const uint32_t wide = std::min(
        limits_.usable_processors / kProcessorsPerThread, kMostThreads);
    v1::PipelineSpec& pipeline = *spec.mutable_pipeline();
    if (given.samplers() == 0) {
      pipeline.set_samplers(std::max(pipeline.samplers(), wide));
    }
    // 0: the strategy has no extractors.
    if (given.extractors() == 0 && pipeline.extractors() > 0) {
      pipeline.set_extractors(std::max(pipeline.extractors(), wide));
    }
  }

  void CheckPrepare(v1::PrepareSpec& spec) {
    FillAndCheckAll("prepare", spec);
    CheckData("prepare.data", *spec.mutable_data());
    if (!spec.pipeline().sample_on().empty()) {
      violations_.Add("prepare.pipeline.sample_on",
                      "must be host: a prepare job trains on no GPU, which "
                      "could sample");
    }
    const bool has_partition = OrdersByParts(spec.data());
    if (spec.partition_only() && !has_partition) {
      violations_.Add("prepare.data.order",
                      "must be partition for a partition to be made");
    }
    if (!spec.pieces().empty()) CheckPieces(spec);
    if (!has_partition && spec.data().row_dtype().empty() &&
        !MakesPlans(spec.data())) {
      violations_.Add(
          "prepare.data.strategy",
          "must be diskgnn, gids or foresight: without a partition "
          "order or a row_dtype, the others have nothing to prepare");
    }
  }

  void CheckPieces(const v1::PrepareSpec& spec) {
    CheckPath("prepare.pieces", spec.pieces(), violations_);
    if (!spec.data().has_diskgnn()) {
      violations_.Add("prepare.data.strategy",
                      "must be diskgnn, whose plans alone are made in pieces");
    }
    if (spec.partition_only() || spec.data().has_on() ||
        !spec.data().row_dtype().empty()) {
      violations_.Add("prepare.pieces",
                      "must be empty with a history or a row_dtype, and for a "
                      "partition alone");
    }
  }

  void CheckFeed(v1::FeedSpec& spec) {
    const bool are_given = spec.data().distinct_epochs() > 0;
    FillAndCheckAll("feed", spec);
    v1::DataSpec& data = *spec.mutable_data();
    if (!are_given) data.set_distinct_epochs(kEpochsOfFeed);
    // Its client decides how many there are.
    data.set_epochs(data.distinct_epochs());
    CheckData("feed.data", data);
    if (!are_given && strategy::KindOf(ToStrategyOptions(data, {})).prepares) {
      violations_.Add("feed.data.distinct_epochs",
                      absl::StrCat("must be given with strategy ",
                                   strategy::Name(ToStrategyOptions(data, {})),
                                   ", which prepares that many epochs"));
    }
    if (data.refresh_epochs() > 0) {
      violations_.Add(
          "feed.data.refresh_epochs",
          absl::StrCat("must be 0 for a feed, not ", data.refresh_epochs()));
    }
    if (data.has_on()) {
      violations_.Add("feed.data.history",
                      "must be off for a feed, whose model is not here");
    }
    if (data.has_locality()) {
      violations_.Add("feed.data.order",
                      "must be shuffled or partition for a feed, whose model "
                      "is not validated here");
    }
    if (!spec.pipeline().sample_on().empty()) {
      violations_.Add("feed.pipeline.sample_on",
                      "must be host for a feed, which trains on no GPU");
    }
    if (spec.rank() >= spec.ranks()) {
      violations_.Add("feed.rank",
                      absl::StrCat("must be less than ranks (", spec.ranks(),
                                   "), not ", spec.rank()));
    }
    if (spec.ranks() > 1) CheckShards("feed.ranks", spec.ranks(), data);
    CheckNodes(spec);
  }

  void CheckNodes(const v1::FeedSpec& spec) {
    std::set<std::string> splits;
    for (int i = 0; i < spec.nodes_size(); ++i) {
      const v1::FeedNodes& nodes = spec.nodes(i);
      const std::string path = absl::StrCat("feed.nodes[", i, "]");
      if (nodes.split() != "train" && nodes.split() != "valid" &&
          nodes.split() != "test") {
        violations_.Add(path + ".split",
                        absl::StrCat("must be train, valid or test, not \"",
                                     nodes.split(), "\""));
      } else if (!splits.insert(nodes.split()).second) {
        violations_.Add(path + ".split",
                        absl::StrCat("must be another than ", nodes.split(),
                                     ", which has nodes already"));
      }
      if (nodes.count() == 0 || nodes.count() > kMostNodes) {
        violations_.Add(path + ".count",
                        absl::StrCat("must be from 1 to ", kMostNodes, ", not ",
                                     nodes.count()));
      }
      if (!Sha256::IsHexDigest(nodes.sha256())) {
        violations_.Add(path + ".sha256",
                        "must be 64 hexadecimal digits, in small letters");
      }
    }
  }

  void CheckTrainJob(const std::string& path, v1::TrainJobSpec& spec) {
    const bool threads_chosen =
        spec.trains_size() > 0 && spec.trains(0).train_threads() > 0;
    FillAndCheckAll(path, spec);
    CheckData(path + ".data", *spec.mutable_data());
    if (spec.trains_size() > 1) {
      unimplemented_.Add(path + ".trains",
                         "one model per job, for now; submit a job for each");
    } else if (spec.trains().empty()) {
      violations_.Add(path + ".trains", "must hold the model to train");
    } else {
      if (!threads_chosen) {
        FillTrainThreads(spec.data().trainers(), *spec.mutable_trains(0));
      }
      CheckTrain(path + ".trains[0]", spec.data().epochs(),
                 *spec.mutable_trains(0));
      if (const train::ModelOptions model = ToModelOptions(spec.trains(0));
          spec.data().has_ladies() && !train::TakesEdgeWeights(model)) {
        violations_.Add(
            path + ".trains[0].model",
            absl::StrCat("must be sage or gcn with sampler ladies, whose edges "
                         "have weights, not ",
                         train::Name(model)));
      }
      CheckDevice(path, spec);
      CheckSampleOn(path, spec);
      CheckMachines(path, spec);
      if (spec.trains(0).has_none() && spec.data().on().compare_epochs() > 0) {
        violations_.Add(path + ".data.on.compare_epochs",
                        "must be 0 for model none, which is not validated");
      }
      if (spec.trains(0).has_none() && spec.data().has_locality()) {
        violations_.Add(path + ".data.order",
                        "must be shuffled or partition for model none, which "
                        "is not validated");
      }
    }
  }

  void CheckDevice(const std::string& path, const v1::TrainJobSpec& spec) {
    const v1::TrainSpec& train = spec.trains(0);
    const std::string field = path + ".trains[0].device";
    const auto gpu = train::GpuNamed(train.device());
    if (!gpu.ok()) {
      violations_.Add(field, std::string(gpu.status().message()));
      return;
    }
    if (!gpu->has_value()) return;
    const std::string reason = " with device " + train.device();
    if (train.has_none()) {
      violations_.Add(field,
                      "must be cpu for model none, which trains nothing");
    }
    if (spec.data().trainers() > 1) {
      violations_.Add(
          path + ".data.trainers",
          absl::StrCat("must be 1", reason, ", not ", spec.data().trainers()));
    }
    if (spec.data().has_on()) {
      violations_.Add(path + ".data.history", "must be off" + reason);
    }
    if (train.precision() == "bf16") {
      violations_.Add(path + ".trains[0].precision",
                      absl::StrCat("must be fp32 or auto", reason));
    }
    if (!limits_.trains_on_gpus.ok()) {
      absent_.Add(field, absl::StrCat("must be cpu: this daemon trains on no "
                                      "GPU: ",
                                      limits_.trains_on_gpus.message()));
    } else if (**gpu >= limits_.gpus) {
      absent_.Add(field, absl::StrCat(
                             "must be one of cuda:0 to cuda:", limits_.gpus - 1,
                             ", not ", train.device()));
    }
  }

  // The leader has filled in its own processors.
  void CheckRank(v1::RankSpec& rank) {
    v1::TrainJobSpec& spec = *rank.mutable_train();
    if (spec.trains_size() == 1) {
      v1::TrainSpec& train = *spec.mutable_trains(0);
      train.set_train_threads(
          std::min(train.train_threads(), limits_.processors));
    }
    CheckTrainJob("rank.train", spec);
  }

  // `machines`, which `field` has, with the trainers of each share a batch.
  void CheckShards(const std::string& field, uint32_t machines,
                   const v1::DataSpec& data) {
    const uint64_t shards = uint64_t{machines} * data.trainers();
    if (shards <= kMostShards && shards <= data.batch_size()) return;
    violations_.Add(
        field, absl::StrCat("must be at most ",
                            std::min(kMostShards, data.batch_size()) /
                                std::max(data.trainers(), 1u),
                            " with ", data.trainers(),
                            " trainers each and batches of ", data.batch_size(),
                            ", not ", machines));
  }

  void CheckMachines(const std::string& path, const v1::TrainJobSpec& spec) {
    const std::string field = path + ".machines";
    if (spec.machines() <= 1) {
      if (!spec.members().empty()) {
        violations_.Add(path + ".members", "must be empty unless machines > 1");
      }
      if (spec.fetch_missing()) {
        violations_.Add(path + ".fetch_missing",
                        "must be off unless machines > 1");
      }
      return;
    }
    if (spec.min_machines() > spec.machines()) {
      violations_.Add(
          path + ".min_machines",
          absl::StrCat("must be at most machines (", spec.machines(), "), not ",
                       spec.min_machines()));
    }
    const v1::DataSpec& data = spec.data();
    CheckShards(field, spec.machines(), data);
    const std::string reason = " with several machines";
    if (spec.trains(0).has_none()) {
      violations_.Add(path + ".trains[0].model",
                      absl::StrCat("must not be none", reason));
    }
    if (data.has_on()) {
      violations_.Add(path + ".data.history",
                      absl::StrCat("must be off", reason));
    }
    if (data.has_locality()) {
      violations_.Add(path + ".data.order",
                      absl::StrCat("must be shuffled or partition", reason));
    }
    if (data.has_ladies()) {
      violations_.Add(path + ".data.sampler",
                      absl::StrCat("must be neighbor or subgraph", reason));
    }
    if (!data.has_auto_() && !strategy::IsExact(ToStrategyOptions(data, {}))) {
      violations_.Add(path + ".data.strategy",
                      absl::StrCat("must be exact, without reorder", reason));
    }
    const auto gpu = train::GpuNamed(spec.trains(0).device());
    if (gpu.ok() && gpu->has_value()) {
      violations_.Add(path + ".trains[0].device",
                      absl::StrCat("must be cpu", reason));
    }
    if (!limits_.has_cluster) {
      absent_.Add(field,
                  "must be 1: this daemon has no cluster (hearthd --cluster)");
    }
  }

  void CheckSampleOn(const std::string& path, const v1::TrainJobSpec& spec) {
    if (spec.pipeline().sample_on().empty()) return;
    const std::string field = path + ".pipeline.sample_on";
    const auto gpu = train::GpuNamed(spec.trains(0).device());
    if (gpu.ok() && !gpu->has_value()) {
      violations_.Add(field,
                      "must be host with device cpu: the GPU that trains "
                      "samples");
    }
    if (spec.data().topology() == kMapped || spec.data().topology() == kSlabs) {
      violations_.Add(path + ".data.topology",
                      "must be auto or memory where a GPU samples");
    }
    if (spec.data().has_ladies()) {
      violations_.Add(field,
                      "must be host with sampler ladies, which draws the nodes "
                      "of a layer together");
    }
    if (spec.data().has_subgraph()) {
      violations_.Add(field,
                      "must be host with sampler subgraph: a GPU draws anew in "
                      "each layer");
    }
  }

  void CheckData(const std::string& path, v1::DataSpec& data) {
    if (!data.dataset().empty() && !IsValidName(data.dataset())) {
      violations_.Add(path + ".dataset", "must name a dataset");
    }
    if (data.trainers() > data.batch_size()) {
      violations_.Add(
          path + ".trainers",
          absl::StrCat("must be at most batch_size (", data.batch_size(),
                       "), not ", data.trainers()));
    }
    const bool refreshed = data.refresh_epochs() > 0;
    if (data.distinct_epochs() == 0) {
      data.set_distinct_epochs(refreshed ? data.refresh_epochs()
                                         : data.epochs());
    }
    if (refreshed && data.distinct_epochs() > data.refresh_epochs()) {
      violations_.Add(path + ".distinct_epochs",
                      absl::StrCat("must be at most refresh_epochs (",
                                   data.refresh_epochs(), "), not ",
                                   data.distinct_epochs()));
    }
    CheckFirstEpochKey(path, data);
    CheckFanoutsOf(path + ".neighbor.fanouts_of", data.neighbor());
    CheckFanoutsOf(path + ".subgraph.fanouts_of", data.subgraph());
    if (data.has_outre() && !data.has_partition()) {
      violations_.Add(path + ".order", "must be partition for strategy outre");
    }
    if (data.has_locality() && data.has_on()) {
      violations_.Add(path + ".history",
                      "must be off with order locality: the embeddings that "
                      "are kept depend on the order, which may change");
    }
    if (data.ginex().neighbor_rank_cross() && !data.has_partition()) {
      violations_.Add(path + ".ginex.neighbor_rank_cross",
                      "must be ratio unless order is partition");
    }
    if (data.has_gids() && !IsHotNodes(data.gids().hot())) {
      violations_.Add(path + ".gids.hot",
                      absl::StrCat("must be reverse-pagerank, out-degree, "
                                   "frequency, random or an absolute path, "
                                   "not \"",
                                   data.gids().hot(), "\""));
    }
    if (data.topology() == kSlabs && !data.has_auto_() &&
        !strategy::KindOf(ToStrategyOptions(data, {})).samples_in_slabs) {
      violations_.Add(
          path + ".topology",
          absl::StrCat("must be auto, memory or mapped for strategy ",
                       strategy::Name(ToStrategyOptions(data, {})),
                       ", which does not sample beforehand"));
    }
    if (data.gids().striped() && limits_.data_disks == 0) {
      absent_.Add(path + ".gids.striped",
                  "must be false: this daemon has no --data-disk");
    }
    if (data.partition().bloom() && data.partition().rounds() > 1) {
      violations_.Add(path + ".partition.rounds",
                      absl::StrCat("must be 1 with Bloom filters, not ",
                                   data.partition().rounds()));
    }
    if (data.has_ladies()) {
      CheckLadies(path, data);
    } else if (data.has_subgraph()) {
      CheckSubgraph(path, data);
    } else if (data.has_on()) {
      CheckHistory(path, data);
    }
    if (data.budgets().gpu_cache_bytes() > 0 && limits_.gpus == 0) {
      violations_.Add(path + ".budgets.gpu_cache_bytes",
                      "must be 0: this daemon uses no GPU");
    }
    if (data.budgets().gpu_cache_bytes() > 0 &&
        data.gids().has_window_cache_bytes()) {
      violations_.Add(path + ".gids.window_cache_bytes",
                      "must be auto where gpu_cache_bytes says how large the "
                      "cache is");
    }
  }

  void CheckFirstEpochKey(const std::string& path, const v1::DataSpec& data) {
    const uint32_t key = data.first_epoch_key();
    if (key == 0) return;
    const std::string field = path + ".first_epoch_key";
    if (data.refresh_epochs() > 0 || data.has_on() || data.has_locality()) {
      violations_.Add(field,
                      "must be 0 with refresh_epochs, a history or order "
                      "locality");
    } else if (key >= data.distinct_epochs()) {
      violations_.Add(field,
                      absl::StrCat("must be less than distinct_epochs (",
                                   data.distinct_epochs(), "), not ", key));
    } else if (data.distinct_epochs() > data.epochs()) {
      violations_.Add(
          field, absl::StrCat("must be 0 where distinct_epochs (",
                              data.distinct_epochs(),
                              ") are more than epochs (", data.epochs(), ")"));
    }
  }

  // `sampler` has the field `path`.
  template <typename Sampler>
  void CheckFanoutsOf(const std::string& path, const Sampler& sampler) {
    const auto parsed = ParseFanoutsOf(sampler.fanouts_of());
    if (!parsed.ok()) {
      violations_.Add(path, std::string(parsed.status().message()));
      return;
    }
    for (const job::EdgeTypeFanouts& of_type : *parsed) {
      if (std::ssize(of_type.fanouts) == sampler.fanouts_size()) continue;
      violations_.Add(
          path,
          absl::StrCat(of_type.edge_type, " must have ", sampler.fanouts_size(),
                       " numbers, as fanouts, not ", of_type.fanouts.size()));
    }
  }

  void CheckHistory(const std::string& path, const v1::DataSpec& data) {
    const strategy::StrategyOptions strategy = ToStrategyOptions(data, {});
    if (!strategy::DeliversInOrder(strategy)) {
      violations_.Add(
          path + ".history",
          absl::StrCat("must be off: strategy ", strategy::Name(strategy),
                       " delivers batches out of order"));
    } else if (!strategy::KindOf(strategy).takes_history) {
      violations_.Add(path + ".history",
                      absl::StrCat("must be off: strategy ",
                                   strategy::Name(strategy), " takes none"));
    }
    if (data.on().has_share() &&
        !strategy::SharedCacheBytes(strategy).has_value()) {
      violations_.Add(
          path + ".on.share",
          absl::StrCat("must be auto: strategy ", StrategyName(data),
                       " has no cpu_cache to share"));
    } else if (data.on().has_share() && data.on().cache_bytes() > 0) {
      violations_.Add(path + ".on.share",
                      "must be auto where on.cache_bytes is given");
    }
    if (data.neighbor().fanouts_size() < 2) {
      violations_.Add(path + ".history",
                      "must be off: the model has a single layer, and no "
                      "embeddings below it");
    }
    if (data.on().compare_epochs() > data.epochs()) {
      violations_.Add(path + ".on.compare_epochs",
                      absl::StrCat("must be at most epochs (", data.epochs(),
                                   "), not ", data.on().compare_epochs()));
    }
  }

  // REQUIRES: `train` has the default of its description, the least.
  void FillTrainThreads(uint32_t trainers, v1::TrainSpec& train) {
    const uint32_t share = limits_.usable_processors /
                           kProcessorsPerTrainThread / std::max(1u, trainers);
    const uint32_t wide =
        std::max(train.train_threads(), std::min(share, kMostThreads));
    train.set_train_threads(std::min(wide, limits_.processors));
  }

  void CheckTrain(const std::string& path, uint32_t epochs,
                  v1::TrainSpec& train) {
    if (train.train_threads() > limits_.processors) {
      violations_.Add(path + ".train_threads",
                      absl::StrCat("must be at most ", limits_.processors,
                                   ", this machine's processors, not ",
                                   train.train_threads()));
    }
    if (train.warmup_epochs() >= epochs) {
      violations_.Add(path + ".warmup_epochs",
                      absl::StrCat("must be less than epochs (", epochs,
                                   "), not ", train.warmup_epochs()));
    }
    const double rate =
        std::visit([](const auto& options) { return options.learning_rate; },
                   ToOptimizerOptions(train));
    if (train.cosine().min_learning_rate() > rate) {
      violations_.Add(
          path + ".cosine.min_learning_rate",
          absl::StrCat("must be at most learning_rate (", rate, "), not ",
                       train.cosine().min_learning_rate()));
    }
    CheckModel(path, train, violations_);
  }

  const SpecLimits limits_;
  FieldViolations violations_;
  FieldViolations unimplemented_;
  // Devices that the machine lacks.
  FieldViolations absent_;
};

train::Schedule ToSchedule(const v1::TrainSpec& train) {
  switch (train.schedule_case()) {
    case v1::TrainSpec::kCosine:
      return train::CosineSchedule{.min_learning_rate =
                                       train.cosine().min_learning_rate()};
    case v1::TrainSpec::kStep:
      return train::StepSchedule{.epochs = train.step().step_epochs(),
                                 .gamma = train.step().gamma()};
    case v1::TrainSpec::kConstant:
    case v1::TrainSpec::SCHEDULE_NOT_SET:
      break;
  }
  return train::ConstantSchedule{};
}

// Fan-outs of a sampler in which each node draws its own neighbors.
template <typename Sampler>
void SetFanouts(const Sampler& sampler, job::BatchOptions& options) {
  options.fanouts.assign(sampler.fanouts().begin(), sampler.fanouts().end());
  // Checked when the job was submitted.
  options.fanouts_of = ParseFanoutsOf(sampler.fanouts_of())
                           .value_or(std::vector<job::EdgeTypeFanouts>());
}

job::BatchOptions ToBatchOptions(const v1::DataSpec& data,
                                 const v1::PipelineSpec& pipeline,
                                 const std::string& dataset_path) {
  job::BatchOptions options;
  options.dataset_path = dataset_path;
  SetFanouts(data.neighbor(), options);
  if (data.has_subgraph()) {
    SetFanouts(data.subgraph(), options);
    options.once = true;
  }
  if (data.has_ladies()) {
    options.layer_nodes.assign(data.ladies().layer_nodes().begin(),
                               data.ladies().layer_nodes().end());
    options.fanouts.assign(options.layer_nodes.size(), -1);
  }
  options.target = data.target();
  options.batch_size = data.batch_size();
  // Specs older than this field have 0.
  options.trainers = std::max<int64_t>(data.trainers(), 1);
  options.epochs = data.epochs();
  options.distinct_epochs = data.distinct_epochs();
  options.refresh_epochs = data.refresh_epochs();
  options.first_epoch_key = data.first_epoch_key();
  options.data_seed = data.data_seed();
  if (data.has_partition()) {
    options.partition_order = {
        .parts = data.partition().parts(),
        .macro_batch_parts = data.partition().macro_batch_parts(),
        .rounds = data.partition().rounds(),
        .bloom = data.partition().bloom()};
  }
  options.locality_order = data.has_locality();
  if (data.has_on()) {
    options.history = {.cache_bytes = data.on().cache_bytes(),
                       .staleness = data.on().staleness(),
                       .compare_epochs = data.on().compare_epochs(),
                       .stop_gradients = data.on().stop_gradients()};
    if (data.on().has_share()) options.history->share = data.on().share();
    if (data.on().has_sample_weight()) {
      options.history->sample_weight = data.on().sample_weight();
    }
  }
  options.strategy = ToStrategyOptions(data, pipeline);
  options.row_dtype = store::RowTypeNamed(data.row_dtype());
  options.automatic = ToAutomatic(data, pipeline);
  options.strict_budgets = data.strict_budgets();
  return options;
}

strategy::TopologyPlace ToTopologyPlace(absl::string_view word) {
  if (word == kMemory) return strategy::TopologyPlace::kMemory;
  if (word == kMapped) return strategy::TopologyPlace::kMapped;
  if (word == kSlabs) return strategy::TopologyPlace::kSlabs;
  return strategy::TopologyPlace::kAuto;
}

// The pipeline options of a spec of any kind.
template <typename Spec>
strategy::PipelineOptions ToPipelineOptions(const Spec& spec) {
  return {
      .samplers = static_cast<int>(spec.pipeline().samplers()),
      // Fields of other strategies are not set.
      .extractors = std::max(1, static_cast<int>(spec.pipeline().extractors())),
      .topology = ToTopologyPlace(spec.data().topology())};
}

}  // namespace

absl::Status FillAndValidate(const SpecLimits& limits, v1::JobSpec& spec) {
  return SpecChecker(limits).Check(spec);
}

job::PrepareJobOptions ToPrepareJobOptions(const v1::PrepareSpec& spec,
                                           const std::string& dataset_path) {
  return {.data = ToBatchOptions(spec.data(), spec.pipeline(), dataset_path),
          .pipeline = ToPipelineOptions(spec),
          .training_only = spec.training_only(),
          .partition_only = spec.partition_only(),
          .embedding_width = spec.training_only() ? 0 : spec.hidden(),
          .pieces_folder = spec.pieces(),
          .num_pieces = spec.num_pieces()};
}

job::TrainJobOptions ToTrainJobOptions(const v1::TrainJobSpec& spec,
                                       const std::string& dataset_path,
                                       const std::string& directory) {
  const v1::TrainSpec& train = spec.trains(0);
  job::TrainJobOptions options;
  options.data = ToBatchOptions(spec.data(), spec.pipeline(), dataset_path);
  options.train.model = ToModelOptions(train);
  options.train.optimizer = ToOptimizerOptions(train);
  options.train.schedule = ToSchedule(train);
  options.train.warmup_epochs = train.warmup_epochs();
  options.train.clip_norm = train.clip_norm();
  options.train.dropout = train.dropout();
  options.train.model_seed = train.model_seed();
  options.train.train_threads = static_cast<int>(train.train_threads());
  options.train.class_weights = {
      .balanced = train.balanced_classes(),
      .values = {train.class_weights().values().begin(),
                 train.class_weights().values().end()}};
  options.train.metric = train::MetricNamed(train.metric());
  options.train.precision = train::PrecisionNamed(train.precision())
                                .value_or(train::Precision::kFloat32);
  // Checked when the job was submitted.
  options.train.gpu = train::GpuNamed(train.device()).value_or(std::nullopt);
  options.pipeline = ToPipelineOptions(spec);
  if (!spec.pipeline().sample_on().empty()) {
    options.pipeline.sampling_gpu = options.train.gpu;
  }
  options.patience = train.patience();
  options.checkpoint_every = spec.checkpoint_every();
  options.sharing_key = SharingKeyOf(spec);
  options.join = spec.join();
  options.part =
      spec.skip_test() ? job::TrainPart::kTraining : job::TrainPart::kAll;
  options.directory = directory;
  return options;
}

job::OwnNodes ToOwnNodes(const v1::FeedSpec& spec,
                         const std::string& directory) {
  job::OwnNodes own;
  for (const v1::FeedNodes& nodes : spec.nodes()) {
    const job::NodesFile file = {
        .path = absl::StrCat(directory, "/nodes-", nodes.sha256(), ".npy"),
        .count = static_cast<int64_t>(nodes.count()),
        .sha256 = nodes.sha256()};
    if (nodes.split() == "train") own.train = file;
    if (nodes.split() == "valid") own.valid = file;
    if (nodes.split() == "test") own.test = file;
  }
  return own;
}

job::TrainJobOptions ToFeedJobOptions(const v1::FeedSpec& spec,
                                      const std::string& dataset_path,
                                      const std::string& directory,
                                      Channels channels) {
  job::TrainJobOptions options;
  options.data = ToBatchOptions(spec.data(), spec.pipeline(), dataset_path);
  options.data.own_nodes = ToOwnNodes(spec, directory);
  options.data.needs_labels = false;
  if (spec.ranks() > 1) {
    const int64_t each = options.data.trainers;
    options.data.window = {.first = spec.rank() * each,
                           .all = spec.ranks() * each};
  }
  options.train.model = train::NoModelOptions();
  options.pipeline = ToPipelineOptions(spec);
  options.sharing_key = SharingKeyOf(spec);
  options.join = spec.join();
  options.feed = {.channels = std::move(channels),
                  .credits = static_cast<int>(spec.credits())};
  options.directory = directory;
  return options;
}

std::string SharingKeyOf(const v1::FeedSpec& spec) {
  if (spec.ranks() > 1) return "";
  // Of a train job with a model and the same batches.
  v1::TrainJobSpec train;
  *train.mutable_data() = spec.data();
  *train.mutable_pipeline() = spec.pipeline();
  train.add_trains();
  std::string key = SharingKeyOf(train);
  const std::string own = ToOwnNodes(spec, "").Name();
  if (key.empty() || own.empty()) return key;
  Sha256 hash;
  hash.Update(absl::StrCat(key, ";", own));
  return hash.HexDigest();
}

std::string SharingKeyOf(const v1::TrainJobSpec& spec) {
  return spec.machines() > 1 ? "" : ConvoyKeyOf(spec);
}

std::string ConvoyKeyOf(const v1::TrainJobSpec& spec) {
  if (spec.trains().empty() ||
      !ToBatchOptions(spec.data(), spec.pipeline(), "").CanShare()) {
    return "";
  }
  // Everything that decides which batches are read, and how; of epochs, how
  // many are distinct, and how many of them each job has.
  v1::TrainJobSpec common;
  *common.mutable_data() = spec.data();
  *common.mutable_pipeline() = spec.pipeline();
  v1::DataSpec& data = *common.mutable_data();
  data.set_epochs(std::min(data.epochs(), data.distinct_epochs()));
  data.clear_first_epoch_key();
  if (spec.trains(0).has_none()) common.add_trains()->mutable_none();
  if (spec.machines() > 1) {
    common.set_machines(spec.machines());
    common.set_members(spec.members());
  }
  // One GPU samples for all jobs.
  if (!spec.pipeline().sample_on().empty()) {
    common.add_trains()->set_device(train::DeviceName(
        train::GpuNamed(spec.trains(0).device()).value_or(std::nullopt)));
  }
  Sha256 hash;
  const std::string text = common.SerializeAsString();
  hash.Update(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
  return hash.HexDigest();
}

}  // namespace hearth::server
