#include "server/mapping/spec_mapping.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/train/model_options.h"
#include "server/mapping/dataset_spec_mapping.h"
#include "server/mapping/field_violations.h"
#include "server/mapping/names.h"
#include "server/mapping/strategy_mapping.h"

namespace hearth::server {
namespace {

constexpr uint32_t kDefaultBatchSize = 1024;
constexpr uint32_t kDefaultEpochs = 5;
constexpr int32_t kDefaultFanout = 10;
constexpr int kDefaultLayers = 3;
constexpr uint32_t kDefaultHidden = 256;
constexpr uint32_t kDefaultHeads = 4;
constexpr uint32_t kDefaultTrainThreads = 2;
constexpr uint32_t kDefaultIoDepth = 64;
constexpr double kDefaultLearningRate = 0.003;
constexpr double kDefaultAdamWDecay = 0.01;

// Checks the fields of one job spec, filling in defaults as it goes.
class SpecChecker {
 public:
  explicit SpecChecker(const SpecLimits& limits) : limits_(limits) {}

  absl::Status Check(v1::JobSpec& spec) {
    switch (spec.kind_case()) {
      case v1::JobSpec::kImport:
        CheckImport(*spec.mutable_import(), violations_);
        break;
      case v1::JobSpec::kTrain:
        CheckTrainJob(*spec.mutable_train());
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
        SetPrefix("prepare");
        break;
      case v1::JobSpec::kExplain:
        CheckTrainJob(*spec.mutable_explain()->mutable_train());
        SetPrefix("explain.train");
        break;
      case v1::JobSpec::KIND_NOT_SET:
        violations_.Add("spec.kind",
                        "must be one of import, train, export, verify, "
                        "generate, export_dataset, prepare, explain");
    }
    // What is not there yet is told apart from what is wrong.
    return unimplemented_.empty()
               ? violations_.ToStatus()
               : unimplemented_.ToStatus(absl::StatusCode::kUnimplemented);
  }

 private:
  void CheckExport(const v1::ExportSpec& spec) {
    if (spec.job_id().empty()) {
      violations_.Add("export.job_id", "must be the id of a train job");
    }
    CheckPath("export.destination", spec.destination(), violations_);
  }

  void SetPrefix(const std::string& prefix) {
    violations_.SetPrefix(prefix);
    unimplemented_.SetPrefix(prefix);
  }

  void CheckPrepare(v1::PrepareSpec& spec) {
    CheckData(*spec.mutable_data());
    CheckPipeline(spec.data(), *spec.mutable_pipeline());
    if (!MakesPlans(spec.data())) {
      violations_.Add("train.data.strategy",
                      "must be diskgnn: the others have nothing to prepare");
    }
  }

  void CheckPipeline(const v1::DataSpec& data, v1::PipelineSpec& pipeline) {
    pipeline.set_samplers(OrDefault(pipeline.samplers(), 1));
    pipeline.set_extractors(
        OrDefault(pipeline.extractors(), DefaultExtractors(data)));
    pipeline.set_io_depth(OrDefault(pipeline.io_depth(), kDefaultIoDepth));
    violations_.CheckAtMost("train.pipeline.io_depth", pipeline.io_depth(),
                            SpecLimits::kMaxIoDepth);
    violations_.CheckAtMost("train.pipeline.samplers", pipeline.samplers(),
                            SpecLimits::kMaxStageThreads);
    violations_.CheckAtMost("train.pipeline.extractors", pipeline.extractors(),
                            SpecLimits::kMaxStageThreads);
  }

  void CheckTrainJob(v1::TrainJobSpec& spec) {
    CheckData(*spec.mutable_data());
    CheckPipeline(spec.data(), *spec.mutable_pipeline());
    if (spec.trains_size() > 1) {
      unimplemented_.Add("train.trains",
                         "one model per job, for now; submit a job for each");
    } else if (spec.trains().empty()) {
      violations_.Add("train.trains", "must hold the model to train");
    } else {
      CheckTrain(*spec.mutable_trains(0));
    }
  }

  void CheckData(v1::DataSpec& data) {
    if (!IsValidName(data.dataset())) {
      violations_.Add("train.data.dataset", "must name a dataset");
    }
    data.set_batch_size(OrDefault(data.batch_size(), kDefaultBatchSize));
    data.set_trainers(OrDefault(data.trainers(), 1));
    data.set_epochs(OrDefault(data.epochs(), kDefaultEpochs));
    const bool refreshed = data.refresh_epochs() > 0;
    data.set_distinct_epochs(
        OrDefault(data.distinct_epochs(),
                  refreshed ? data.refresh_epochs() : data.epochs()));
    violations_.CheckAtMost("train.data.batch_size", data.batch_size(),
                            SpecLimits::kMaxBatchSize);
    violations_.CheckAtMost("train.data.trainers", data.trainers(),
                            SpecLimits::kMaxTrainers);
    if (data.trainers() > data.batch_size()) {
      violations_.Add(
          "train.data.trainers",
          absl::StrCat("must be at most batch_size (", data.batch_size(),
                       "), not ", data.trainers()));
    }
    violations_.CheckAtMost("train.data.epochs", data.epochs(),
                            SpecLimits::kMaxEpochs);
    violations_.CheckAtMost("train.data.refresh_epochs", data.refresh_epochs(),
                            SpecLimits::kMaxEpochs);
    violations_.CheckAtMost(
        "train.data.distinct_epochs", data.distinct_epochs(),
        refreshed ? data.refresh_epochs() : SpecLimits::kMaxEpochs);
    CheckFanouts(*data.mutable_neighbor());
    CheckStrategy(limits_.has_gpu, data, violations_);
  }

  void CheckFanouts(v1::NeighborSampler& sampler) {
    if (sampler.fanouts().empty()) {
      sampler.mutable_fanouts()->Resize(kDefaultLayers, kDefaultFanout);
    }
    if (sampler.fanouts_size() > SpecLimits::kMaxFanouts) {
      violations_.Add(
          "train.data.neighbor.fanouts",
          absl::StrCat("must have at most ", SpecLimits::kMaxFanouts,
                       " entries, not ", sampler.fanouts_size()));
      return;
    }
    for (int i = 0; i < sampler.fanouts_size(); ++i) {
      const int32_t fanout = sampler.fanouts(i);
      if (fanout != -1 && (fanout < 1 || fanout > SpecLimits::kMaxFanout)) {
        violations_.Add(absl::StrCat("train.data.neighbor.fanouts[", i, "]"),
                        absl::StrCat("must be -1 (all neighbors) or from 1 to ",
                                     SpecLimits::kMaxFanout, ", not ", fanout));
      }
    }
  }

  void CheckTrain(v1::TrainSpec& train) {
    CheckModel(train);
    CheckOptimizer(train);
    InRange("train.trains[0].dropout", train.dropout(), 0, 1);
    violations_.CheckAtMost("train.trains[0].patience", train.patience(),
                            SpecLimits::kMaxEpochs);
    train.set_train_threads(
        OrDefault(train.train_threads(),
                  std::min(kDefaultTrainThreads, limits_.processors)));
    if (train.train_threads() > limits_.processors) {
      violations_.Add("train.trains[0].train_threads",
                      absl::StrCat("must be at most ", limits_.processors,
                                   ", this machine's processors, not ",
                                   train.train_threads()));
    }
  }

  void CheckModel(v1::TrainSpec& train) {
    switch (train.model_case()) {
      case v1::TrainSpec::kSage:
        CheckHidden("train.trains[0].sage.hidden", *train.mutable_sage());
        break;
      case v1::TrainSpec::kGcn:
        CheckHidden("train.trains[0].gcn.hidden", *train.mutable_gcn());
        break;
      case v1::TrainSpec::kGat:
        CheckGat(*train.mutable_gat());
        break;
      case v1::TrainSpec::kNone:
        break;
      case v1::TrainSpec::MODEL_NOT_SET:
        violations_.Add("train.trains[0].model",
                        "must be one of sage, gcn, gat, none");
    }
  }

  template <typename Model>
  void CheckHidden(const char* field, Model& model) {
    model.set_hidden(OrDefault(model.hidden(), kDefaultHidden));
    violations_.CheckAtMost(field, model.hidden(), SpecLimits::kMaxHidden);
  }

  void CheckGat(v1::GatModel& gat) {
    CheckHidden("train.trains[0].gat.hidden", gat);
    gat.set_heads(OrDefault(gat.heads(), kDefaultHeads));
    violations_.CheckAtMost("train.trains[0].gat.heads", gat.heads(),
                            SpecLimits::kMaxHeads);
    if (gat.hidden() % gat.heads() != 0) {
      violations_.Add("train.trains[0].gat.hidden",
                      absl::StrCat("must be a multiple of heads (", gat.heads(),
                                   "), not ", gat.hidden()));
    }
  }

  void CheckOptimizer(v1::TrainSpec& train) {
    switch (train.optimizer_case()) {
      case v1::TrainSpec::kAdamw: {
        v1::AdamW& adamw = *train.mutable_adamw();
        if (!adamw.has_weight_decay()) {
          adamw.set_weight_decay(kDefaultAdamWDecay);
        }
        CheckRates("train.trains[0].adamw", adamw);
        break;
      }
      case v1::TrainSpec::kSgd:
        CheckRates("train.trains[0].sgd", *train.mutable_sgd());
        InRange("train.trains[0].sgd.momentum", train.sgd().momentum(), 0, 1);
        break;
      case v1::TrainSpec::kAdam:
      case v1::TrainSpec::OPTIMIZER_NOT_SET:
        CheckRates("train.trains[0].adam", *train.mutable_adam());
    }
  }

  template <typename Optimizer>
  void CheckRates(const std::string& field, Optimizer& optimizer) {
    if (optimizer.learning_rate() == 0) {
      optimizer.set_learning_rate(kDefaultLearningRate);
    }
    NotNegative(field + ".learning_rate", optimizer.learning_rate());
    NotNegative(field + ".weight_decay", optimizer.weight_decay());
  }

  static uint32_t OrDefault(uint32_t value, uint32_t default_value) {
    return value == 0 ? default_value : value;
  }

  // In [low, high).
  void InRange(const char* field, double value, double low, double high) {
    if (value >= low && value < high) return;
    violations_.Add(field, absl::StrCat("must be at least ", low, " and below ",
                                        high, ", not ", value));
  }

  void NotNegative(const std::string& field, double value) {
    if (std::isfinite(value) && value >= 0) return;
    violations_.Add(
        field,
        absl::StrCat("must be a finite number of at least 0, not ", value));
  }

  const SpecLimits limits_;
  FieldViolations violations_;
  FieldViolations unimplemented_;
};

train::ModelOptions ToModelOptions(const v1::TrainSpec& train) {
  switch (train.model_case()) {
    case v1::TrainSpec::kGcn:
      return train::GcnOptions{.hidden = train.gcn().hidden()};
    case v1::TrainSpec::kGat:
      return train::GatOptions{.hidden = train.gat().hidden(),
                               .heads = train.gat().heads()};
    case v1::TrainSpec::kNone:
      return train::NoModelOptions{};
    case v1::TrainSpec::kSage:
    case v1::TrainSpec::MODEL_NOT_SET:
      break;
  }
  return train::SageOptions{.hidden = train.sage().hidden()};
}

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

job::DataOptions ToDataOptions(const v1::DataSpec& data,
                               const v1::PipelineSpec& pipeline,
                               const std::string& dataset_path) {
  job::DataOptions options;
  options.dataset_path = dataset_path;
  options.fanouts.assign(data.neighbor().fanouts().begin(),
                         data.neighbor().fanouts().end());
  options.batch_size = data.batch_size();
  // Specs that were stored before there was this field have none.
  options.trainers = std::max<int64_t>(data.trainers(), 1);
  options.epochs = data.epochs();
  options.distinct_epochs = data.distinct_epochs();
  options.refresh_epochs = data.refresh_epochs();
  options.data_seed = data.data_seed();
  options.strategy = ToStrategyOptions(data, pipeline);
  return options;
}

strategy::PipelineOptions ToPipelineOptions(const v1::PipelineSpec& pipeline) {
  return {.samplers = static_cast<int>(pipeline.samplers()),
          .extractors = static_cast<int>(pipeline.extractors())};
}

}  // namespace

absl::Status FillAndValidate(const SpecLimits& limits, v1::JobSpec& spec) {
  return SpecChecker(limits).Check(spec);
}

job::PrepareJobOptions ToPrepareJobOptions(const v1::PrepareSpec& spec,
                                           const std::string& dataset_path) {
  return {.data = ToDataOptions(spec.data(), spec.pipeline(), dataset_path),
          .pipeline = ToPipelineOptions(spec.pipeline()),
          .training_only = spec.training_only()};
}

job::TrainJobOptions ToTrainJobOptions(const v1::TrainJobSpec& spec,
                                       const std::string& dataset_path,
                                       const std::string& directory) {
  const v1::TrainSpec& train = spec.trains(0);
  job::TrainJobOptions options;
  options.data = ToDataOptions(spec.data(), spec.pipeline(), dataset_path);
  options.train.model = ToModelOptions(train);
  options.train.optimizer = ToOptimizerOptions(train);
  options.train.dropout = train.dropout();
  options.train.model_seed = train.model_seed();
  options.train.train_threads = static_cast<int>(train.train_threads());
  options.pipeline = ToPipelineOptions(spec.pipeline());
  options.patience = train.patience();
  options.checkpoint_every = spec.checkpoint_every();
  options.directory = directory;
  return options;
}

}  // namespace hearth::server
