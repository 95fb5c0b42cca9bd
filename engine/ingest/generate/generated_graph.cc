#include "engine/ingest/generate/generated_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/ingest/generate/generated_classes.h"
#include "engine/ingest/generate/generated_edges.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::ingest {

namespace {

class ComputedFile : public io::ReadableFile {
 public:
  ComputedFile(std::unique_ptr<const ComputedItems> items, std::string path)
      : items_(std::move(items)),
        path_(std::move(path)),
        item_bytes_(static_cast<uint64_t>(items_->item_bytes())),
        size_bytes_(static_cast<uint64_t>(items_->num_items()) * item_bytes_) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ",
                                              size_bytes_, ", not ",
                                              offset + out.size()));
    }
    if (out.empty()) return absl::OkStatus();
    // The range may begin and end within items.
    const uint64_t skipped = offset % item_bytes_;
    if (skipped != 0) {
      const size_t count = std::min<size_t>(out.size(), item_bytes_ - skipped);
      CopyPart(offset / item_bytes_, skipped, out.first(count));
      offset += count;
      out.remove_prefix(count);
    }
    const size_t whole = out.size() - out.size() % item_bytes_;
    if (whole > 0) {
      items_->Compute(static_cast<int64_t>(offset / item_bytes_),
                      out.first(whole));
      offset += whole;
      out.remove_prefix(whole);
    }
    if (!out.empty()) CopyPart(offset / item_bytes_, 0, out);
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    io::FileInfo info;
    info.size_bytes = size_bytes_;
    info.modified = absl::UnixEpoch();
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  void CopyPart(uint64_t item, uint64_t skipped,
                absl::Span<std::byte> out) const {
    std::vector<std::byte> whole(item_bytes_);
    items_->Compute(static_cast<int64_t>(item), absl::MakeSpan(whole));
    std::memcpy(out.data(), whole.data() + skipped, out.size());
  }

  const std::unique_ptr<const ComputedItems> items_;
  const std::string path_;
  const uint64_t item_bytes_;
  const uint64_t size_bytes_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewComputedFile(
    std::unique_ptr<const ComputedItems> items, std::string path) {
  return std::make_unique<ComputedFile>(std::move(items), std::move(path));
}

namespace {

/// Mean distance of two centroids, in standard deviations of the noise along
/// the line between them: nearest centroid mistakes one of two classes for the
/// other with probability 0.16.
constexpr double kSeparation = 2.0;

// The noise is a sum of four random bytes (Irwin and Hall): nearly normal.
constexpr float kNoiseMean = 4 * 127.5f;
const float kNoiseScale =
    static_cast<float>(1 / std::sqrt(4 * (256.0 * 256.0 - 1) / 12));

float Noise(uint32_t random) {
  const uint32_t pairs = (random & 0x00FF00FF) + (random >> 8 & 0x00FF00FF);
  const auto sum = static_cast<float>((pairs + (pairs >> 16)) & 0xFFFF);
  return (sum - kNoiseMean) * kNoiseScale;
}

/// Centroids, [num_classes, dim], each element uniform.
std::vector<float> MakeCentroids(const GenerateOptions& options) {
  const GeneratorKey key(options.seed, GeneratorPart::kCentroids);
  // The difference of two such elements has a variance of 2 * scale^2 / 3.
  const double scale =
      kSeparation * std::sqrt(1.5 / static_cast<double>(options.feature_dim));
  std::vector<float> centroids(
      static_cast<size_t>(options.num_classes * options.feature_dim));
  for (size_t i = 0; i < centroids.size(); i += 4) {
    const RandomBlock block = key.Block(i / 4, 0);
    const size_t count = std::min<size_t>(4, centroids.size() - i);
    for (size_t j = 0; j < count; ++j) {
      centroids[i + j] = static_cast<float>(scale * (block[j] * 0x1p-31 - 1));
    }
  }
  return centroids;
}

void Store(float value, float& out) { out = value; }

struct Half {
  uint16_t bits;
};
void Store(float value, Half& out) { out.bits = store::FloatToFloat16(value); }

struct BFloat {
  uint16_t bits;
};
void Store(float value, BFloat& out) {
  out.bits = store::FloatToBFloat16(value);
}

template <typename Element>
class Features : public ComputedItems {
 public:
  Features(const GenerateOptions& options, const GeneratedClasses& classes)
      : classes_(classes),
        key_(options.seed, GeneratorPart::kNoise),
        dim_(static_cast<size_t>(options.feature_dim)),
        centroids_(MakeCentroids(options)) {}

  int64_t num_items() const override { return classes_.num_nodes(); }
  int64_t item_bytes() const override {
    return static_cast<int64_t>(dim_ * sizeof(Element));
  }

  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    const size_t row_bytes = dim_ * sizeof(Element);
    for (; !out.empty(); out.remove_prefix(row_bytes)) {
      ComputeRow(first++, out.data());
    }
  }

 private:
  void ComputeRow(int64_t node, std::byte* out) const {
    const float* centroid =
        centroids_.data() + static_cast<size_t>(classes_.ClassOf(node)) * dim_;
    for (size_t i = 0; i < dim_; i += 4) {
      const RandomBlock block =
          key_.Block(static_cast<uint64_t>(node), static_cast<uint32_t>(i / 4));
      const size_t count = std::min<size_t>(4, dim_ - i);
      Element elements[4];
      for (size_t j = 0; j < count; ++j) {
        Store(centroid[i + j] + Noise(block[j]), elements[j]);
      }
      std::memcpy(out + i * sizeof(Element), elements, count * sizeof(Element));
    }
  }

  const GeneratedClasses classes_;
  const GeneratorKey key_;
  const size_t dim_;
  const std::vector<float> centroids_;
};

class Labels : public ComputedItems {
 public:
  explicit Labels(const GeneratedClasses& classes) : classes_(classes) {}

  int64_t num_items() const override { return classes_.num_nodes(); }
  int64_t item_bytes() const override { return sizeof(int32_t); }

  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    for (; !out.empty(); out.remove_prefix(sizeof(int32_t))) {
      const auto label = static_cast<int32_t>(classes_.ClassOf(first++));
      std::memcpy(out.data(), &label, sizeof(label));
    }
  }

 private:
  const GeneratedClasses classes_;
};

}  // namespace

uint64_t CentroidBytes(const GenerateOptions& options) {
  return static_cast<uint64_t>(options.num_classes) *
         static_cast<uint64_t>(options.feature_dim) * sizeof(float);
}

std::unique_ptr<ComputedItems> NewGeneratedFeatures(
    const GenerateOptions& options, const GeneratedClasses& classes) {
  switch (options.feature_dtype) {
    case store::DType::kFloat16:
      return std::make_unique<Features<Half>>(options, classes);
    case store::DType::kBFloat16:
      return std::make_unique<Features<BFloat>>(options, classes);
    default:
      return std::make_unique<Features<float>>(options, classes);
  }
}

std::unique_ptr<ComputedItems> NewGeneratedLabels(
    const GeneratedClasses& classes) {
  return std::make_unique<Labels>(classes);
}

namespace {

constexpr int64_t kNodesPerCount = 64 << 10;
constexpr size_t kNumParts = 3;

/// Places first .. last - 1 of the permutation.
struct PlaceRange {
  int64_t first = 0;
  int64_t last = 0;

  bool Contains(int64_t place) const { return place >= first && place < last; }
};

std::array<PlaceRange, kNumParts> MakeRanges(const GenerateOptions& options) {
  std::array<PlaceRange, kNumParts> ranges;
  const std::array<double, kNumParts> shares = {
      options.train_share, options.valid_share, options.test_share};
  int64_t first = 0;
  for (size_t i = 0; i < kNumParts; ++i) {
    const auto size = static_cast<int64_t>(
        shares[i] * static_cast<double>(options.num_nodes));
    ranges[i] = {first, std::min(first + size, options.num_nodes)};
    first = ranges[i].last;
  }
  return ranges;
}

/// Nodes of one part of the split.
class Part : public ComputedItems {
 public:
  /// `before`[i] members are among the nodes before i * kNodesPerCount.
  Part(const NodePermutation& places, const PlaceRange& range,
       std::vector<int64_t> before)
      : places_(places), range_(range), before_(std::move(before)) {}

  int64_t num_items() const override { return range_.last - range_.first; }
  int64_t item_bytes() const override { return sizeof(int64_t); }

  void Compute(int64_t first, absl::Span<std::byte> out) const override {
    const auto next = std::upper_bound(before_.begin(), before_.end(), first);
    const int64_t block = next - before_.begin() - 1;
    int64_t skipped = first - before_[static_cast<size_t>(block)];
    for (int64_t node = block * kNodesPerCount; !out.empty(); ++node) {
      if (!range_.Contains(places_.Apply(node))) continue;
      if (skipped-- > 0) continue;
      std::memcpy(out.data(), &node, sizeof(node));
      out.remove_prefix(sizeof(node));
    }
  }

 private:
  const NodePermutation places_;
  const PlaceRange range_;
  const std::vector<int64_t> before_;
};

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

absl::StatusOr<std::array<std::unique_ptr<ComputedItems>, 3>> NewGeneratedSplit(
    ImportContext& context, const GenerateOptions& options) {
  const NodePermutation places(
      GeneratorKey(options.seed, GeneratorPart::kSplit), options.num_nodes);
  const std::array<PlaceRange, kNumParts> ranges = MakeRanges(options);
  std::array<std::vector<int64_t>, kNumParts> before;
  std::array<int64_t, kNumParts> counts = {};
  context.Begin("split",
                static_cast<uint64_t>(options.num_nodes) * sizeof(int64_t));
  for (int64_t first = 0; first < options.num_nodes; first += kNodesPerCount) {
    const int64_t last = std::min(first + kNodesPerCount, options.num_nodes);
    for (size_t i = 0; i < kNumParts; ++i) before[i].push_back(counts[i]);
    for (int64_t node = first; node < last; ++node) {
      const int64_t place = places.Apply(node);
      for (size_t i = 0; i < kNumParts; ++i) {
        counts[i] += ranges[i].Contains(place) ? 1 : 0;
      }
    }
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(last - first) * sizeof(int64_t)));
  }
  std::array<std::unique_ptr<ComputedItems>, kNumParts> parts;
  for (size_t i = 0; i < kNumParts; ++i) {
    parts[i] = std::make_unique<Part>(places, ranges[i], std::move(before[i]));
  }
  return parts;
}

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
