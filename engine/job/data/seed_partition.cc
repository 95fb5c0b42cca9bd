#include "engine/job/data/seed_partition.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/process.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/partition/partition_options.h"
#include "engine/plan/partition/write_partition.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/store/manifest.h"

namespace hearth::job {

namespace {

using plan::PartitionOptions;
using plan::PartitionShape;
using plan::PartitionSummary;
using store::NodeId;

// Version of how partitions are made; their files have versions of their own.
constexpr char kFormat[] = "hearth partition 1";

PartitionOptions OptionsFor(const PartitionOrder& order, int64_t batch_size,
                            const PartitionShape& shape) {
  const int parts =
      order.parts > 0
          ? static_cast<int>(order.parts)
          : plan::DefaultParts(shape.training_nodes, batch_size, shape.nodes);
  return {.parts = parts,
          .rounds = static_cast<int>(order.rounds),
          .membership = order.bloom ? plan::Membership::kBloom
                                    : plan::Membership::kExact};
}

// Name of the partition. The labeled training nodes follow from the fingerprint
// and the target type, unless they have a name.
std::string NameOf(const store::Dataset& dataset, const std::string& nodes_name,
                   const PartitionOptions& options) {
  const std::string& fingerprint = dataset.manifest().fingerprint;
  Sha256 hash;
  hash.Update(absl::StrCat(kFormat, ";", fingerprint, ";", options.parts, ";",
                           options.rounds, ";",
                           static_cast<int>(options.membership)));
  // Names of partitions of untyped graphs must not change.
  if (dataset.manifest().is_typed()) {
    hash.Update(absl::StrCat(";target ", dataset.target_type()));
  }
  if (!nodes_name.empty()) hash.Update(absl::StrCat(";nodes ", nodes_name));
  return plan::PlanName(plan::kPartitionPlans, fingerprint,
                        hash.HexDigest().substr(0, 32));
}

double ShareOf(int64_t part, int64_t whole) {
  return whole == 0
             ? 0
             : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

// A sentence for people.
std::string Describe(const PartitionSummary& summary) {
  return absl::StrFormat(
      "%d parts of %d to %d nodes, %d to %d of them for training; %.1f%% of %d "
      "edges cut",
      summary.options.parts, summary.min_part_nodes, summary.max_part_nodes,
      summary.min_part_training_nodes, summary.max_part_training_nodes,
      ShareOf(summary.cut_edges, summary.edges), summary.edges);
}

plan::PlanProperties PropertiesOf(const std::string& dataset,
                                  const PartitionSummary& summary) {
  const auto range = [](int64_t least, int64_t most) {
    return absl::StrCat(least, " to ", most);
  };
  return {
      {"dataset", dataset},
      {"parts", absl::StrCat(summary.options.parts)},
      {"rounds", absl::StrCat(summary.rounds)},
      {"membership", summary.options.membership == plan::Membership::kBloom
                         ? "bloom"
                         : "exact"},
      {"edges cut", absl::StrFormat("%d (%.1f%%)", summary.cut_edges,
                                    ShareOf(summary.cut_edges, summary.edges))},
      {"nodes of a part",
       range(summary.min_part_nodes, summary.max_part_nodes)},
      {"training nodes of a part", range(summary.min_part_training_nodes,
                                         summary.max_part_training_nodes)}};
}

// Finds or makes one partition.
class PartitionPreparation {
 public:
  PartitionPreparation(const JobEnvironment& environment,
                       const store::Dataset& dataset,
                       absl::Span<const NodeId> training_nodes,
                       std::string nodes_name, const PartitionOptions& options,
                       Observer& observer, std::stop_token stop)
      : environment_(environment),
        dataset_(dataset),
        training_nodes_(training_nodes.begin(), training_nodes.end()),
        nodes_name_(std::move(nodes_name)),
        options_(options),
        observer_(observer),
        stop_(std::move(stop)) {
    std::sort(training_nodes_.begin(), training_nodes_.end());
  }

  absl::StatusOr<SeedPartition> Open() {
    using Partition = std::shared_ptr<const plan::Partition>;
    strategy::PreparationReport report;
    strategy::MemoryEstimate making_memory;
    const double start_seconds = environment_.clock.SteadySeconds();
    report.plan = NameOf(dataset_, nodes_name_, options_);
    HEARTH_ASSIGN_OR_RETURN(
        LeasedPlan<Partition> kept,
        FindOrMakePlan<Partition>(
            environment_,
            {.name = report.plan,
             .kind = "partition",
             .open =
                 [this](const std::string& folder) {
                   return plan::Partition::Open(environment_.files, folder);
                 },
             .make =
                 [&](plan::PlanLease& lease) {
                   return Make(lease, report, making_memory);
                 }},
            observer_, stop_));
    report.reused = kept.reused;
    report.disk_bytes = plan::PartitionBytes(ShapeOf(), options_);
    report.reason = Describe(kept.opened->summary());
    report.seconds = environment_.clock.SteadySeconds() - start_seconds;
    observer_.OnLog(
        Severity::kInfo,
        absl::StrCat("partition ", report.plan,
                     report.reused ? " reused: " : " made: ", report.reason));
    return SeedPartition{.lease = std::move(kept.lease),
                         .partition = std::move(kept.opened),
                         .report = std::move(report),
                         .making_memory = std::move(making_memory)};
  }

 private:
  PartitionShape ShapeOf() const {
    return PartitionShape::Of(dataset_.manifest(), std::ssize(training_nodes_));
  }

  absl::Status Make(plan::PlanLease& lease, strategy::PreparationReport& report,
                    strategy::MemoryEstimate& memory) const {
    const PartitionShape shape = ShapeOf();
    const int threads = UsableProcessors();
    memory.Add("partitioning", plan::PartitionMemory(shape, options_, threads));
    // Memory that the job holds already.
    const store::NodeTypeEntry& nodes =
        dataset_.manifest().node_types[dataset_.target_type()];
    memory.Add("labels", nodes.labels.file_size_bytes);
    // Three copies: the split as it was read, without unlabeled nodes, and the
    // training nodes of this class.
    memory.Add("seeds",
               3 * (nodes.train.file_size_bytes + nodes.valid.file_size_bytes +
                    nodes.test.file_size_bytes));
    if (!nodes_name_.empty()) {
      memory.Add("seeds", 3 * sizeof(NodeId) * training_nodes_.size());
    }
    MemoryLedger::Reservation reservation;
    HEARTH_RETURN_IF_ERROR(environment_.memory.Reserve(memory, reservation));
    HEARTH_RETURN_IF_ERROR(
        lease.MakeRoom(plan::PartitionBytes(shape, options_) +
                       plan::PartitionScratchBytes(shape, options_) +
                       plan::PlanStore::kRecordBytes));
    HEARTH_ASSIGN_OR_RETURN(
        const PartitionSummary summary,
        plan::WritePartition(
            environment_.files, dataset_, training_nodes_, options_,
            {.folder = lease.folder(),
             .threads = threads,
             .progress =
                 [this](const plan::PartitionProgress& progress) {
                   observer_.OnProgress(
                       {.phase = absl::StrCat("partitioning, ", progress.stage),
                        .done = progress.done_bytes,
                        .total = progress.total_bytes,
                        .loss = {}});
                 },
             .stop = stop_,
             .clock = &environment_.clock}));
    HEARTH_RETURN_IF_ERROR(
        lease.Publish(PropertiesOf(dataset_.manifest().name, summary)));
    report.phases.push_back(
        {.name = "partitioning", .seconds = summary.seconds});
    return absl::OkStatus();
  }

  const JobEnvironment& environment_;
  const store::Dataset& dataset_;
  std::vector<NodeId> training_nodes_;
  const std::string nodes_name_;
  const PartitionOptions options_;
  Observer& observer_;
  const std::stop_token stop_;
};

}  // namespace

absl::StatusOr<SeedPartition> OpenPartition(
    const JobEnvironment& environment, const store::Dataset& dataset,
    absl::Span<const NodeId> training_nodes, const std::string& nodes_name,
    const PartitionOrder& order, int64_t batch_size, Observer& observer,
    std::stop_token stop) {
  const auto shape =
      PartitionShape::Of(dataset.manifest(), std::ssize(training_nodes));
  const PartitionOptions options = OptionsFor(order, batch_size, shape);
  HEARTH_RETURN_IF_ERROR(plan::CheckPartitionOptions(options, shape.nodes));
  return PartitionPreparation(environment, dataset, training_nodes, nodes_name,
                              options, observer, std::move(stop))
      .Open();
}

std::vector<uint16_t> PartsOf(const plan::Partition& partition,
                              absl::Span<const NodeId> training_nodes) {
  std::vector<std::pair<NodeId, uint16_t>> known;
  known.reserve(training_nodes.size());
  for (int part = 0; part < partition.parts(); ++part) {
    for (const NodeId node : partition.training_nodes(part)) {
      known.emplace_back(node, static_cast<uint16_t>(part));
    }
  }
  std::sort(known.begin(), known.end());
  std::vector<uint16_t> parts;
  parts.reserve(training_nodes.size());
  for (const NodeId node : training_nodes) {
    parts.push_back(std::lower_bound(known.begin(), known.end(),
                                     std::pair(node, uint16_t{0}))
                        ->second);
  }
  return parts;
}

}  // namespace hearth::job
