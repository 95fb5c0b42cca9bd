#include "engine/strategy/diskgnn/forecast/time_forecast.h"

#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

constexpr double kGiga = 1e9;

EpochVolume Epoch() {
  return {.rows = 1e6,
          .cpu_rows = 5e5,
          .disk_rows = 2e5,
          .packed_rows = 3e5,
          .sample_bytes = 1e9,
          .table_bytes = 1e9,
          .packed_bytes = 2e9};
}

MachineRates Rates() {
  return {.read_bytes_per_second = kGiga,
          .pass_bytes_per_second = 2 * kGiga,
          .scan_bytes_per_second = kGiga / 2,
          .write_bytes_per_second = kGiga};
}

TEST(TimeOfEpochTest, TheSlowestLoaderBoundsIt) {
  // 3 s of 4 GB.
  const EpochTime time =
      TimeOfEpoch(Epoch(), {.processors = 4, .batches = 1e9}, Rates());
  EXPECT_EQ(time.bound, "feature loader");
  EXPECT_NEAR(time.seconds, 3, 1e-6);
}

TEST(TimeOfEpochTest, MoreLoadersAreBoundByTheDisk) {
  const EpochTime time = TimeOfEpoch(
      Epoch(), {.loaders = 8, .processors = 4, .batches = 1e9}, Rates());
  EXPECT_EQ(time.bound, "disk");
  EXPECT_NEAR(time.seconds, 2, 1e-6);
}

TEST(TimeOfEpochTest, PagesTakeRequestsOrBytes) {
  EpochVolume epoch = Epoch();
  epoch.page_reads = 1e6;
  epoch.page_bytes = 4e9;
  MachineRates rates = Rates();
  rates.pages_per_second = 1e5;
  const PassShape shape = {.processors = 4, .batches = 1e9};
  EXPECT_NEAR(TimeOfEpoch(epoch, shape, rates).seconds, 3 + 10, 1e-6);
  rates.pages_per_second = 1e6;
  EXPECT_NEAR(TimeOfEpoch(epoch, shape, rates).seconds, 3 + 4, 1e-6);
}

TEST(TimeOfEpochTest, ASlowTrainerOrAssemblerBoundsIt) {
  PassShape shape = {.processors = 4, .batches = 100, .train_seconds = 0.5};
  EpochTime time = TimeOfEpoch(Epoch(), shape, Rates());
  EXPECT_EQ(time.bound, "trainer");
  // Plus the first batch's other stages: 4 s for 100 batches.
  EXPECT_NEAR(time.seconds, 50 + 0.04, 1e-6);
  MachineRates rates = Rates();
  rates.row_copy_seconds = 1e-3;
  time = TimeOfEpoch(Epoch(), shape, rates);
  EXPECT_EQ(time.bound, "assembler");
  EXPECT_GT(time.seconds, 1000);
  const double alone = time.seconds;
  shape.loaders = 4;
  shape.processors = 16;
  time = TimeOfEpoch(Epoch(), shape, rates);
  EXPECT_EQ(time.bound, "assembler");
  EXPECT_LT(time.seconds, 0.3 * alone);
}

TEST(TimeOfEpochTest, AllWorkSharesTheProcessors) {
  MachineRates rates = Rates();
  rates.row_copy_seconds = 20e-6;  // 20 s to assemble, 4 s to load.
  const PassShape shape = {.processors = 2,
                           .batches = 1e9,
                           .train_seconds = 25e-9,  // 25 s.
                           .train_threads = 2};
  const EpochTime time = TimeOfEpoch(Epoch(), shape, rates);
  EXPECT_EQ(time.bound, "processors");
  EXPECT_NEAR(time.seconds, (20 + 4 + 2 * 25) / 2.0, 1e-3);
}

TEST(TimeOfEpochTest, AloneABatchPassesOneStageAfterTheOther) {
  const EpochTime time =
      TimeOfEpoch(Epoch(), {.processors = 4, .batches = 1}, Rates());
  EXPECT_NEAR(time.seconds, 4, 1e-6);
}

TEST(PackingSecondsTest, StepsFollowEachOther) {
  MachineRates rates = Rates();
  rates.row_copy_seconds = 1e-6;
  rates.decode_seconds_per_byte = 1e-9;
  rates.checksum_seconds_per_byte = 1e-10;
  rates.memory_seconds_per_byte = 2e-9;
  const PlanSize plan = {.samples = 1e9,
                         .packs = 5e9,
                         .disk_cache = 1e9,
                         .memory_image = 2e9,
                         .rows = 3e6};
  const double scanned = 7e9 + 1e9 + 2e9;
  const double written = 5e9 + 2e9 + 2 * 1e9;
  EXPECT_NEAR(
      PackingSeconds(
          plan, {.features = 7e9, .memory = 1e9, .walk_seconds = 1.5}, rates),
      2 * 1.5 + 1 + 2 + scanned / (kGiga / 2) + written / kGiga + 3 + 0.6,
      1e-6);
}

}  // namespace
}  // namespace hearth::strategy
