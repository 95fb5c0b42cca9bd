#include "engine/strategy/diskgnn/row_assembler.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/train/train_step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/widen.h"

namespace hearth::strategy {
namespace {

using cuda::FakeCuda;
using ::testing::HasSubstr;

// Rows whose elements encode level and row: distinct halves with small numbers.
std::vector<uint16_t> MakeRows(int64_t rows, int64_t dim, uint16_t first) {
  std::vector<uint16_t> halves(static_cast<size_t>(rows * dim));
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(first + i % 5000);
  }
  return halves;
}

absl::Span<const std::byte> BytesOf(const std::vector<uint16_t>& halves) {
  return {reinterpret_cast<const std::byte*>(halves.data()),
          halves.size() * sizeof(uint16_t)};
}

// A model's stream, which copies rows and then gives them to the host.
class Model {
 public:
  explicit Model(const FakeCuda& fake) {
    EXPECT_EQ(FakeCuda::table().stream_create(0, &native_), 0);
    stream_ = *cuda::Stream::Wrap(fake.device(), native_);
    inputs_ = *cuda::Memory::Allocate(fake.device(),
                                      cuda::Memory::Kind::kDevice, 1 << 10);
  }
  ~Model() {
    stream_.reset();
    (void)FakeCuda::table().stream_destroy(native_);
  }

  absl::Status Queue(const train::DeviceRows& rows) {
    return rows.QueueCopy(native_, reinterpret_cast<float*>(inputs_.data()));
  }

  // Waits for the copy and returns the rows.
  absl::StatusOr<std::vector<float>> Take(size_t elements) {
    std::vector<float> out(elements);
    absl::Status status =
        stream_->Copy(out.data(), inputs_.data(), out.size() * sizeof(float));
    status.Update(stream_->Wait());
    if (!status.ok()) return status;
    return out;
  }

 private:
  HearthCudaStream* native_ = nullptr;
  cuda::Memory inputs_;
  std::unique_ptr<cuda::Stream> stream_;
};

// A plan's images and batches of its rows.
class AssemblerWorld {
 public:
  AssemblerWorld(int64_t gpu_rows, int64_t cpu_rows, int64_t dim = 3)
      : dim_(dim),
        gpu_(MakeRows(gpu_rows, dim, 0)),
        cpu_(MakeRows(cpu_rows, dim, 5000)),
        disk_(MakeRows(4, dim, 10'000)),
        packed_(MakeRows(5, dim, 15'000)) {
    layout_.row_bytes = dim * 2;
    layout_.rows = {.gpu = gpu_rows, .cpu = cpu_rows};
    layout_.gpu_crc = Write(kGpuCacheFile, gpu_);
    layout_.cpu_crc = Write(kCpuCacheFile, cpu_);
    // Positions of the four levels take turns.
    for (int32_t i = 0; i < 4; ++i) {
      if (gpu_rows > 0) Add(table_.gpu, 4 * i, i * (gpu_rows - 1) / 3);
      if (cpu_rows > 0) Add(table_.cpu, 4 * i + 1, i * (cpu_rows - 1) / 3);
      Add(table_.disk, 4 * i + 2, 7 * i);
      table_.packed.push_back(4 * i + 3);
    }
  }

  LevelImages images() {
    return {.files = files_,
            .folder = scratch_.Path("."),
            .layout = layout_,
            .format = {.dim = dim_, .dtype = store::DType::kFloat16}};
  }

  LoadedRows batch() const {
    return {
        .table = table_, .disk = BytesOf(disk_), .packed = BytesOf(packed_)};
  }

  // Assembles a batch and compares its rows.
  absl::Status Assemble(RowAssembler& assembler) const {
    const size_t rows = 16;
    std::vector<float> out(rows * static_cast<size_t>(dim_), -1);
    const absl::Status status = assembler.Assemble(batch(), team(), out.data());
    if (status.ok()) {
      EXPECT_EQ(out, Expected());
    }
    return status;
  }

  // Assembles a batch that stays on the device, and compares the rows that
  // `model` copies.
  absl::Status AssembleFor(Model& model, RowAssembler& assembler) const {
    auto rows = assembler.AssembleOnDevice(batch());
    HEARTH_RETURN_IF_ERROR(rows.status());
    HEARTH_RETURN_IF_ERROR(model.Queue(**rows));
    HEARTH_ASSIGN_OR_RETURN(const std::vector<float> out,
                            model.Take(16 * static_cast<size_t>(dim_)));
    EXPECT_EQ(out, Expected());
    return absl::OkStatus();
  }

  ThreadTeam& team() const { return *team_; }
  io::FaultyFileSystem& files() { return files_; }
  PackedLayout& layout() { return layout_; }

 private:
  uint32_t Write(const char* name, const std::vector<uint16_t>& halves) {
    const absl::Span<const std::byte> bytes = BytesOf(halves);
    EXPECT_TRUE(io::WriteFileAtomically(
                    io::FileSystem::Posix(), scratch_.Path(name),
                    {reinterpret_cast<const char*>(bytes.data()), bytes.size()})
                    .ok());
    return Crc32c(bytes);
  }

  static void Add(LevelAddresses& level, int32_t position, int64_t row) {
    level.positions.push_back(position);
    level.rows.push_back(row);
  }

  void Put(const std::vector<uint16_t>& halves, int64_t row, int32_t position,
           std::vector<float>& out) const {
    for (int64_t i = 0; i < dim_; ++i) {
      out[static_cast<size_t>(position * dim_ + i)] =
          kernels::WidenFloat16(halves[static_cast<size_t>(row * dim_ + i)]);
    }
  }

  std::vector<float> Expected() const {
    std::vector<float> out(16 * static_cast<size_t>(dim_), -1);
    for (size_t i = 0; i < table_.gpu.rows.size(); ++i) {
      Put(gpu_, table_.gpu.rows[i], table_.gpu.positions[i], out);
    }
    for (size_t i = 0; i < table_.cpu.rows.size(); ++i) {
      Put(cpu_, table_.cpu.rows[i], table_.cpu.positions[i], out);
    }
    for (size_t i = 0; i < 4; ++i) {
      const auto row = static_cast<int64_t>(i);
      Put(disk_, row, table_.disk.positions[i], out);
      Put(packed_, row, table_.packed[i], out);
    }
    return out;
  }

  const io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  const std::unique_ptr<ThreadTeam> team_ = *ThreadTeam::Create(2);
  const int64_t dim_;
  const std::vector<uint16_t> gpu_;
  const std::vector<uint16_t> cpu_;
  const std::vector<uint16_t> disk_;
  const std::vector<uint16_t> packed_;
  PackedLayout layout_;
  AddressTable table_;
};

enum class Where { kCpu, kGpuAtOnce, kGpuWhenWaitedFor };

class RowAssemblerTest : public ::testing::TestWithParam<Where> {
 protected:
  RowAssemblerTest() {
    if (GetParam() == Where::kCpu) return;
    fake_.emplace(GetParam() == Where::kGpuAtOnce
                      ? FakeCuda::Work::kAtOnce
                      : FakeCuda::Work::kWhenWaitedFor);
  }

  absl::StatusOr<std::unique_ptr<RowAssembler>> Make(
      AssemblerWorld& world, const std::stop_token& stop = {}) const {
    return fake_.has_value()
               ? NewCudaRowAssembler(fake_->device(), world.images(), stop)
               : NewCpuRowAssembler(world.images(), stop);
  }

  // Absent for an assembler on the CPU.
  std::optional<FakeCuda> fake_;
};

TEST_P(RowAssemblerTest, BringsRowsOfAllLevelsTogether) {
  for (const int64_t dim : {3, 8}) {
    AssemblerWorld world(10, 20, dim);
    const auto assembler = Make(world);
    ASSERT_TRUE(assembler.ok()) << assembler.status();
    for (int batch = 0; batch < 3; ++batch) {
      EXPECT_EQ(world.Assemble(**assembler), absl::OkStatus());
      if (batch == 1) (*assembler)->Rest();
    }
  }
}

TEST_P(RowAssemblerTest, BringsNothingTogether) {
  AssemblerWorld world(0, 0);
  const auto assembler = Make(world);
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  const AddressTable none;
  EXPECT_EQ((*assembler)
                ->Assemble({.table = none, .disk = {}, .packed = {}},
                           world.team(), nullptr),
            absl::OkStatus());
}

TEST_P(RowAssemblerTest, LeavesRowsOnADeviceAlone) {
  AssemblerWorld world(10, 20);
  const auto assembler = Make(world);
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  const auto rows = (*assembler)->AssembleOnDevice(world.batch());
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(*rows == nullptr, GetParam() == Where::kCpu);
}

TEST_P(RowAssemblerTest, SomeLevelsOfABatchAreEmpty) {
  AssemblerWorld world(10, 20);
  const auto assembler = Make(world);
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  AddressTable table = world.batch().table;
  table.gpu = {.positions = {0, 1}, .rows = {9, 0}};
  table.cpu = {};
  table.disk = {};
  table.packed = {2};
  std::vector<float> out(9);
  EXPECT_EQ(
      (*assembler)
          ->Assemble(
              {.table = table, .disk = {}, .packed = world.batch().packed},
              world.team(), out.data()),
      absl::OkStatus());
  EXPECT_EQ(out[0], kernels::WidenFloat16(27));
  EXPECT_EQ(out[5], kernels::WidenFloat16(2));
  EXPECT_EQ(out[6], kernels::WidenFloat16(15'000));
  // A larger batch needs a larger buffer.
  EXPECT_EQ(world.Assemble(**assembler), absl::OkStatus());
}

TEST_P(RowAssemblerTest, ACacheIsLargerThanWhatItIsLoadedThrough) {
  // 9 MiB.
  AssemblerWorld world(90'001, 3, 52);
  const auto assembler = Make(world);
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  EXPECT_EQ(world.Assemble(**assembler), absl::OkStatus());
}

TEST_P(RowAssemblerTest, DamageOnTheWayIsReadOnceMore) {
  AssemblerWorld world(90'001, 20, 52);
  for (const int64_t nth : {1, 3, 4}) {
    world.files().Inject({.nth = nth,
                          .effect = io::Effect::kCorruptRead,
                          .only = io::Operation::kRead});
    const auto assembler = Make(world);
    ASSERT_TRUE(assembler.ok()) << assembler.status();
    EXPECT_GT(world.files().hits(), 0);
    world.files().Clear();
    EXPECT_EQ(world.Assemble(**assembler), absl::OkStatus());
  }
}

TEST_P(RowAssemblerTest, DamageOfEitherCacheIsNamed) {
  AssemblerWorld world(10, 20);
  world.layout().gpu_crc ^= 1;
  absl::Status status = Make(world).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("gpu_cache"));
  world.layout().gpu_crc ^= 1;
  world.layout().cpu_crc ^= 1;
  status = Make(world).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("cpu_cache"));
}

TEST_P(RowAssemblerTest, LoadingStopsOnRequest) {
  AssemblerWorld world(10, 20);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Make(world, stop.get_token()).status()));
}

std::string NameOf(const ::testing::TestParamInfo<Where>& info) {
  constexpr const char* kNames[] = {"Cpu", "GpuAtOnce", "GpuWhenWaitedFor"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Where, RowAssemblerTest,
                         ::testing::Values(Where::kCpu, Where::kGpuAtOnce,
                                           Where::kGpuWhenWaitedFor),
                         NameOf);

class CudaRowAssemblerTest : public ::testing::Test {
 protected:
  absl::Status MakeAndAssemble() {
    const auto assembler =
        NewCudaRowAssembler(fake_.device(), world_.images(), {});
    if (!assembler.ok()) return assembler.status();
    return world_.Assemble(**assembler);
  }

  absl::Status MakeAndAssembleFor(Model& model) {
    const auto assembler =
        NewCudaRowAssembler(fake_.device(), world_.images(), {});
    if (!assembler.ok()) return assembler.status();
    for (int batch = 0; batch < 2; ++batch) {
      HEARTH_RETURN_IF_ERROR(world_.AssembleFor(model, **assembler));
    }
    // The copies of the last batch are awaited by the next batch.
    return world_.Assemble(**assembler);
  }

  FakeCuda fake_;
  AssemblerWorld world_{10, 20};
};

TEST_F(CudaRowAssemblerTest, OneKernelForABatch) {
  EXPECT_EQ(MakeAndAssemble(), absl::OkStatus());
  EXPECT_EQ(fake_.scatters(), 1);
}

TEST_F(CudaRowAssemblerTest, RowsLieWhereTheyBelong) {
  const auto assembler =
      NewCudaRowAssembler(fake_.device(), world_.images(), {});
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  EXPECT_EQ(fake_.device_bytes(), 10 * 3 * 2);
  EXPECT_EQ(fake_.pinned_bytes(), 20 * 3 * 2);
  EXPECT_EQ(world_.Assemble(**assembler), absl::OkStatus());
  const int64_t with_room = fake_.device_bytes();
  EXPECT_GE(with_room, 10 * 3 * 2 + 16 * 3 * 4);
  EXPECT_EQ(world_.Assemble(**assembler), absl::OkStatus());
  EXPECT_EQ(fake_.device_bytes(), with_room);
  (*assembler)->Rest();
  EXPECT_EQ(fake_.device_bytes(), 10 * 3 * 2);
}

TEST_F(CudaRowAssemblerTest, RowsStayForModels) {
  Model model(fake_);
  const auto assembler =
      NewCudaRowAssembler(fake_.device(), world_.images(), {});
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  for (int batch = 0; batch < 3; ++batch) {
    EXPECT_EQ(world_.AssembleFor(model, **assembler), absl::OkStatus());
    EXPECT_EQ(world_.Assemble(**assembler), absl::OkStatus());
    if (batch == 1) (*assembler)->Rest();
  }
}

TEST_F(CudaRowAssemblerTest, BatchesFollowEachOtherWithoutAWait) {
  Model models[] = {Model(fake_), Model(fake_), Model(fake_)};
  const auto assembler =
      NewCudaRowAssembler(fake_.device(), world_.images(), {});
  ASSERT_TRUE(assembler.ok()) << assembler.status();
  std::vector<float> expected(16 * 3);
  AddressTable table = world_.batch().table;
  const auto cpu = NewCpuRowAssembler(world_.images(), {});
  ASSERT_TRUE(cpu.ok()) << cpu.status();
  std::vector<AddressTable> tables;
  for (int64_t i = 0; i < 3; ++i) {
    table.gpu.rows = {i, i + 1, i + 2, i + 3};
    table.cpu.rows = {9 - i, 8, 7, i};
    tables.push_back(table);
  }
  const auto batch_of = [&](const AddressTable& of) {
    const LoadedRows batch = world_.batch();
    return LoadedRows{.table = of, .disk = batch.disk, .packed = batch.packed};
  };
  std::vector<std::unique_ptr<const train::DeviceRows>> rows;
  for (size_t i = 0; i < tables.size(); ++i) {
    auto left = (*assembler)->AssembleOnDevice(batch_of(tables[i]));
    ASSERT_TRUE(left.ok()) << left.status();
    rows.push_back(*std::move(left));
  }
  // Both batches use the one staging area in turn.
  EXPECT_EQ(fake_.scatters(), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(models[i].Queue(*rows[i]), absl::OkStatus());
    rows[i].reset();
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(
        (*cpu)->Assemble(batch_of(tables[i]), world_.team(), expected.data()),
        absl::OkStatus());
    EXPECT_EQ(*models[i].Take(expected.size()), expected);
  }
}

TEST_F(CudaRowAssemblerTest, EveryCallMayFailWhereRowsStay) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    Model own(fake_);
    fake_.FailCall(nth);
    const absl::Status status = MakeAndAssembleFor(own);
    failed = fake_.failed();
    fake_.FailCall(0);
    // The last calls come from destructors of streams.
    if (failed && status.ok()) continue;
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 50);
}

TEST_F(CudaRowAssemblerTest, EveryWorkMayFailWhereRowsStay) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    Model own(fake_);
    fake_.FailWork(nth);
    const absl::Status status = MakeAndAssembleFor(own);
    failed = fake_.failed();
    fake_.FailWork(0);
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 30);
}

TEST_F(CudaRowAssemblerTest, EveryCallMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    fake_.FailCall(nth);
    const absl::Status status = MakeAndAssemble();
    failed = fake_.failed();
    // The last call comes from the destructor of the stream.
    if (failed && status.ok()) continue;
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 20);
}

TEST_F(CudaRowAssemblerTest, EveryWorkMayFail) {
  int64_t nth = 1;
  for (bool failed = true; failed; ++nth) {
    fake_.FailWork(nth);
    const absl::Status status = MakeAndAssemble();
    failed = fake_.failed();
    EXPECT_EQ(absl::IsInternal(status), failed) << nth << ": " << status;
  }
  EXPECT_GT(nth, 10);
}

TEST_F(CudaRowAssemblerTest, TooLittleMemoryIsNamedWithItsSize) {
  // Allocations of the GPU cache, of its load buffer and of the CPU cache; of a
  // batch's rows, and of its staging area.
  std::vector<std::string> messages;
  for (int64_t nth = 1; nth < 25; ++nth) {
    fake_.FailCall(nth, HEARTH_CUDA_OUT_OF_MEMORY);
    const absl::Status status = MakeAndAssemble();
    if (status.message().find("allocating") == absl::string_view::npos) {
      continue;
    }
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    messages.emplace_back(status.message());
  }
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_THAT(messages[0], HasSubstr("60 bytes of device memory"));
  EXPECT_THAT(messages[1], HasSubstr("4194304 bytes of pinned host memory"));
  EXPECT_THAT(messages[2], HasSubstr("120 bytes of pinned host memory"));
  EXPECT_THAT(messages[3], HasSubstr("192 bytes of device memory"));
  EXPECT_THAT(messages[4], HasSubstr("bytes of device memory"));
}

}  // namespace
}  // namespace hearth::strategy
