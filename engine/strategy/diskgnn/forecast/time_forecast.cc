#include "engine/strategy/diskgnn/forecast/time_forecast.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hearth::strategy {
namespace {

// Work of one stage in an epoch, over its threads: of processors, and waiting
// for the disk.
struct Work {
  const char* name;
  int threads;
  double compute;
  double wait;
  // Processors that are busy while it computes.
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
  // The first batch waits for each stage in turn.
  if (shape.batches > 0) {
    const double alone = all / shape.batches;
    time.seconds += std::max(0.0, alone - time.seconds / shape.batches);
  }
  return time;
}

double PackingSeconds(const PlanVolume& plan, const PackingWork& work,
                      const MachineRates& rates) {
  const double read = work.features + plan.disk_cache + plan.memory_image;
  const double written = plan.packs + plan.memory_image + 2 * plan.disk_cache;
  // One walk plans the segments, another one makes the tables, and each sample
  // is checked on its way.
  return 2 * work.walk_seconds + work.memory * rates.memory_seconds_per_byte +
         plan.samples * rates.decode_seconds_per_byte +
         read / rates.scan_bytes_per_second +
         written / rates.write_bytes_per_second +
         plan.rows * rates.row_copy_seconds +
         (plan.packs + plan.disk_cache) * rates.checksum_seconds_per_byte;
}

}  // namespace hearth::strategy
