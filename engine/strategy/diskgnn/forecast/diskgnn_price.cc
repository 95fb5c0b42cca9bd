#include "engine/strategy/diskgnn/forecast/diskgnn_price.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/forecast/layout_forecast.h"
#include "engine/strategy/diskgnn/forecast/time_forecast.h"
#include "engine/strategy/diskgnn/preparation.h"

namespace hearth::strategy {

namespace {

// Processor seconds of decoding a byte of a sample, and of a row in a walk over
// the trace.
constexpr double kDecodeSecondsPerByte = 1.2e-9;
constexpr double kWalkSeconds = 6e-8;
// Address tables take so many bytes a row.
constexpr double kTableBytes = 4;
constexpr int kMostLoaders = 4;

class Pricing {
 public:
  Pricing(const DiskgnnOptions& options, const PricedJob& job)
      : options_(
            InBytes(options, job.basis.num_nodes(), job.basis.row_bytes())),
        job_(job),
        rows_(std::min(static_cast<double>(options_.cpu_cache_bytes +
                                           options_.gpu_cache_bytes) /
                           job.row_bytes(),
                       static_cast<double>(job.basis.num_nodes()))),
        missed_(job.work.misses->Static(rows_).later /
                std::max(1.0, job.work.misses->accesses())),
        rates_({.read_bytes_per_second = job.disk.BytesPerSecond(1),
                .pass_bytes_per_second = job.disk.BytesPerSecond(kMostLoaders),
                .scan_bytes_per_second = job.disk.BytesPerSecond(1),
                .write_bytes_per_second = job.disk.write_bytes_per_second,
                .decode_seconds_per_byte = kDecodeSecondsPerByte,
                .checksum_seconds_per_byte = job.disk.checksum_seconds_per_byte,
                .memory_seconds_per_byte = job.disk.memory_seconds_per_byte,
                .row_copy_seconds = job.disk.CopySeconds(
                    static_cast<uint64_t>(job.basis.row_bytes()))}) {}

  absl::StatusOr<Price> Run() {
    Price price;
    const Workload& work = job_.work;
    price.epoch_seconds = Seconds(work.training);
    price.first_epoch_seconds = price.epoch_seconds;
    price.validation_seconds = Seconds(work.validation);
    price.test_seconds = Seconds(work.test);
    const EpochVolume epoch = VolumeOf(work.training.batches);
    price.bytes_read =
        epoch.sample_bytes + epoch.table_bytes + epoch.packed_bytes;
    price.read_ops = epoch.chunk_reads;
    const PlanSize plan = Plan();
    price.disk_bytes = plan.total;
    HEARTH_ASSIGN_OR_RETURN(price.plan_exists, Exists(plan.total));
    if (!price.plan_exists) price.prepare_seconds = Preparing(plan);
    return price;
  }

 private:
  EpochVolume VolumeOf(double batches) const {
    const Workload& work = job_.work;
    const double rows = batches * work.rows;
    return {.rows = rows,
            .cpu_rows = rows * (1 - missed_),
            .packed_rows = rows * missed_,
            .sample_bytes = batches * work.SampleBytes(),
            .table_bytes = kTableBytes * rows,
            .packed_bytes = rows * missed_ * job_.row_bytes(),
            .chunk_reads = 2 * batches};
  }

  double Seconds(const PassLoad& load) const {
    return TimeOfEpoch(VolumeOf(load.batches),
                       {.loaders = job_.basis.pipeline.extractors,
                        .processors = job_.processors,
                        .batches = load.batches,
                        .row_bytes = job_.basis.row_bytes(),
                        .train_seconds = load.step_seconds,
                        .train_threads = job_.work.train_threads},
                       rates_)
        .seconds;
  }

  PlanSize Plan() const {
    const EpochVolume all = VolumeOf(job_.DistinctBatches());
    PlanSize plan;
    plan.samples = all.sample_bytes;
    plan.packs = all.sample_bytes + all.table_bytes + all.packed_bytes;
    plan.memory_image = rows_ * job_.row_bytes();
    plan.rows = all.packed_rows + rows_;
    plan.total = plan.packs + plan.memory_image;
    return plan;
  }

  double Preparing(const PlanSize& plan) const {
    const double batches = job_.DistinctBatches();
    const int samplers =
        std::min(job_.basis.pipeline.samplers, job_.processors);
    const double walk = batches * job_.work.rows * kWalkSeconds +
                        plan.samples * rates_.decode_seconds_per_byte;
    return std::max(batches * job_.work.sample_seconds / samplers,
                    plan.samples / rates_.write_bytes_per_second) +
           walk +
           PackingSeconds(
               plan,
               {.features = job_.feature_bytes(),
                .memory = std::min(
                    job_.feature_bytes(),
                    static_cast<double>(options_.prepare_memory_bytes)),
                .walk_seconds = walk},
               rates_);
  }

  // Whether the plan is there; if it is not, it must find room.
  absl::StatusOr<bool> Exists(double bytes) const {
    if (job_.plans == nullptr || job_.passes.empty()) return false;
    const IdentifiedPlan plan =
        IdentifyPlan({.fingerprint = job_.basis.manifest.fingerprint,
                      .row_bytes = job_.basis.row_bytes(),
                      .options = options_,
                      .folder = job_.plans->options().folder},
                     job_.passes);
    if (ReadPlanIndex(*job_.files, plan.identity).ok()) return true;
    HEARTH_ASSIGN_OR_RETURN(const plan::PlanSpace space,
                            job_.plans->Space(plan.identity.name));
    double most = static_cast<double>(space.bytes);
    if (options_.disk_limit_bytes > 0) {
      most = std::min(most, static_cast<double>(options_.disk_limit_bytes));
    }
    if (bytes <= most) return false;
    return absl::ResourceExhaustedError(absl::StrCat(
        "its plan takes ", FormatByteSize(static_cast<uint64_t>(bytes)),
        " of disk, and ", FormatByteSize(static_cast<uint64_t>(most)),
        " are left"));
  }

  const DiskgnnOptions options_;
  const PricedJob& job_;
  // Rows in memory, and the share of accesses to others.
  const double rows_;
  const double missed_;
  const MachineRates rates_;
};

}  // namespace

absl::StatusOr<Price> PriceDiskgnn(const DiskgnnOptions& options,
                                   const PricedJob& job) {
  return Pricing(options, job).Run();
}

}  // namespace hearth::strategy
