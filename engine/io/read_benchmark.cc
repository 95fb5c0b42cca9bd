// How many random rows are read a second, and what each costs the processor,
// against fio at the same depth (see README.md). HEARTH_BENCHMARK_FILE names a
// file of 4 GiB or more on the disk in question; where it does not exist, it is
// written (default: read_benchmark.data in the working directory):
//   bazel run -c opt //engine/io:read_benchmark

#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"

namespace hearth::io {
namespace {

constexpr uint64_t kFileBytes = uint64_t{4} << 30;
constexpr size_t kBatchRows = 16384;

std::string FilePath() {
  const char* path = std::getenv("HEARTH_BENCHMARK_FILE");
  return path != nullptr ? path : "read_benchmark.data";
}

absl::Status WriteFile(const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          FileSystem::Posix().Create(path));
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<uint64_t> block(1 << 20);
  for (uint64_t at = 0; at < kFileBytes; at += block.size() * 8) {
    for (uint64_t& word : block) word = random.Below(UINT64_MAX);
    HEARTH_RETURN_IF_ERROR(file->Append(
        {reinterpret_cast<const std::byte*>(block.data()), block.size() * 8}));
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::StatusOr<std::unique_ptr<BlockDevice>> OpenFile() {
  const std::string path = FilePath();
  if (absl::IsNotFound(FileSystem::Posix().Stat(path).status())) {
    HEARTH_RETURN_IF_ERROR(WriteFile(path));
  }
  return FileSystem::Posix().OpenBlockDevice(path, {});
}

double ProcessorSeconds() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) +
           static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void Run(benchmark::State& state, ReadQueueKind kind) {
  const auto row_bytes = static_cast<uint32_t>(state.range(0));
  const auto device = OpenFile();
  const auto queues = ReadQueues::Create({.kind = kind});
  if (!device.ok() || !queues.ok()) {
    state.SkipWithError("the file or the queues cannot be had");
    return;
  }
  const auto queue = *(*queues)->Take(static_cast<size_t>(state.range(1)));
  const RowLayout layout{
      0, row_bytes, static_cast<int64_t>((*device)->size_bytes() / row_bytes)};
  // Every row a request, as fio has it.
  const auto reader = RowReader::Create(
      **device, layout, *queue,
      {.cost = {.request_bytes = 0, .max_request_bytes = row_bytes}});
  RandomStream random(2, RandomPurpose::kGenerator);
  std::vector<int64_t> rows(kBatchRows);
  std::vector<std::byte> copies(kBatchRows * row_bytes);
  ReadTally tally;
  const double began = ProcessorSeconds();
  for (auto _ : state) {
    for (int64_t& row : rows) {
      row = static_cast<int64_t>(random.Below(layout.num_rows));
    }
    const absl::Status status = (*reader)->Read(
        rows,
        [&](size_t position, const std::byte* row) {
          std::memcpy(&copies[position * row_bytes], row, row_bytes);
        },
        std::stop_token(), tally);
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
  const double requests = static_cast<double>(tally.requests);
  state.counters["requests"] =
      benchmark::Counter(requests, benchmark::Counter::kIsRate);
  state.counters["cpu_us_per_request"] =
      (ProcessorSeconds() - began) * 1e6 / requests;
  const Registration registration = (*reader)->registration();
  state.SetLabel(std::string((*device)->direct() ? "direct" : "buffered") +
                 (registration.memory ? ", registered" : ", unregistered"));
}

void BM_IoUring(benchmark::State& state) {
  Run(state, ReadQueueKind::kIoUring);
}

void BM_Threads(benchmark::State& state) {
  Run(state, ReadQueueKind::kThreads);
}

// (bytes of a row, depth)
void Sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"bytes", "depth"})
      ->Args({512, 64})
      ->Args({4096, 1})
      ->Args({4096, 16})
      ->Args({4096, 64})
      ->Args({4096, 256})
      ->UseRealTime()
      ->MinTime(4)
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK(BM_IoUring)->Apply(Sizes);
BENCHMARK(BM_Threads)->Apply(Sizes);

}  // namespace
}  // namespace hearth::io

BENCHMARK_MAIN();
