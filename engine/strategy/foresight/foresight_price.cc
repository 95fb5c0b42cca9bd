#include "engine/strategy/foresight/foresight_price.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/plan/optimal_cache.h"
#include "engine/strategy/foresight/generation.h"
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

class Pricing {
 public:
  Pricing(const ForesightOptions& options, const PricedJob& job)
      : options_(options),
        job_(job),
        misses_(job.work.misses->Optimal(
            static_cast<double>(plan::OptimalCache::Capacity(
                {.num_nodes = job.basis.num_nodes(),
                 .num_slots = SlotsOf(options, job.basis.num_nodes(),
                                      job.basis.row_bytes())
                                  .total(),
                 .reuse_distance = kReuseBatches,
                 .scratch_path = ""})))) {}

  Price Run() {
    const Workload& work = job_.work;
    // Epochs whose batches are sampled, planned and packed, out of all.
    const double made =
        std::min(work.distinct_epochs, work.epochs / work.periods) *
        work.periods;
    const double rows = misses_.later * job_.row_bytes();
    double scans = 0;
    for (double done = 0; done < made; done += LengthAt(done, made)) ++scans;
    packed_ = ScanSeconds() * scans / made +
                  rows / job_.disk.write_bytes_per_second +
                  rows / job_.disk.BytesPerSecond(1) <=
              Direct(misses_.later).seconds;
    Price price;
    PricePasses(
        job_, misses_,
        [&](double missed, const PassLoad& load) {
          return Running(missed, load);
        },
        price);
    PriceGenerations(made, price);
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

  // Reading all features in order, by one thread that also checks them, into
  // memory that it gets.
  double ScanSeconds() const {
    return job_.feature_bytes() * (1 / job_.disk.BytesPerSecond(1) +
                                   job_.disk.checksum_seconds_per_byte) +
           static_cast<double>(PackingBytes(
               job_.basis.num_nodes(), job_.basis.row_bytes(),
               job_.basis.pipeline.samplers, options_.makes_apart)) *
               job_.disk.memory_seconds_per_byte;
  }

  // Seconds of sampling so many epochs, and of planning, in epochs.
  double AheadSeconds(double sampled, double planned) const {
    const Workload& of = job_.work;
    const int samplers =
        std::min(job_.basis.pipeline.samplers, job_.processors);
    return of.training.batches *
           (sampled *
                std::max(of.sample_seconds / samplers,
                         of.SampleBytes() / job_.disk.write_bytes_per_second) +
            planned * of.rows * kPlanSeconds);
  }

  // Seconds of fetching the rows that so many epochs lack, before they are
  // delivered.
  double FetchSeconds(double epochs) const {
    if (!packed_) return 0;
    return ScanSeconds() +
           epochs * misses_.later *
               (job_.row_bytes() / job_.disk.write_bytes_per_second +
                job_.disk.CopySeconds(
                    static_cast<uint64_t>(job_.basis.row_bytes())));
  }

  // Delivering a part of an epoch, while batches of so many epochs are sampled,
  // planned and packed.
  StrategyWork RunningBeside(const PassLoad& load, double made) const {
    const Workload& of = job_.work;
    StrategyWork work = Running(
        misses_.later * load.batches / std::max(of.training.batches, 1.0),
        load);
    if (made <= 0) return work;
    const double batches = made * of.training.batches;
    const double samples = batches * of.SampleBytes();
    work.read_seconds += samples / job_.disk.write_bytes_per_second;
    work.processor_seconds += batches * of.sample_seconds +
                              samples * kSampleSecondsPerByte +
                              batches * of.rows * kPlanSeconds;
    if (packed_) {
      const double rows = made * misses_.later;
      work.read_seconds += FetchSeconds(made);
      work.processor_seconds +=
          (rows * job_.row_bytes() + job_.feature_bytes()) *
              job_.disk.checksum_seconds_per_byte +
          rows * job_.disk.CopySeconds(
                     static_cast<uint64_t>(job_.basis.row_bytes()));
    }
    return work;
  }

  // Fills in preparation and training epochs, of which `made` are made in
  // generations, each while the one before it is delivered.
  void PriceGenerations(double made, Price& price) const {
    const Workload& of = job_.work;
    double length = LengthAt(0, made);
    // Whole epochs are sampled; of the last one the rest is looked at. The
    // cache is filled.
    const double sampled = std::min(made, std::ceil(length));
    price.prepare_seconds =
        AheadSeconds(sampled, length + (sampled - length) / 2) +
        (packed_ ? FetchSeconds(length) : Direct(misses_.first / 2).seconds);
    double fetching = FetchSeconds(length);
    double seconds = 0;
    double first_epoch = price.first_epoch_seconds;
    for (double done = 0; done < made; done += length) {
      length = LengthAt(done, made);
      const double end = done + length;
      const double next = end < made ? LengthAt(end, made) : 0;
      if (done < 1 && end >= 1) {
        const PassLoad rest = Load(1 - done);
        first_epoch = seconds + PassSeconds(job_, rest, RunningBeside(rest, 0));
      }
      const PassLoad load = Load(length);
      double making = 0;
      if (next > 0) {
        // Sampling and planning go on while the generation before is packed.
        making = std::max(0.0, AheadSeconds(next, next) - fetching);
        fetching = FetchSeconds(next);
        making += fetching;
      }
      seconds +=
          std::max(PassSeconds(job_, load, RunningBeside(load, next)), making);
    }
    price.first_epoch_seconds = first_epoch;
    if (of.epochs > 1) {
      price.epoch_seconds = (std::max(0.0, seconds - first_epoch) +
                             (of.epochs - made) * price.epoch_seconds) /
                            (of.epochs - 1);
    }
  }

  // A part of a training pass.
  PassLoad Load(double epochs) const {
    return {.batches = epochs * job_.work.training.batches,
            .step_seconds = job_.work.training.step_seconds};
  }

  // Epochs of the generation behind `done` epochs, out of `made` in all, as
  // Timeline cuts them.
  double LengthAt(double done, double made) const {
    const double length =
        std::min(Timeline::kGrowth * done + options_.first_epochs,
                 static_cast<double>(Timeline::kMostPasses));
    const double rest = made - done - length;
    return rest < std::max(1.0 / 8, length / 4) ? made - done : length;
  }

  const ForesightOptions& options_;
  const PricedJob& job_;
  const MissCurves::Misses misses_;
  bool packed_ = true;
};

}  // namespace

absl::StatusOr<Price> PriceForesight(const ForesightOptions& options,
                                     const PricedJob& job) {
  return Pricing(options, job).Run();
}

}  // namespace hearth::strategy
