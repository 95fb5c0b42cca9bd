#include "engine/strategy/diskgnn/forecast/time_forecast.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"

namespace hearth::strategy {

namespace {

// Seconds of one stage in an epoch, per thread: of computing, and of waiting
// for the disk.
struct Work {
  const char* name;
  int threads;
  double compute;
  double wait;
  // Threads that are busy while the stage computes.
  int processors = 1;

  double Seconds() const { return (compute + wait) / threads; }
};

double PageSeconds(const EpochVolume& epoch, const MachineRates& rates) {
  if (epoch.page_reads <= 0 || rates.pages_per_second <= 0) return 0;
  return std::max(epoch.page_reads / rates.pages_per_second,
                  epoch.page_bytes / rates.read_bytes_per_second);
}

}  // namespace

EpochTime TimeOfEpoch(const EpochVolume& epoch, const PassShape& shape,
                      const MachineRates& rates) {
  const double chunk_bytes = epoch.table_bytes + epoch.packed_bytes;
  const double pages = PageSeconds(epoch, rates);
  const std::array<Work, 4> stages = {
      Work{.name = "graph loader",
           .threads = shape.loaders,
           .compute = epoch.sample_bytes * rates.decode_seconds_per_byte,
           .wait = epoch.sample_bytes / rates.read_bytes_per_second},
      Work{.name = "feature loader",
           .threads = shape.loaders,
           .compute = (chunk_bytes + epoch.page_bytes) *
                          rates.checksum_seconds_per_byte +
                      epoch.table_bytes * rates.decode_seconds_per_byte +
                      epoch.disk_rows * rates.row_copy_seconds,
           .wait = chunk_bytes / rates.read_bytes_per_second + pages},
      Work{.name = "assembler",
           .threads = shape.loaders,
           .compute = epoch.rows * rates.row_copy_seconds,
           .wait = 0},
      Work{.name = "trainer",
           .threads = 1,
           .compute = shape.batches * shape.train_seconds,
           .wait = 0,
           .processors = std::min(shape.train_threads, shape.processors)}};
  EpochTime time;
  const auto bound = [&](const char* name, double seconds) {
    if (seconds > time.seconds) time = {.seconds = seconds, .bound = name};
  };
  double compute = 0;
  double all = 0;
  for (const Work& stage : stages) {
    bound(stage.name, stage.Seconds());
    compute += stage.compute * stage.processors;
    all += stage.compute + stage.wait;
  }
  bound(
      "disk",
      (epoch.sample_bytes + chunk_bytes) / rates.pass_bytes_per_second + pages);
  bound("processors", compute / shape.processors);
  // The first batch goes through one stage after the other.
  if (shape.batches > 0) {
    const double alone = all / shape.batches;
    time.seconds += std::max(0.0, alone - time.seconds / shape.batches);
  }
  return time;
}

double PackingSeconds(const PlanSize& plan, const PackingWork& work,
                      const MachineRates& rates) {
  const double read = work.features + plan.disk_cache + plan.memory_image;
  const double written = plan.packs + plan.memory_image + 2 * plan.disk_cache;
  // One walk plans the segments, another makes the tables; each sample is
  // checked when it is copied.
  return 2 * work.walk_seconds + work.memory * rates.memory_seconds_per_byte +
         plan.samples * rates.decode_seconds_per_byte +
         read / rates.scan_bytes_per_second +
         written / rates.write_bytes_per_second +
         plan.rows * rates.row_copy_seconds +
         (plan.packs + plan.disk_cache) * rates.checksum_seconds_per_byte;
}

namespace {

std::string RateText(double bytes_per_second) {
  return absl::StrCat(FormatByteSize(static_cast<uint64_t>(bytes_per_second)),
                      " a second");
}

std::string BasisNote(const ForecastSummary& summary) {
  if (summary.plan_exists) {
    return "The plan exists: figures of rows, bytes and disk are taken from "
           "it.";
  }
  if (summary.sampled_batches == summary.total_batches) {
    return absl::StrCat("All ", summary.total_batches,
                        " batches were sampled: figures of rows, bytes and "
                        "disk are exact.");
  }
  return absl::StrCat(summary.sampled_batches, " of ", summary.total_batches,
                      " batches were sampled, spread evenly: figures of rows, "
                      "bytes and disk are estimates.");
}

std::string LevelsNote(const LayoutForecast& layout) {
  const double all = std::max(1.0, layout.epoch.rows);
  return absl::StrFormat(
      "With %d rows in memory and %d in the disk cache, an epoch finds %.1f%% "
      "of its rows in memory, %.1f%% in the disk cache and %.1f%% in packs.",
      layout.memory_rows, layout.disk_cache_rows,
      100 * layout.epoch.cpu_rows / all, 100 * layout.epoch.disk_rows / all,
      100 * layout.epoch.packed_rows / all);
}

}  // namespace

std::vector<std::string> NotesOf(const ForecastSummary& summary) {
  std::vector<std::string> notes = {
      BasisNote(summary),
      absl::StrCat("The layout ", summary.plan_exists ? "has " : "would have ",
                   summary.layout.reason, "."),
      LevelsNote(summary.layout)};
  if (!summary.plan_exists &&
      summary.layout.segment_size >
          static_cast<int64_t>(summary.sampled_batches)) {
    notes.push_back(
        "Segments would have more batches than were sampled: how many pages of "
        "the disk cache a batch reads is extrapolated, and less sure.");
  }
  notes.push_back(absl::StrFormat(
      "The epoch is bound by the %s: the disk reads %s, a training step takes "
      "%.4f s.",
      summary.epoch.bound, RateText(summary.rates.pass_bytes_per_second),
      summary.train_seconds));
  if (!summary.plan_exists) {
    notes.push_back(absl::StrFormat(
        "Preparing takes %.1f s to sample, %.1f s to plan and %.1f s to pack; "
        "the disk writes %s.",
        summary.preparation.sampling, summary.preparation.planning,
        summary.preparation.packing,
        RateText(summary.rates.write_bytes_per_second)));
  }
  notes.push_back(
      "Times follow from short measurements on the machine as busy as it was; "
      "packing, which takes memory that was not used before, may take longer.");
  return notes;
}

}  // namespace hearth::strategy
