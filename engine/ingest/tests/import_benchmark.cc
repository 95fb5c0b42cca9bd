// Speed of importing a numpy folder, from disk to disk, in TMPDIR:
//   bazel run -c opt //engine/ingest/tests:import_benchmark
// Compare it with the speed of the same disk at the same time:
//   dd if=FEATURES of=COPY bs=4M iflag=direct oflag=direct conv=fsync

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kColumns = 128;
constexpr int64_t kMillion = 1'000'000;

/// A folder in TMPDIR that the destructor removes.
class BenchmarkFolder {
 public:
  BenchmarkFolder() {
    const char* parent = std::getenv("TMPDIR");
    path_ = std::string(parent != nullptr ? parent : "/tmp") + "/import.XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) std::perror(path_.c_str());
  }
  ~BenchmarkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Distinct numbers from a xorshift generator.
class Numbers {
 public:
  uint64_t Next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  uint64_t state_ = 0x9E3779B97F4A7C15;
};

/// Writes an .npy file with the elements that `next` returns, and drops it from
/// the page cache.
template <typename T, typename Next>
absl::Status WriteArray(const std::string& path, store::DType dtype,
                        const std::vector<int64_t>& shape, Next next) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                          io::FileSystem::Posix().CreateUncached(path));
  const std::string header = store::FormatNpyHeader(dtype, shape, 64);
  HEARTH_RETURN_IF_ERROR(file->Append(
      {reinterpret_cast<const std::byte*>(header.data()), header.size()}));
  int64_t left = 1;
  for (const int64_t size : shape) left *= size;
  std::vector<T> block;
  while (left > 0) {
    block.resize(static_cast<size_t>(std::min(left, kMillion)));
    for (T& value : block) value = next();
    HEARTH_RETURN_IF_ERROR(
        file->Append({reinterpret_cast<const std::byte*>(block.data()),
                      block.size() * sizeof(T)}));
    left -= static_cast<int64_t>(block.size());
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

/// Writes labels of 32 classes, and a split.
absl::Status WriteLabels(const std::string& folder, int64_t num_nodes,
                         Numbers& numbers) {
  HEARTH_RETURN_IF_ERROR(WriteArray<int64_t>(
      folder + "/node_label.npy", store::DType::kInt64, {num_nodes},
      [&] { return static_cast<int64_t>(numbers.Next() % 32); }));
  int64_t node = 0;
  for (const char* part :
       {"/train_idx.npy", "/valid_idx.npy", "/test_idx.npy"}) {
    HEARTH_RETURN_IF_ERROR(
        WriteArray<int64_t>(folder + part, store::DType::kInt64,
                            {num_nodes / 10}, [&] { return node++; }));
  }
  return absl::OkStatus();
}

absl::Status Import(const std::string& source, uint64_t memory_limit_bytes,
                    const ImportProgress& progress) {
  ImportOptions options;
  options.source = source;
  options.name = "benchmark";
  options.destination = source + ".dataset";
  options.memory_limit_bytes = memory_limit_bytes;
  return ImportDataset(io::FileSystem::Posix(), {"numpy"}, options, progress,
                       {})
      .status();
}

/// Imports features of `range(0)` MiB, and few edges.
void BM_Features(benchmark::State& state) {
  const BenchmarkFolder folder;
  Numbers numbers;
  const int64_t num_nodes = (state.range(0) << 20) / (kColumns * 4);
  absl::Status status = WriteArray<float>(
      folder.path() + "/node_feat.npy", store::DType::kFloat32,
      {num_nodes, kColumns},
      [&] { return static_cast<float>(numbers.Next() >> 40) * 0x1p-24f; });
  if (status.ok()) {
    status = WriteArray<int64_t>(
        folder.path() + "/edge_index.npy", store::DType::kInt64, {2, 1000},
        [&] {
          return static_cast<int64_t>(numbers.Next() %
                                      static_cast<uint64_t>(num_nodes));
        });
  }
  if (status.ok()) status = WriteLabels(folder.path(), num_nodes, numbers);
  for (auto _ : state) {
    if (status.ok()) status = Import(folder.path(), 256 << 20, nullptr);
    state.PauseTiming();
    std::filesystem::remove_all(folder.path() + ".dataset");
    state.ResumeTiming();
  }
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  state.SetBytesProcessed(state.iterations() * (state.range(0) << 20));
}
BENCHMARK(BM_Features)
    ->ArgName("MiB")
    ->Arg(2048)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

/// Imports `range(0)` million nodes and `range(1)` million edges, many of them
/// into few nodes, with labels and few features. Reports the seconds of each
/// phase.
void BM_Edges(benchmark::State& state) {
  const BenchmarkFolder folder;
  Numbers numbers;
  const int64_t num_nodes = state.range(0) * kMillion;
  const int64_t num_edges = state.range(1) * kMillion;
  const auto node = [&] {
    // Squared, so that small numbers are frequent.
    const double unit = static_cast<double>(numbers.Next() >> 11) * 0x1p-53;
    return static_cast<int64_t>(unit * unit * static_cast<double>(num_nodes));
  };
  absl::Status status =
      WriteArray<int64_t>(folder.path() + "/edge_index.npy",
                          store::DType::kInt64, {2, num_edges}, node);
  if (status.ok()) status = WriteLabels(folder.path(), num_nodes, numbers);
  for (auto _ : state) {
    std::string phase;
    auto began = absl::Now();
    const auto end_phase = [&] {
      if (!phase.empty()) {
        state.counters[phase] += absl::ToDoubleSeconds(absl::Now() - began);
      }
      began = absl::Now();
    };
    const auto progress = [&](absl::string_view now, uint64_t, uint64_t) {
      if (phase == now) return;
      end_phase();
      phase = std::string(now);
    };
    if (status.ok()) status = Import(folder.path(), 256 << 20, progress);
    end_phase();
    state.PauseTiming();
    std::filesystem::remove_all(folder.path() + ".dataset");
    state.ResumeTiming();
  }
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  state.SetItemsProcessed(state.iterations() * num_edges);
}
BENCHMARK(BM_Edges)
    ->ArgNames({"Mnodes", "Medges"})
    ->Args({3, 50})
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::ingest

BENCHMARK_MAIN();
