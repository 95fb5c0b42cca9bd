#include "client/cli/train_options.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/figures.h"
#include "client/cli/strategy_options.h"

namespace hearth::cli {
namespace {

constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

uint64_t Seed(OptionReader& options, const std::string& name) {
  const uint64_t both = options.Whole("seed", 0, kMax64).value_or(0);
  return options.Whole(name, 0, kMax64).value_or(both);
}

void ReadData(OptionReader& options, v1::DataSpec* data) {
  data->set_dataset(options.Text("dataset").value_or(""));
  const auto fanouts = options.Fanouts("fanouts");
  v1::NeighborSampler* sampler = data->mutable_neighbor();
  if (fanouts)
    sampler->mutable_fanouts()->Assign(fanouts->begin(), fanouts->end());
  data->set_batch_size(options.PositiveOrDefault("batch-size"));
  data->set_trainers(options.PositiveOrDefault("trainers"));
  data->set_epochs(options.PositiveOrDefault("epochs"));
  data->set_distinct_epochs(options.PositiveOrDefault("distinct-epochs"));
  data->set_refresh_epochs(options.PositiveOrDefault("refresh"));
  data->set_data_seed(Seed(options, "data-seed"));
  ReadStrategy(options, data);
}

void ReadModel(OptionReader& options, v1::TrainSpec* train) {
  const std::string model =
      options.Choice("model", {"sage", "gcn", "gat", "none"}, "sage");
  // The options of models may stay, to read the batches of a job as it is.
  if (model == "none") {
    train->mutable_none();
    return;
  }
  if (model != "gat") options.Refuse("heads", "applies to model gat only");
  const uint32_t hidden = options.PositiveOrDefault("hidden");
  if (model == "sage") train->mutable_sage()->set_hidden(hidden);
  if (model == "gcn") train->mutable_gcn()->set_hidden(hidden);
  if (model == "gat") {
    train->mutable_gat()->set_hidden(hidden);
    train->mutable_gat()->set_heads(options.PositiveOrDefault("heads"));
  }
}

void ReadOptimizer(OptionReader& options, v1::TrainSpec* train) {
  const std::string name =
      options.Choice("optimizer", {"adam", "adamw", "sgd"}, "adam");
  const double rate = options.Number("lr", 0, /*above=*/true).value_or(0);
  const auto decay = options.Number("weight-decay", 0);
  if (name == "sgd") {
    v1::Sgd* sgd = train->mutable_sgd();
    sgd->set_learning_rate(rate);
    sgd->set_weight_decay(decay.value_or(0));
    sgd->set_momentum(options.Number("momentum", 0).value_or(0));
    return;
  }
  options.Refuse("momentum", "applies to optimizer sgd only");
  if (name == "adamw") {
    train->mutable_adamw()->set_learning_rate(rate);
    if (decay) train->mutable_adamw()->set_weight_decay(*decay);
  } else {
    train->mutable_adam()->set_learning_rate(rate);
    train->mutable_adam()->set_weight_decay(decay.value_or(0));
  }
}

using NamedValues = std::vector<std::pair<std::string, std::string>>;

void Add(const std::string& name, uint64_t value, NamedValues* out) {
  out->emplace_back(name, absl::StrCat(value));
}

void AddOptimizer(const v1::TrainSpec& train, NamedValues* out) {
  const auto add = [out](const std::string& name, const auto& optimizer) {
    out->emplace_back("optimizer", name);
    out->emplace_back("lr", FormatDouble(optimizer.learning_rate()));
    out->emplace_back("weight-decay", FormatDouble(optimizer.weight_decay()));
  };
  if (train.has_sgd()) {
    add("sgd", train.sgd());
    out->emplace_back("momentum", FormatDouble(train.sgd().momentum()));
  } else if (train.has_adamw()) {
    add("adamw", train.adamw());
  } else {
    add("adam", train.adam());
  }
}

void AddModel(const v1::TrainSpec& train, NamedValues* out) {
  if (train.has_sage()) {
    out->emplace_back("model", "sage");
    Add("hidden", train.sage().hidden(), out);
  } else if (train.has_gcn()) {
    out->emplace_back("model", "gcn");
    Add("hidden", train.gcn().hidden(), out);
  } else if (train.has_gat()) {
    out->emplace_back("model", "gat");
    Add("hidden", train.gat().hidden(), out);
    Add("heads", train.gat().heads(), out);
  } else {
    out->emplace_back("model", "none");
  }
}

NamedValues OptionsOfData(const v1::DataSpec& data) {
  NamedValues out;
  out.emplace_back("dataset", data.dataset());
  for (auto& option : OptionsOfStrategy(data)) out.push_back(std::move(option));
  out.emplace_back("fanouts", absl::StrJoin(data.neighbor().fanouts(), ","));
  Add("batch-size", data.batch_size(), &out);
  Add("trainers", data.trainers(), &out);
  Add("epochs", data.epochs(), &out);
  Add("distinct-epochs", data.distinct_epochs(), &out);
  if (data.refresh_epochs() > 0) Add("refresh", data.refresh_epochs(), &out);
  Add("data-seed", data.data_seed(), &out);
  return out;
}

NamedValues OptionsOfPipeline(const v1::DataSpec& data,
                              const v1::PipelineSpec& pipeline) {
  NamedValues out;
  Add("samplers", pipeline.samplers(), &out);
  Add("extractors", pipeline.extractors(), &out);
  if (!data.has_memory() && !data.has_mmap()) {
    Add("io-depth", pipeline.io_depth(), &out);
  }
  return out;
}

void Append(NamedValues more, NamedValues* out) {
  for (auto& option : more) out->push_back(std::move(option));
}

}  // namespace

const std::vector<TrainOption>& TrainOptions() {
  static const auto& options = *new std::vector<TrainOption>{
      {"dataset", "name of an imported dataset (required)"},
      {"strategy",
       "how features reach the trainer: memory (default), mmap, gnndrive, "
       "ginex, diskgnn"},
      {"mmap-advice",
       "random (default): the kernel reads single pages; normal: it reads "
       "ahead; for mmap"},
      {"cpu-cache",
       "memory for rows kept between batches, such as 4GiB (default 1GiB)"},
      {"staging",
       "memory for the rows of batches in flight, for gnndrive (default auto)"},
      {"reorder",
       "true: train batches as they become ready, for gnndrive (default "
       "false)"},
      {"buffered-reads",
       "true: read through the page cache, for gnndrive (default false)"},
      {"sample-queue",
       "batches that wait for extraction, for gnndrive (default 6)"},
      {"train-queue",
       "batches that wait for training, for gnndrive (default 4)"},
      {"superbatch", "batches sampled ahead, for ginex (default auto)"},
      {"neighbor-cache",
       "memory for neighbor lists while sampling ahead, for ginex (default "
       "auto: as cpu-cache)"},
      {"disk-cache",
       "disk for rows that batches share, for diskgnn: auto (default), 0 = "
       "every batch has its own"},
      {"disk-limit",
       "disk that the plan may take, such as 50GiB, or 3x for three times the "
       "features, for diskgnn (default none)"},
      {"prepare-memory", "memory for preparing, for diskgnn (default 1GiB)"},
      {"gpu-cache", "GPU memory for rows, for diskgnn (default 0)"},
      {"model",
       "sage (default), gcn, gat, none (reads batches, trains nothing)"},
      {"fanouts",
       "neighbors per layer, from the seeds outward; -1 = all "
       "(default 10,10,10)"},
      {"hidden", "width of the hidden layers (default 256)"},
      {"heads", "attention heads, for gat (default 4)"},
      {"dropout", "probability that an activation is dropped (default 0)"},
      {"batch-size", "seed nodes in a mini-batch (default 1024)"},
      {"trainers",
       "trainers that share each mini-batch, data parallel (default 1)"},
      {"epochs", "passes over the training nodes (default 5)"},
      {"distinct-epochs", "epochs before the batches repeat (default: epochs)"},
      {"refresh",
       "epochs after which there are new batches; a plan for them is made "
       "meanwhile (default never)"},
      {"optimizer", "adam (default), adamw, sgd"},
      {"lr", "learning rate (default 0.003)"},
      {"weight-decay", "weight decay (default 0; adamw 0.01)"},
      {"momentum", "momentum, for sgd (default 0)"},
      {"seed", "sets data-seed and model-seed (default 0)"},
      {"data-seed", "seeds the order of nodes and the sampling"},
      {"model-seed", "seeds the initial weights and the dropout"},
      {"samplers", "threads that sample (default 1)"},
      {"extractors",
       "threads that bring features together (default 1; gnndrive 2)"},
      {"io-depth", "reads in flight of each reading thread (default 64)"},
      {"train-threads",
       "threads inside one operation of the model, of each trainer (default "
       "2)"},
      {"patience",
       "epochs without improvement before training stops "
       "(default 0 = never)"},
      {"checkpoint-every",
       "batches between checkpoints (default 0 = after "
       "each epoch)"},
  };
  return options;
}

std::vector<std::string> TrainOptionNames() {
  std::vector<std::string> names;
  for (const TrainOption& option : TrainOptions()) names.push_back(option.name);
  return names;
}

absl::StatusOr<v1::TrainJobSpec> TrainJobFromOptions(
    const OptionValues& values) {
  OptionReader options(values);
  if (!options.Has("dataset")) {
    return absl::InvalidArgumentError(
        "--dataset is required; `hearth dataset list` tells which there are");
  }
  v1::TrainJobSpec spec;
  ReadData(options, spec.mutable_data());
  v1::TrainSpec* train = spec.add_trains();
  ReadModel(options, train);
  ReadOptimizer(options, train);
  train->set_dropout(options.Number("dropout", 0).value_or(0));
  train->set_model_seed(Seed(options, "model-seed"));
  train->set_patience(
      static_cast<uint32_t>(options.Whole("patience", 0, kMax32).value_or(0)));
  train->set_train_threads(options.PositiveOrDefault("train-threads"));
  spec.mutable_pipeline()->set_samplers(options.PositiveOrDefault("samplers"));
  spec.mutable_pipeline()->set_extractors(
      options.PositiveOrDefault("extractors"));
  spec.mutable_pipeline()->set_io_depth(options.PositiveOrDefault("io-depth"));
  spec.set_checkpoint_every(static_cast<uint32_t>(
      options.Whole("checkpoint-every", 0, kMax32).value_or(0)));
  if (!options.status().ok()) return options.status();
  return spec;
}

NamedValues OptionsOfPrepareJob(const v1::PrepareSpec& spec) {
  NamedValues out = OptionsOfData(spec.data());
  if (spec.training_only()) out.emplace_back("model", "none");
  Append(OptionsOfPipeline(spec.data(), spec.pipeline()), &out);
  return out;
}

NamedValues OptionsOfTrainJob(const v1::TrainJobSpec& spec) {
  NamedValues out = OptionsOfData(spec.data());
  for (const v1::TrainSpec& train : spec.trains()) {
    AddModel(train, &out);
    AddOptimizer(train, &out);
    out.emplace_back("dropout", FormatDouble(train.dropout()));
    Add("model-seed", train.model_seed(), &out);
    Add("patience", train.patience(), &out);
    Add("train-threads", train.train_threads(), &out);
  }
  Append(OptionsOfPipeline(spec.data(), spec.pipeline()), &out);
  Add("checkpoint-every", spec.checkpoint_every(), &out);
  return out;
}

}  // namespace hearth::cli
