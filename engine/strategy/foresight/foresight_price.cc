#include "engine/strategy/foresight/foresight_price.h"

#include <algorithm>
#include <cstdint>

#include "engine/strategy/foresight/row_slots.h"
#include "engine/strategy/foresight/timeline.h"
#include "engine/strategy/pricing/miss_curves.h"
#include "engine/strategy/pricing/workload.h"

namespace hearth::strategy {

namespace {

// Processor seconds of planning an access, and of encoding or decoding a byte
// of a sample.
constexpr double kPlanSeconds = 1e-7;
constexpr double kSampleSecondsPerByte = 1.2e-9;
// Bytes of a row's address in a plan.
constexpr double kAddressBytes = 4;

// Scans of the features for so many epochs with batches of their own.
double Scans(double epochs) {
  double scans = 0;
  double length = 0.5;
  for (double done = 0; done < epochs; done += length, ++scans) {
    if (scans > 0) {
      length = std::min(Timeline::kGrowth * done + 0.5,
                        static_cast<double>(Timeline::kMostPasses));
    }
  }
  return scans;
}

class Pricing {
 public:
  Pricing(const ForesightOptions& options, const PricedJob& job)
      : options_(options),
        job_(job),
        misses_(job.work.misses->Optimal(
            std::min(static_cast<double>(options.cpu_cache_bytes) /
                         static_cast<double>(
                             RowSlots::MemoryBytes(1, job.basis.row_bytes())),
                     static_cast<double>(job.basis.num_nodes())))) {}

  Price Run() {
    const Workload& work = job_.work;
    // Epochs whose batches are sampled, planned and packed, out of all.
    const double made =
        std::min(work.distinct_epochs, work.epochs / work.periods) *
        work.periods;
    scan_seconds_ =
        job_.feature_bytes() / job_.disk.BytesPerSecond(1) * Scans(made) / made;
    const double rows = misses_.later * job_.row_bytes();
    packed_ = scan_seconds_ + rows / job_.disk.write_bytes_per_second +
                  rows / job_.disk.BytesPerSecond(1) <=
              Direct(misses_.later).seconds;
    Price price;
    PricePasses(
        job_, misses_,
        [&](double missed, const PassLoad& load) {
          return Running(missed, load);
        },
        price);
    // While it trains, the next epochs are prepared.
    const double making = PassSeconds(job_, work.training, Making());
    const double training = std::max(price.epoch_seconds, making);
    const double later = std::max(0.0, work.epochs - 1);
    const double made_later = std::min(later, made - 1);
    price.first_epoch_seconds = std::max(price.first_epoch_seconds, making);
    if (later > 0) {
      price.epoch_seconds =
          (made_later * training + (later - made_later) * price.epoch_seconds) /
          later;
    }
    price.prepare_seconds = Preparing();
    price.bytes_read =
        rows + work.training.batches *
                   (work.SampleBytes() + work.rows * kAddressBytes);
    price.read_ops = 3 * work.training.batches;
    price.disk_bytes = made * work.training.batches * work.SampleBytes() +
                       2 * (packed_ ? rows : 0);
    return price;
  }

 private:
  RowReads Direct(double missed) const {
    return ReadRows(job_, missed, job_.basis.pipeline.extractors,
                    options_.io_depth);
  }

  // Delivering a pass.
  StrategyWork Running(double missed, const PassLoad& load) const {
    const double samples = load.batches * job_.work.SampleBytes();
    const double bytes =
        samples + load.batches * job_.work.rows * kAddressBytes;
    StrategyWork work = {
        .read_seconds = bytes / job_.disk.BytesPerSecond(1),
        .processor_seconds =
            samples * kSampleSecondsPerByte +
            missed * job_.disk.CopySeconds(
                         static_cast<uint64_t>(job_.basis.row_bytes())),
        .samples = false,
        .assemblers = job_.basis.pipeline.extractors};
    if (packed_) {
      const double rows = missed * job_.row_bytes();
      work.read_seconds += rows / job_.disk.BytesPerSecond(1);
      work.processor_seconds += rows * job_.disk.checksum_seconds_per_byte;
    } else {
      const RowReads reads = Direct(missed);
      work.read_seconds += reads.seconds;
      work.processor_seconds += reads.processor_seconds;
    }
    return work;
  }

  // Delivering a training pass while another one is prepared.
  StrategyWork Making() const {
    const Workload& of = job_.work;
    StrategyWork work = Running(misses_.later, of.training);
    const double samples = of.training.batches * of.SampleBytes();
    work.samples = true;
    work.read_seconds += samples / job_.disk.write_bytes_per_second;
    work.processor_seconds += samples * kSampleSecondsPerByte +
                              2 * of.training.batches * of.rows * kPlanSeconds;
    if (packed_) {
      const double rows = misses_.later * job_.row_bytes();
      work.read_seconds +=
          scan_seconds_ + rows / job_.disk.write_bytes_per_second;
      work.processor_seconds +=
          (rows + scan_seconds_ * job_.disk.BytesPerSecond(1)) *
              job_.disk.checksum_seconds_per_byte +
          misses_.later * job_.disk.CopySeconds(
                              static_cast<uint64_t>(job_.basis.row_bytes()));
    }
    return work;
  }

  // A pass is sampled, half of it planned and packed; the cache is filled.
  double Preparing() const {
    const Workload& of = job_.work;
    const double samples = of.training.batches * of.SampleBytes();
    const double rows = misses_.first * job_.row_bytes() / 2;
    const int samplers =
        std::min(job_.basis.pipeline.samplers, job_.processors);
    const double fetching =
        packed_ ? job_.feature_bytes() / job_.disk.BytesPerSecond(1) +
                      rows / job_.disk.write_bytes_per_second
                : Direct(misses_.first / 2).seconds;
    return std::max(of.training.batches * of.sample_seconds / samplers,
                    samples / job_.disk.write_bytes_per_second) +
           1.5 * of.training.batches * of.rows * kPlanSeconds + fetching;
  }

  const ForesightOptions& options_;
  const PricedJob& job_;
  const MissCurves::Misses misses_;
  // Of the scans of an epoch that is prepared.
  double scan_seconds_ = 0;
  bool packed_ = true;
};

}  // namespace

absl::StatusOr<Price> PriceForesight(const ForesightOptions& options,
                                     const PricedJob& job) {
  return Pricing(options, job).Run();
}

}  // namespace hearth::strategy
