// Measures the cost of the default checks, in turns within one process: epochs
// of the data path with checks of rows, packs and tables, and without checksums
// and lookups of row checksums.
//   verification_cost FOLDER [ROUNDS [NODES [EDGES [COLUMNS]]]]
// The dataset is made in FOLDER, unless it exists.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/ingest/generate/generate_options.h"
#include "engine/ingest/generate/generated_graph.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/kinds.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "tests/bench/switched_crc32c.h"

namespace hearth::bench {
namespace {

struct Size {
  int64_t rounds = 5;
  int64_t num_nodes = 4'000'000;
  int64_t num_edges = 64'000'000;
  int64_t num_columns = 128;
};

/// Time that a piece of work takes.
struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

/// CPU seconds of all threads of the process, kernel included.
double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::StatusOr<Cost> CostOf(const std::function<absl::Status()>& work) {
  const Clock& clock = Clock::Real();
  const double start = clock.SteadySeconds();
  const double cpu_start = CpuSeconds();
  HEARTH_RETURN_IF_ERROR(work());
  return Cost{clock.SteadySeconds() - start, CpuSeconds() - cpu_start};
}

class Measurement {
 public:
  static absl::StatusOr<std::unique_ptr<Measurement>> Open(
      const std::string& folder, const Size& size) {
    auto measurement = std::unique_ptr<Measurement>(new Measurement(folder));
    HEARTH_RETURN_IF_ERROR(measurement->MakeDataset(size));
    HEARTH_RETURN_IF_ERROR(measurement->OpenDataset(size));
    return measurement;
  }

  /// Cost of `number` epochs of a new strategy.
  absl::StatusOr<Cost> Epochs(const strategy::StrategyOptions& options,
                              int number, bool checked) {
    SwitchChecksums(checked);
    std::shared_ptr<const io::RowCheck> row_check;
    if (checked && strategy::KindOf(options).reads_single_rows) {
      HEARTH_ASSIGN_OR_RETURN(row_check, dataset_->LoadRowChecksums({}));
    }
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<strategy::Strategy> strategy,
        strategy::NewStrategy(
            options, {.samplers = 1, .extractors = 1}, *dataset_,
            {.read_queues = *queues_,
             .clock = Clock::Real(),
             .scratch_folder = io::JoinPath(folder_, "scratch"),
             .plans = plans_.get(),
             .row_check = std::move(row_check)}));
    HEARTH_RETURN_IF_ERROR(strategy->Prepare({pass_}, {}, {}).status());
    strategy::PassReport report;
    return CostOf([&] {
      absl::Status status;
      for (int i = 0; i < number && status.ok(); ++i) {
        status = strategy->Run(
            pass_,
            [](absl::Span<const train::BatchView>) { return absl::OkStatus(); },
            {}, report);
      }
      return status;
    });
  }

  /// Cost of reading the topology into memory five times; a job does it once.
  absl::StatusOr<Cost> Topology(bool checked) {
    SwitchChecksums(checked);
    const auto load = [&] {
      return dataset_->LoadTopology(store::Residency::kMemory).status();
    };
    // Warms up: the file is in the page cache, and memory is allocated.
    HEARTH_RETURN_IF_ERROR(load());
    return CostOf([&] {
      absl::Status status;
      for (int i = 0; i < 5 && status.ok(); ++i) status = load();
      return status;
    });
  }

 private:
  explicit Measurement(std::string folder) : folder_(std::move(folder)) {}

  std::string DatasetFolder() const { return io::JoinPath(folder_, "dataset"); }

  absl::Status MakeDataset(const Size& size) {
    HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
    if (files_.Stat(DatasetFolder()).ok()) return absl::OkStatus();
    ingest::GenerateOptions graph;
    graph.graph = ingest::RmatGraph();
    graph.num_nodes = size.num_nodes;
    graph.num_edges = size.num_edges;
    graph.feature_dim = size.num_columns;
    graph.train_share = 0.01;
    ingest::ImportOptions options;
    options.source = "a made-up graph";
    options.name = "verification";
    options.destination = DatasetFolder();
    return ingest::ImportGraph(files_, options,
                               [&](ingest::ImportContext& context) {
                                 return ingest::OpenGenerated(context, graph);
                               },
                               nullptr, {})
        .status();
  }

  absl::Status OpenDataset(const Size& size) {
    HEARTH_ASSIGN_OR_RETURN(dataset_,
                            store::Dataset::Open(files_, DatasetFolder()));
    HEARTH_ASSIGN_OR_RETURN(queues_, io::ReadQueues::Create());
    plans_ = std::make_unique<plan::PlanStore>(
        files_, Clock::Real(),
        plan::PlanStore::Options{.folder = io::JoinPath(folder_, "plans")});
    HEARTH_ASSIGN_OR_RETURN(store::Split split, dataset_->LoadSplit());
    order_ = sample::NewShuffledOrder(std::move(split.train), 1);
    pass_.order = order_.get();
    pass_.sampler = {.fanouts = {10, 10}, .data_seed = 1};
    // A batch needs the same share of rows as a batch of 1,024 on a graph of a
    // hundred million nodes.
    pass_.batch_size = std::max<int64_t>(1, size.num_nodes / 8'000);
    HEARTH_ASSIGN_OR_RETURN(const store::Labels labels, dataset_->LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<store::LoadedTopology> topology,
        dataset_->LoadTopology(store::Residency::kMemory));
    HEARTH_ASSIGN_OR_RETURN(
        pass_.batches,
        strategy::MeasureBatches(pass_, order_->Epoch(0), {*topology, labels},
                                 {.clock = Clock::Real()}, {}));
    return absl::OkStatus();
  }

  io::FileSystem& files_ = io::FileSystem::Posix();
  const std::string folder_;
  std::unique_ptr<store::Dataset> dataset_;
  std::unique_ptr<io::ReadQueues> queues_;
  std::unique_ptr<plan::PlanStore> plans_;
  std::unique_ptr<sample::SeedOrder> order_;
  strategy::Pass pass_;
};

/// Costs of one measurement with and without checks, by round.
struct Row {
  std::string name;
  std::function<absl::StatusOr<Cost>(bool checked)> measure;
  std::vector<Cost> with = {};
  std::vector<Cost> without = {};
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half]
                                : (values[half - 1] + values[half]) / 2;
}

void Print(const Row& row, const char* what, double Cost::*cost) {
  std::vector<double> with, without, ratios;
  for (size_t i = 0; i < row.with.size(); ++i) {
    with.push_back(row.with[i].*cost);
    without.push_back(row.without[i].*cost);
    ratios.push_back(with.back() / without.back());
  }
  std::printf("%-10s %-14s %8.3f %8.3f %8.3f  ", row.name.c_str(), what,
              Median(with), Median(without), Median(ratios));
  for (const double ratio : ratios) std::printf(" %.3f", ratio);
  std::printf("\n");
}

absl::Status Measure(const std::string& folder, const Size& size) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<Measurement> measurement,
                          Measurement::Open(folder, size));
  const auto cache_bytes =
      static_cast<uint64_t>(size.num_nodes * size.num_columns * 4 / 10);
  const auto epochs = [&](strategy::StrategyOptions options, int number) {
    return [&measurement, options, number](bool checked) {
      return measurement->Epochs(options, number, checked);
    };
  };
  std::array<Row, 3> rows = {
      {{"gnndrive",
        epochs(strategy::GnndriveOptions{.cpu_cache_bytes = cache_bytes}, 1)},
       // Ten epochs, which take long enough to be compared.
       {"diskgnn",
        epochs(strategy::DiskgnnOptions{.cpu_cache_bytes = cache_bytes}, 10)},
       {"topology",
        [&](bool checked) { return measurement->Topology(checked); }}}};
  // A first round that is not counted pays one-time costs.
  for (Row& row : rows) HEARTH_RETURN_IF_ERROR(row.measure(true).status());
  for (int64_t round = 0; round < size.rounds; ++round) {
    for (Row& row : rows) {
      for (const bool checked : {round % 2 == 0, round % 2 == 1}) {
        HEARTH_ASSIGN_OR_RETURN(const Cost cost, row.measure(checked));
        (checked ? row.with : row.without).push_back(cost);
      }
    }
  }
  std::printf("%-10s %-14s %8s %8s %8s   of each round\n", "", "", "checked",
              "not", "ratio");
  for (const Row& row : rows) {
    Print(row, "seconds", &Cost::seconds);
    Print(row, "CPU seconds", &Cost::cpu_seconds);
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Size size;
  const std::array<int64_t*, 4> numbers = {&size.rounds, &size.num_nodes,
                                           &size.num_edges, &size.num_columns};
  bool is_good = argc >= 2 && argc <= 6;
  for (int i = 2; is_good && i < argc; ++i) {
    is_good = absl::SimpleAtoi(argv[i], numbers[static_cast<size_t>(i - 2)]) &&
              *numbers[static_cast<size_t>(i - 2)] > 0;
  }
  if (!is_good) {
    std::fprintf(stderr,
                 "usage: %s FOLDER [ROUNDS [NODES [EDGES [COLUMNS]]]]\n",
                 argv[0]);
    return 2;
  }
  const absl::Status status = Measure(argv[1], size);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::Main(argc, argv); }
