#include "engine/ingest/generate/open_generated.h"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/generate/computed_file.h"
#include "engine/ingest/generate/generated_classes.h"
#include "engine/ingest/generate/generated_edges.h"
#include "engine/ingest/generate/generated_features.h"
#include "engine/ingest/generate/generated_split.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/array_header.h"

namespace hearth::ingest {
namespace {

constexpr std::array<absl::string_view, 3> kSplitNames = {
    "train_idx", "valid_idx", "test_idx"};

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenItems(
    std::unique_ptr<ComputedItems> items, absl::string_view name,
    store::ElementType type, std::vector<int64_t> shape) {
  store::ArrayHeader header;
  header.type = type;
  header.shape = std::move(shape);
  return ArrayReader::ReadRaw(
      NewComputedFile(std::move(items),
                      absl::StrCat(kGeneratedSource, "/", name)),
      std::move(header));
}

store::ElementType FeatureType(store::DType dtype) {
  const auto kind = dtype == store::DType::kBFloat16
                        ? store::ElementType::Kind::kBFloat
                        : store::ElementType::Kind::kFloat;
  return {kind, store::SizeOf(dtype)};
}

absl::Status CheckMemory(const ImportContext& context,
                         const GenerateOptions& options) {
  const uint64_t needed = CentroidBytes(options);
  const uint64_t available = context.memory_limit_bytes() / 4;
  if (needed <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(kGeneratedSource, ": the centroids of ", options.num_classes,
                   " classes need ", FormatByteSize(needed),
                   ", the memory limit leaves ", FormatByteSize(available)));
}

}  // namespace

absl::StatusOr<SourceGraph> OpenGenerated(ImportContext& context,
                                          const GenerateOptions& options) {
  HEARTH_RETURN_IF_ERROR(options.Validate());
  HEARTH_RETURN_IF_ERROR(CheckMemory(context, options));
  const GeneratedClasses classes(options);
  SourceNodes nodes;
  nodes.num_nodes = options.num_nodes;
  HEARTH_ASSIGN_OR_RETURN(
      nodes.features, OpenItems(NewGeneratedFeatures(options, classes),
                                "node_feat", FeatureType(options.feature_dtype),
                                {options.num_nodes, options.feature_dim}));
  HEARTH_ASSIGN_OR_RETURN(
      nodes.labels, OpenItems(NewGeneratedLabels(classes), "node_label",
                              {store::ElementType::Kind::kInt, sizeof(int32_t)},
                              {options.num_nodes}));
  HEARTH_ASSIGN_OR_RETURN(auto parts, NewGeneratedSplit(context, options));
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t size = parts[i]->num_items();
    HEARTH_ASSIGN_OR_RETURN(
        nodes.split[i],
        OpenItems(std::move(parts[i]), kSplitNames[i],
                  {store::ElementType::Kind::kInt, sizeof(int64_t)}, {size}));
  }
  SourceEdges edges;
  edges.edges = NewGeneratedEdges(options, classes);
  SourceGraph graph;
  graph.nodes.push_back(std::move(nodes));
  graph.edges.push_back(std::move(edges));
  graph.transforms.push_back(options.Describe());
  return graph;
}

}  // namespace hearth::ingest
