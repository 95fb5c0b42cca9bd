// Batched packing against packing batch by batch, which reads each batch's rows
// at random (DiskGNN, section 5.2), on one feature file of 1 GiB:
//   bazel run -c opt //engine/strategy/diskgnn/packing:pack_benchmark
// HEARTH_BENCHMARK_FOLDER is where on the disk in question (default: the
// working directory). Both read and write past the page cache, and sync.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/io/whole_file.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"
#include "engine/strategy/packing/sample_spool.h"

namespace hearth::strategy {
namespace {

constexpr int64_t kNodes = 2 << 20;
constexpr int64_t kRowBytes = 512;
constexpr int64_t kBatches = 100;
constexpr int64_t kBatchNodes = 40'000;

io::FileSystem& Posix() { return io::FileSystem::Posix(); }

std::string Path(const char* name) {
  const char* folder = std::getenv("HEARTH_BENCHMARK_FOLDER");
  return io::JoinPath(folder != nullptr ? folder : ".", name);
}

/// Samples of a few bytes, so that rows alone are measured.
class NoSamples final : public EncodedSamples {
 public:
  absl::Span<const uint64_t> sizes() const override { return sizes_; }
  absl::Status Read(int64_t batch, absl::Span<std::byte> out) override {
    std::memset(out.data(), 1, out.size());
    return absl::OkStatus();
  }

 private:
  const std::vector<uint64_t> sizes_ = std::vector<uint64_t>(kBatches, 8);
};

absl::Status WriteFeatures(const std::string& path) {
  constexpr auto kBytes = static_cast<uint64_t>(kNodes * kRowBytes);
  const auto info = Posix().Stat(path);
  if (info.ok() && info->size_bytes == kBytes) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(auto writer,
                          io::StreamWriter::Create(Posix(), path, kBytes));
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<uint64_t> block(1 << 17);
  for (uint64_t at = 0; at < kBytes; at += block.size() * sizeof(uint64_t)) {
    for (uint64_t& word : block) word = random.Next64();
    HEARTH_RETURN_IF_ERROR(
        writer->Append({reinterpret_cast<const std::byte*>(block.data()),
                        block.size() * sizeof(uint64_t)}));
  }
  return writer->Finish();
}

/// The work of both ways of packing.
struct Work {
  Work() : trace(MakeBatches()) {
    levels = std::make_unique<MemoryLevels>(*MemoryLevels::Choose(
        *plan::AccessCounts::Count(trace, kNodes, {}), {.cpu = kNodes / 20}));
    status = WriteFeatures(features_path);
  }

  static plan::VectorTrace::Batches MakeBatches() {
    RandomStream random(2, RandomPurpose::kGenerator);
    return plan::VectorTrace::Random(random, kNodes, kBatches, kBatchNodes);
  }

  const std::string features_path = Path("pack_benchmark.features");
  const io::RowLayout rows = {.row_bytes = kRowBytes, .num_rows = kNodes};
  plan::VectorTrace trace;
  NoSamples samples;
  std::unique_ptr<MemoryLevels> levels;
  absl::Status status;
};

Work& SharedWork() {
  static Work& work = *new Work();
  return work;
}

absl::StatusOr<PackedLayout> PackBatched(Work& work, int64_t segment_size,
                                         uint64_t memory_limit) {
  const Segmentation segmentation = {.num_batches = kBatches,
                                     .segment_size = segment_size};
  HEARTH_ASSIGN_OR_RETURN(PackedLayout layout,
                          MeasureLayout({.trace = &work.trace,
                                         .levels = work.levels.get(),
                                         .row_bytes = kRowBytes,
                                         .sample_bytes = work.samples.sizes()},
                                        segmentation, {}));
  HEARTH_ASSIGN_OR_RETURN(const auto features,
                          Posix().OpenForScan(work.features_path));
  PackOptions options;
  options.folder = Path("pack_benchmark.plan");
  options.memory_limit_bytes = memory_limit;
  return PackBatches(Posix(),
                     {.trace = &work.trace,
                      .levels = work.levels.get(),
                      .samples = &work.samples,
                      .features = features.get(),
                      .rows = work.rows},
                     segmentation, std::move(layout), options);
}

int64_t PackedRows(const PackedLayout& layout) {
  int64_t rows = 0;
  for (const Chunk& chunk : layout.chunks) rows += chunk.counts.packed;
  return rows;
}

/// Individual packing: 64 reads in flight, neighboring rows read together.
absl::StatusOr<int64_t> PackIndividually(Work& work) {
  HEARTH_ASSIGN_OR_RETURN(const auto device,
                          Posix().OpenBlockDevice(work.features_path, {}));
  HEARTH_ASSIGN_OR_RETURN(const auto queues, io::ReadQueues::Create());
  HEARTH_ASSIGN_OR_RETURN(const auto queue, queues->Take(64));
  HEARTH_ASSIGN_OR_RETURN(
      const auto reader, io::RowReader::Create(*device, work.rows, *queue, {}));
  HEARTH_ASSIGN_OR_RETURN(
      const auto writer,
      io::StreamWriter::Create(Posix(), Path("pack_benchmark.individual"), 0));
  int64_t packed = 0;
  std::vector<std::byte> pack;
  std::vector<int64_t> nodes;
  io::ReadTally tally;
  for (int64_t batch = 0; batch < kBatches; ++batch) {
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const store::NodeId> all,
                            work.trace.Load(batch));
    nodes.clear();
    for (const store::NodeId node : all) {
      if (!work.levels->Holds(node)) nodes.push_back(node);
    }
    std::sort(nodes.begin(), nodes.end());
    pack.resize(nodes.size() * kRowBytes);
    HEARTH_RETURN_IF_ERROR(reader->Read(
        nodes,
        [&](size_t position, const std::byte* row) {
          std::memcpy(&pack[position * kRowBytes], row, kRowBytes);
        },
        {}, tally));
    HEARTH_RETURN_IF_ERROR(writer->Append(pack));
    packed += std::ssize(nodes);
  }
  HEARTH_RETURN_IF_ERROR(writer->Finish());
  return packed;
}

// (batches of a segment, memory in MiB)
void BM_Batched(benchmark::State& state) {
  Work& work = SharedWork();
  int64_t rows = 0;
  for (auto _ : state) {
    const auto layout =
        work.status.ok()
            ? PackBatched(work, state.range(0),
                          static_cast<uint64_t>(state.range(1)) << 20)
            : work.status;
    if (!layout.ok()) {
      return state.SkipWithError(layout.status().ToString().c_str());
    }
    rows = PackedRows(*layout) + layout->rows.disk;
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

void BM_Individual(benchmark::State& state) {
  Work& work = SharedWork();
  int64_t rows = 0;
  for (auto _ : state) {
    const absl::StatusOr<int64_t> packed =
        work.status.ok() ? PackIndividually(work) : work.status;
    if (!packed.ok()) {
      return state.SkipWithError(packed.status().ToString().c_str());
    }
    rows = *packed;
  }
  state.SetItemsProcessed(state.iterations() * rows);
}

BENCHMARK(BM_Batched)
    ->Args({1, 1024})
    ->Args({1, 256})
    ->Args({20, 256})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Individual)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::strategy

BENCHMARK_MAIN();
