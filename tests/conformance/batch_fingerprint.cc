#include "tests/conformance/batch_fingerprint.h"

#include <cstddef>

#include "absl/types/span.h"
#include "engine/base/sha256.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "gtest/gtest.h"

namespace hearth::testing {
namespace {

template <typename T>
void Append(Sha256& digest, const T* data, size_t count) {
  digest.Update(absl::Span<const std::byte>(
      reinterpret_cast<const std::byte*>(data), count * sizeof(T)));
}

}  // namespace

std::string Fingerprint(const train::BatchView& batch) {
  Sha256 digest;
  const auto& nodes = batch.sample.input_nodes;
  Append(digest, nodes.data(), nodes.size());
  Append(digest, batch.sample.in_degrees.data(),
         batch.sample.in_degrees.size());
  Append(digest, batch.sample.node_types.data(),
         batch.sample.node_types.size());
  for (const sample::Block& block : batch.sample.blocks) {
    Append(digest, block.indptr.data(), block.indptr.size());
    Append(digest, block.indices.data(), block.indices.size());
    Append(digest, block.weights.data(), block.weights.size());
    Append(digest, block.edge_types.data(), block.edge_types.size());
  }
  if (batch.sample.top.has_value()) {
    const sample::TopLayer& top = *batch.sample.top;
    Append(digest, top.nodes.data(), top.nodes.size());
    Append(digest, top.in_degrees.data(), top.in_degrees.size());
    for (const auto* positions : {&top.computed, &top.pulled, &top.pushed}) {
      const size_t count = positions->size();
      Append(digest, &count, 1);
      Append(digest, positions->data(), count);
    }
  }
  Append(digest, batch.inputs,
         nodes.size() * static_cast<size_t>(batch.feature_dim));
  const store::LabelsView& labels = batch.labels;
  EXPECT_TRUE(labels.ValidateLabeled().ok());
  Append(digest, labels.classes.data(), labels.classes.size());
  Append(digest, labels.bits.data(), labels.bits.size());
  Append(digest, labels.targets.data(), labels.targets.size());
  return digest.HexDigest();
}

}  // namespace hearth::testing
