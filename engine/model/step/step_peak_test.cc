#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <atomic>
#include <tuple>
#include <vector>

#include "engine/model/layers/network.h"
#include "engine/model/layers/step_memory.h"
#include "engine/model/operators/matrix_product.h"
#include "engine/model/runtime/buffer_pool.h"
#include "engine/model/runtime/torch_boundary.h"
#include "engine/model/testing/synthetic_batch.h"
#include "engine/sample/batch_shape.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

// Compares the bound on a step's memory with the bytes of its tensors, and with
// the pages of the pool that hold them.

namespace hearth::model {
namespace {

// Bytes of all tensors, of those that are not in the pool, and of the pool's
// pages; the most of the first, and of the last two together.
std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> small_bytes = 0;
std::atomic<int64_t> peak_bytes = 0;
std::atomic<int64_t> page_peak_bytes = 0;

constexpr size_t kHeader = 64;

BufferPool& Pool() {
  static auto& pool = *new BufferPool;
  return pool;
}

bool IsPooled(int64_t bytes) {
  return bytes + kHeader >= BufferPool::kSmallestPooled;
}

void Delete(void* buffer) {
  if (buffer == nullptr) return;
  char* const block = static_cast<char*>(buffer) - kHeader;
  const int64_t bytes = *reinterpret_cast<int64_t*>(block);
  live_bytes -= bytes;
  if (!IsPooled(bytes)) small_bytes -= bytes;
  Pool().Free(block);
}

// LibTorch's allocator, which counts what is allocated.
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size) override {
    const auto bytes = static_cast<int64_t>(size);
    char* const block = static_cast<char*>(Pool().Allocate(size + kHeader));
    *reinterpret_cast<int64_t*>(block) = bytes;
    live_bytes += bytes;
    if (!IsPooled(bytes)) small_bytes += bytes;
    peak_bytes = std::max(peak_bytes.load(), live_bytes.load());
    page_peak_bytes =
        std::max(page_peak_bytes.load(),
                 small_bytes + static_cast<int64_t>(Pool().resident_bytes()));
    void* const buffer = block + kHeader;
    return {buffer, buffer, &Delete, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

train::ModelShape Shape(int64_t author_columns) {
  return {.feature_dim = 48,
          .label_width = 4,
          .num_layers = 2,
          .node_types = {{.name = "author", .feature_dim = author_columns},
                         {.name = "paper", .feature_dim = 48}},
          .edge_types = {{.name = "cites", .source = 1, .destination = 1},
                         {.name = "writes", .source = 0, .destination = 1},
                         {.name = "written", .source = 1, .destination = 0},
                         {.name = "reviews", .source = 0, .destination = 1},
                         {.name = "knows", .source = 0, .destination = 0}},
          .target_type = 1};
}

// Blocks that the kernels of products work on, a few for each thread: a part of
// the bound's bytes for LibTorch and its threads.
constexpr int64_t kScratch = 1 << 20;

// The most that tensors take in a step of two threads.
int64_t PeakBytes(const train::TrainOptions& options,
                  const train::ModelShape& shape,
                  const train::BatchView& batch) {
  const ThreadCount threads(2);
  const Network network(options, shape);
  const ProductPrecision precision(options.precision);
  std::vector<at::Tensor> leaves;
  for (const auto& named : network.parameters()) {
    leaves.push_back(named.tensor);
  }
  const int64_t before = live_bytes;
  peak_bytes = before;
  const auto gradients = torch::autograd::grad(
      {network.Forward(batch, train::StepPosition{}).sum()}, leaves);
  return peak_bytes - before;
}

// The bound of a step's tensors, gradients of parameters among them.
int64_t BoundOf(const train::TrainOptions& options,
                const train::ModelShape& shape, const SyntheticBatch& batch) {
  return static_cast<int64_t>(
      StepTensorBytes(options, shape, sample::ShapeOf(batch.sample)) +
      ParameterBytes(options, shape));
}

class StepPeakTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    static CountingAllocator allocator;
    c10::SetCPUAllocator(&allocator, /*priority=*/255);
  }

  // The peak as a part of the bound.
  static double Compare(const train::TrainOptions& options,
                        const train::ModelShape& shape,
                        const SyntheticBatch& batch) {
    const int64_t bound = BoundOf(options, shape, batch);
    const int64_t peak = PeakBytes(options, shape, batch.View());
    EXPECT_LE(peak, bound + kScratch) << train::Name(options.model);
    return static_cast<double>(peak) / static_cast<double>(bound);
  }
};

// `bound` is of the tensors; the model's parameters come besides.
void CheckPages(int64_t pages, int64_t bound,
                const train::TrainOptions& options,
                const train::ModelShape& shape) {
  // Half a page is in use at either end of what is there, on average.
  constexpr int64_t kPage = 2 << 20;
  const int64_t tensors =
      bound + static_cast<int64_t>(ParameterBytes(options, shape));
  EXPECT_LE(pages, tensors + tensors / 8 + kPage + kScratch)
      << train::Name(options.model);
}

class PlainStepPeakTest
    : public StepPeakTest,
      public testing::WithParamInterface<
          std::tuple<train::ModelOptions, int64_t, train::Precision>> {
 protected:
  static train::TrainOptions Options() {
    train::TrainOptions options;
    options.model = std::get<train::ModelOptions>(GetParam());
    options.dropout = 0.1;
    options.precision = std::get<train::Precision>(GetParam());
    return options;
  }

  static train::ModelShape ShapeOfModel() {
    return {.feature_dim = std::get<int64_t>(GetParam()),
            .label_width = 16,
            .num_layers = 3};
  }

  static SyntheticBatch Batch(const std::vector<int64_t>& nodes,
                              int64_t max_neighbors) {
    return MakeBatch({.nodes = nodes,
                      .max_neighbors = max_neighbors,
                      .feature_dim = ShapeOfModel().feature_dim,
                      .label_width = ShapeOfModel().label_width});
  }
};

TEST_P(PlainStepPeakTest, TheBoundIsTight) {
  const train::TrainOptions options = Options();
  if (!HasProducts(options.precision)) {
    GTEST_SKIP() << "this processor has no bfloat16";
  }
  for (const int64_t max_neighbors : {4, 30}) {
    const SyntheticBatch batch = Batch({500, 3000, 9000, 15000}, max_neighbors);
    EXPECT_GT(Compare(options, ShapeOfModel(), batch), 0.62)
        << train::Name(options.model) << ", " << max_neighbors << " neighbors";
  }
}

// Gaps between tensors count, too, after batches of several sizes.
TEST_P(PlainStepPeakTest, ThePagesOfThePoolKeepToTheBound) {
  const train::TrainOptions options = Options();
  if (!HasProducts(options.precision)) {
    GTEST_SKIP() << "this processor has no bfloat16";
  }
  const train::ModelShape shape = ShapeOfModel();
  Pool().Clear();
  const int64_t before =
      small_bytes + static_cast<int64_t>(Pool().resident_bytes());
  page_peak_bytes = before;
  int64_t bound = 0;
  for (const int64_t nodes : {24000, 30000, 18000, 30000, 27000, 30000}) {
    const SyntheticBatch batch = Batch(
        {nodes / 30, nodes / 5, nodes * 3 / 5, nodes}, /*max_neighbors=*/12);
    bound = std::max(bound, BoundOf(options, shape, batch));
    PeakBytes(options, shape, batch.View());
    Pool().Trim();
  }
  CheckPages(page_peak_bytes - before, bound, options, shape);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlainStepPeakTest,
    testing::Combine(
        testing::Values(
            train::ModelOptions(train::SageOptions{.hidden = 64}),
            train::ModelOptions(train::GcnOptions{.hidden = 64}),
            train::ModelOptions(train::GatOptions{.hidden = 64, .heads = 4}),
            train::ModelOptions(train::Gatv2Options{.hidden = 64, .heads = 4}),
            train::ModelOptions(train::GinOptions{.hidden = 64})),
        // Narrow inputs are summed first, wide ones multiplied.
        testing::Values(16, 64, 400),
        testing::Values(train::Precision::kFloat32,
                        train::Precision::kBfloat16)));

TEST_F(StepPeakTest, TheBoundOfRelationalModelsHolds) {
  for (const int64_t author_columns : {48, 20}) {
    for (const int64_t num_edges : {2000, 12000}) {
      const TypedGraph graph =
          MakeTypedGraph(Shape(author_columns), 8000, num_edges, 1);
      std::vector<int32_t> seeds = TargetNodes(graph);
      seeds.resize(1500);
      const SyntheticBatch batch = WholeNeighborhood(graph, seeds);
      for (const train::ModelOptions& model :
           {train::ModelOptions(train::RgcnOptions{.hidden = 32}),
            train::ModelOptions(train::RgcnOptions{.hidden = 32, .bases = 2}),
            train::ModelOptions(train::RsageOptions{.hidden = 32}),
            train::ModelOptions(train::RsageOptions{.hidden = 128}),
            train::ModelOptions(
                train::RgatOptions{.hidden = 32, .heads = 4})}) {
        train::TrainOptions options;
        options.model = model;
        options.dropout = 0.1;
        EXPECT_GT(Compare(options, graph.shape, batch), 0.54)
            << train::Name(model) << ", " << num_edges << " edges";
      }
    }
  }
}

TEST_F(StepPeakTest, ThePagesOfRelationalModelsKeepToTheBound) {
  for (const train::ModelOptions& model :
       {train::ModelOptions(train::RgcnOptions{.hidden = 128}),
        train::ModelOptions(train::RsageOptions{.hidden = 128}),
        train::ModelOptions(train::RgatOptions{.hidden = 128, .heads = 4})}) {
    train::TrainOptions options;
    options.model = model;
    options.dropout = 0.1;
    Pool().Clear();
    const int64_t before =
        small_bytes + static_cast<int64_t>(Pool().resident_bytes());
    page_peak_bytes = before;
    int64_t bound = 0;
    train::ModelShape shape;
    for (const int64_t num_seeds : {1500, 1800, 1200, 1800}) {
      const TypedGraph graph =
          MakeTypedGraph(Shape(/*author_columns=*/20), 8000, 12000, 1);
      shape = graph.shape;
      std::vector<int32_t> seeds = TargetNodes(graph);
      seeds.resize(static_cast<size_t>(num_seeds));
      const SyntheticBatch batch = WholeNeighborhood(graph, seeds);
      bound = std::max(bound, BoundOf(options, shape, batch));
      PeakBytes(options, shape, batch.View());
      Pool().Trim();
    }
    CheckPages(page_peak_bytes - before, bound, options, shape);
  }
}

}  // namespace
}  // namespace hearth::model
