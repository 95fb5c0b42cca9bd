// Prints the speeds of the plug-in's kernels and of copies by the same GPU: a
// part of gpu_checks. HEARTH_GPU_FIGURES_MIB is how many MiB are moved at a
// time, by default 256.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/plugin_fixture.h"

namespace hearth::kernels {
namespace {

constexpr double kGiB = double{1 << 30};
// Rows are drawn from kSpread times the memory that is moved.
constexpr int64_t kSpread = 4;

int64_t MovedBytes() {
  const char* mib = std::getenv("HEARTH_GPU_FIGURES_MIB");
  return (mib != nullptr ? std::atoll(mib) : 256) << 20;
}

// `count` numbers below `limit`, in random order.
template <typename Number>
std::vector<Number> Scattered(int64_t count, int64_t limit) {
  std::vector<Number> numbers;
  uint64_t random = 1;
  for (int64_t i = 0; i < count; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    numbers.push_back(
        static_cast<Number>((random >> 33) % static_cast<uint64_t>(limit)));
  }
  return numbers;
}

class GpuSpeedsTest : public PluginOnGpuTest {
 protected:
  void SetUp() override {
    PluginOnGpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    char name[256] = "";
    Check(table_->device_name(0, name, sizeof(name)));
    std::printf("%s\n", name);
  }

  // Seconds that the GPU takes for the work that `queue` queues: the median of
  // five measurements of ten calls each, after a first call.
  double SecondsOf(const std::function<void()>& queue) {
    constexpr int kTimes = 10;
    queue();
    Wait();
    std::array<double, 5> seconds = {};
    for (double& one : seconds) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kTimes; ++i) queue();
      Wait();
      one = std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                          start)
                .count() /
            kTimes;
    }
    std::sort(seconds.begin(), seconds.end());
    return seconds[2];
  }

  double SecondsOfCopy(void* to, const void* from, int64_t bytes) {
    return SecondsOf([&] {
      Check(table_->copy(to, from, static_cast<size_t>(bytes), stream_));
    });
  }
};

// Gathers from device memory and from host memory, against copies of as many
// bytes.
TEST_F(GpuSpeedsTest, GatherAgainstCopies) {
  const int64_t moved = MovedBytes();
  const std::byte* on_device = Allocate(kSpread * moved);
  const std::byte* pinned = AllocatePinned(kSpread * moved);
  std::byte* out = Allocate(moved);
  const double device_copy = SecondsOfCopy(out, on_device, moved);
  const double pinned_copy = SecondsOfCopy(out, pinned, moved);
  std::printf("copies: %.1f GiB/s on the device, %.1f from pinned memory\n",
              moved / kGiB / device_copy, moved / kGiB / pinned_copy);
  for (const int64_t row_bytes : {512, 1024, 4096}) {
    const int64_t count = moved / row_bytes;
    HearthCudaGather gather = {
        .source = nullptr,
        .element = HEARTH_CUDA_FLOAT32,
        .dim = row_bytes / int64_t{sizeof(float)},
        .indices = ToDevice(Scattered<int64_t>(count, kSpread * count)),
        .count = count,
        .out = reinterpret_cast<float*>(out)};
    const auto seconds_from = [&](const std::byte* rows) {
      gather.source = rows;
      return SecondsOf([&] { Check(table_->gather_rows(&gather, stream_)); });
    };
    const double from_device = seconds_from(on_device);
    const double from_pinned = seconds_from(pinned);
    std::printf(
        "gather of rows of %lld bytes: %.1f GiB/s on the device, %.2f of a "
        "copy; %.1f from pinned memory, %.2f of one\n",
        static_cast<long long>(row_bytes), moved / kGiB / from_device,
        device_copy / from_device, moved / kGiB / from_pinned,
        pinned_copy / from_pinned);
  }
}

// A batch in equal parts from slots in pinned memory, from rows that were read
// into pinned memory, and from slots on the device, against copies of these
// parts.
TEST_F(GpuSpeedsTest, ScatterAgainstCopies) {
  constexpr int64_t kRowBytes = 512;
  const int64_t part_rows = MovedBytes() / kRowBytes / 3;
  const int64_t part_bytes = part_rows * kRowBytes;
  const std::byte* const pinned = AllocatePinned(kSpread * part_bytes);
  const std::byte* const on_device = Allocate(kSpread * part_bytes);
  std::byte* const out = Allocate(3 * part_bytes);
  const int64_t* const slots =
      ToDevice(Scattered<int64_t>(part_rows, kSpread * part_rows));
  HearthCudaScatter scatter = {};
  scatter.element = HEARTH_CUDA_FLOAT32;
  scatter.dim = kRowBytes / int64_t{sizeof(float)};
  scatter.out = reinterpret_cast<float*>(out);
  scatter.parts[0].rows = pinned;
  scatter.parts[0].slots = slots;
  scatter.parts[1].rows = pinned;
  scatter.parts[2].rows = on_device;
  scatter.parts[2].slots = slots;
  for (int part = 0; part < 3; ++part) {
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < part_rows; ++i) {
      positions.push_back(static_cast<int32_t>(3 * i + part));
    }
    scatter.parts[part].positions = ToDevice(positions);
    scatter.parts[part].count = part_rows;
  }
  const double seconds =
      SecondsOf([&] { Check(table_->scatter_rows(&scatter, stream_)); });
  const double copies = 2 * SecondsOfCopy(out, pinned, part_bytes) +
                        SecondsOfCopy(out, on_device, part_bytes);
  std::printf(
      "scatter of rows of 512 bytes, two thirds of them pinned: %.1f GiB/s, "
      "%.2f of copies\n",
      3 * part_bytes / kGiB / seconds, copies / seconds);
}

// Sums of a layer of GraphSAGE: rows of 256 columns along 10 edges each.
TEST_F(GpuSpeedsTest, SumsAlongEdgesAgainstCopies) {
  constexpr int64_t kChannels = 256;
  constexpr int64_t kFanout = 10;
  constexpr int64_t kRowBytes = kChannels * int64_t{sizeof(float)};
  const int64_t num_edges = MovedBytes() / kRowBytes;
  const int64_t num_rows = num_edges / kFanout;
  const int64_t num_sources = std::max<int64_t>(num_edges / 2, 1);
  std::vector<int64_t> indptr;
  for (int64_t row = 0; row <= num_rows; ++row) indptr.push_back(row * kFanout);
  const HearthCudaSum sum = {
      .edges = {.indptr = ToDevice(indptr),
                .indices = ToDevice(Scattered<int32_t>(num_edges, num_sources)),
                .edges = nullptr,
                .num_rows = num_rows},
      .weights = ToDevice(
          std::vector<float>(static_cast<size_t>(num_edges), 1.0f / kFanout)),
      .source = ToDevice(std::vector<float>(num_sources * kChannels, 1.0f)),
      .heads = 1,
      .channels = kChannels,
      .out = reinterpret_cast<float*>(Allocate(num_rows * kRowBytes))};
  const double seconds =
      SecondsOf([&] { Check(table_->sum_edges(&sum, stream_)); });
  const int64_t bytes = num_rows * kFanout * kRowBytes;
  std::byte* const copy = Allocate(bytes);
  std::printf(
      "sums of rows of 1024 bytes along edges: %.1f GiB/s of sources, %.2f of "
      "a copy\n",
      bytes / kGiB / seconds,
      SecondsOfCopy(copy, Allocate(bytes), bytes) / seconds);
}

// A layer with fan-out 10, drawn from neighbors in pinned memory.
TEST_F(GpuSpeedsTest, SampledEdges) {
  constexpr int64_t kDegree = 20;
  constexpr int32_t kFanout = 10;
  // For 256 MiB: 4 million nodes, of which 80,000 draw.
  const int64_t num_nodes = MovedBytes() / 64;
  const int64_t count = num_nodes / 50;
  const int64_t num_edges = count * kFanout;
  int64_t slots = 1;
  while (slots < 2 * (num_edges + count)) slots *= 2;
  auto* const indptr = reinterpret_cast<int64_t*>(
      AllocatePinned((num_nodes + 1) * sizeof(int64_t)));
  auto* const indices = reinterpret_cast<int32_t*>(
      AllocatePinned(num_nodes * kDegree * sizeof(int32_t)));
  for (int64_t node = 0; node <= num_nodes; ++node) {
    indptr[node] = node * kDegree;
  }
  const std::vector<int32_t> sources =
      Scattered<int32_t>(num_nodes * kDegree, num_nodes);
  std::copy(sources.begin(), sources.end(), indices);
  std::vector<int64_t> drawing;
  for (int64_t i = 0; i < count; ++i) drawing.push_back(i * 50);
  drawing.resize(static_cast<size_t>(count + num_edges));
  const HearthCudaGraph graph = {
      .relations = ToDevice(
          std::vector<HearthCudaRelation>{{.indptr = indptr,
                                           .indices = indices,
                                           .num_edges = num_nodes * kDegree,
                                           .first_destination = 0,
                                           .first_source = 0,
                                           .num_sources = num_nodes,
                                           .prefix = 0,
                                           .fanout = kFanout,
                                           .index_bytes = sizeof(int32_t)}}),
      .type_firsts = ToDevice(std::vector<int64_t>{0, num_nodes}),
      .lists = ToDevice(std::vector<int32_t>{0}),
      .num_nodes = num_nodes,
      .num_relations = 1,
      .num_types = 1,
      .lists_per_node = 1};
  const auto room = [this](int64_t elements, size_t bytes) {
    return Allocate(static_cast<size_t>(elements) * bytes);
  };
  int64_t* const nodes = ToDevice(drawing);
  auto* const starts = reinterpret_cast<int64_t*>(room(count, 8));
  auto* const degrees = reinterpret_cast<int64_t*>(room(count, 8));
  auto* const drawn = reinterpret_cast<int64_t*>(room(count + 1, 8));
  auto* const damage =
      reinterpret_cast<HearthCudaDamage*>(room(1, sizeof(HearthCudaDamage)));
  const HearthCudaNodeTable table = {
      .nodes = reinterpret_cast<unsigned long long*>(room(slots, 8)),
      .positions = reinterpret_cast<uint32_t*>(room(slots, 4)),
      .slots = slots};
  const HearthCudaFillTable fill = {table, nodes, count, damage};
  const HearthCudaLookUp look_up = {.graph = graph,
                                    .nodes = nodes,
                                    .first = 0,
                                    .count = count,
                                    .starts = starts,
                                    .degrees = degrees,
                                    .in_degrees = nullptr,
                                    .damage = damage};
  const HearthCudaCountEdges count_edges = {
      .graph = graph,
      .nodes = nodes,
      .degrees = degrees,
      .count = count,
      .indptr = drawn,
      .node_indptr = nullptr,
      .scratch = reinterpret_cast<int64_t*>(
          room(HEARTH_CUDA_SCAN_SCRATCH(count + 1), 8))};
  const HearthCudaSampleLayer layer = {
      .graph = graph,
      .starts = starts,
      .degrees = degrees,
      .num_destinations = count,
      .key = {1, 2},
      .layer = 0,
      .indptr = drawn,
      .num_edges = num_edges,
      .table = table,
      .nodes = nodes,
      .indices = reinterpret_cast<int32_t*>(room(num_edges, 4)),
      .sources = reinterpret_cast<int64_t*>(room(num_edges, 8)),
      .edge_relations = nullptr,
      .ranks = reinterpret_cast<uint32_t*>(
          room(num_edges + 1 + HEARTH_CUDA_SCAN_SCRATCH(num_edges + 1), 4)),
      .damage = damage};
  const double seconds = SecondsOf([&] {
    Check(table_->fill_table(&fill, stream_));
    Check(table_->look_up_nodes(&look_up, stream_));
    Check(table_->count_edges(&count_edges, stream_));
    Check(table_->sample_layer(&layer, stream_));
  });
  std::printf("sampling a layer: %.1f million edges a second\n",
              1e-6 * static_cast<double>(num_edges) / seconds);
}

}  // namespace
}  // namespace hearth::kernels
