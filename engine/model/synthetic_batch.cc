#include "engine/model/synthetic_batch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "engine/base/random.h"
#include "engine/base/round_up.h"
#include "engine/io/aligned_memory.h"

namespace hearth::model {
namespace {

// New sources come in turn among repeated ones, as sampling meets them.
sample::Block MakeBlock(int64_t sources, int64_t destinations,
                        int64_t max_neighbors, RandomStream& random) {
  sample::Block block;
  block.num_sources = sources;
  block.num_destinations = destinations;
  block.indptr = {0};
  int64_t next = destinations;
  for (int64_t row = 0; row < destinations; ++row) {
    const uint64_t count = random.Below(max_neighbors + 1);
    for (uint64_t i = 0; i < count; ++i) {
      const bool fresh = next < sources && random.Below(4) != 0;
      block.indices.push_back(static_cast<int32_t>(
          fresh ? next++ : static_cast<int64_t>(random.Below(sources))));
    }
    block.indptr.push_back(static_cast<int64_t>(block.indices.size()));
  }
  return block;
}

store::Labels MakeLabels(const SyntheticShape& shape, RandomStream& random) {
  const int64_t rows = shape.nodes.front();
  const int64_t width = shape.label_width;
  std::vector<int32_t> classes;
  std::vector<float> targets;
  const int64_t row_bytes = store::MultiLabelRowBytes(width);
  std::vector<uint8_t> bits(static_cast<size_t>(rows * row_bytes));
  for (int64_t row = 0; row < rows; ++row) {
    switch (shape.label_kind) {
      case store::LabelKind::kClasses:
        classes.push_back(static_cast<int32_t>(random.Below(width)));
        break;
      case store::LabelKind::kMultiLabel:
        for (int64_t bit = 0; bit <= width; ++bit) {
          const bool set = bit == width || random.Below(3) == 0;
          bits[static_cast<size_t>(row * row_bytes + bit / 8)] |=
              static_cast<uint8_t>(set << (bit % 8));
        }
        break;
      case store::LabelKind::kTargets:
        for (int64_t i = 0; i < width; ++i) {
          targets.push_back(2 * random.UniformFloat() - 1);
        }
    }
  }
  switch (shape.label_kind) {
    case store::LabelKind::kClasses:
      return store::Labels::Classes(std::move(classes), width);
    case store::LabelKind::kMultiLabel:
      return store::Labels::MultiLabel(std::move(bits), rows, width);
    case store::LabelKind::kTargets:
      return store::Labels::Targets(std::move(targets), rows, width);
  }
  return {};
}

}  // namespace

train::BatchView SyntheticBatch::View() const {
  return {.sample = sample,
          .inputs = inputs.get(),
          .feature_dim = feature_dim,
          .labels = labels.view()};
}

SyntheticBatch MakeBatch(const SyntheticShape& shape) {
  RandomStream random(shape.seed, RandomPurpose::kGenerator);
  SyntheticBatch batch;
  batch.feature_dim = shape.feature_dim;
  batch.sample.num_seeds = shape.nodes.front();
  const int64_t num_inputs = shape.nodes.back();
  for (int64_t node = 0; node < num_inputs; ++node) {
    batch.sample.input_nodes.push_back(node);
    batch.sample.in_degrees.push_back(shape.max_neighbors +
                                      static_cast<int64_t>(random.Below(4)));
  }
  for (size_t hop = shape.nodes.size() - 1; hop > 0; --hop) {
    batch.sample.blocks.push_back(MakeBlock(
        shape.nodes[hop], shape.nodes[hop - 1], shape.max_neighbors, random));
  }
  const int64_t count = num_inputs * shape.feature_dim;
  // Many are in huge pages, as a job's rows are.
  constexpr uint64_t kHugePage = io::AlignedMemory::kHugePageBytes;
  const uint64_t alignment = count * sizeof(float) < kHugePage ? 64 : kHugePage;
  const uint64_t bytes = RoundUp(count * sizeof(float), alignment);
  batch.inputs.reset(static_cast<float*>(aligned_alloc(alignment, bytes)));
  if (alignment == kHugePage) {
    ::madvise(batch.inputs.get(), bytes, MADV_HUGEPAGE);
  }
  for (int64_t i = 0; i < count; ++i) {
    batch.inputs[i] = 2 * random.UniformFloat() - 1;
  }
  batch.labels = MakeLabels(shape, random);
  return batch;
}

}  // namespace hearth::model
