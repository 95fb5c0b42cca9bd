#include "engine/cuda/testing/fake_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "kernels/copy_rows.h"
#include "kernels/cuda/emulation/emulated_kernels.h"
#include "kernels/widen.h"

namespace hearth::cuda {

namespace {

// Bit that is set in addresses of device memory: no CPU accepts such an
// address.
constexpr uintptr_t kOnDevice = uintptr_t{1} << 62;
constexpr size_t kPage = 4096;
constexpr int kRubbish = 0xA5;

using Blocks = std::map<uintptr_t, size_t>;

int64_t Sum(const Blocks& blocks) {
  int64_t sum = 0;
  for (const auto& block : blocks) sum += static_cast<int64_t>(block.second);
  return sum;
}

// Whether `bytes` from `address` on are within one block.
bool Holds(const Blocks& blocks, uintptr_t address, size_t bytes) {
  const auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin + bytes <= size;
}

}  // namespace

void* FakeMemory::Allocate(Kind kind, size_t bytes) {
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  void* const memory = std::aligned_alloc(kPage, pages);
  if (memory == nullptr) return nullptr;
  std::memset(memory, kRubbish, pages);
  const auto address = reinterpret_cast<uintptr_t>(memory);
  BlocksOf(kind)[address] = bytes;
  return reinterpret_cast<void*>(kind == Kind::kDevice ? address | kOnDevice
                                                       : address);
}

bool FakeMemory::Release(Kind kind, void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const bool on_device = (address & kOnDevice) != 0;
  const uintptr_t host = address & ~kOnDevice;
  if (on_device != (kind == Kind::kDevice) || BlocksOf(kind).erase(host) == 0) {
    return false;
  }
  std::free(reinterpret_cast<void*>(host));
  return true;
}

bool FakeMemory::Register(void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const auto after = registered_.lower_bound(address + bytes);
  if (after != registered_.begin()) {
    const auto& [begin, size] = *std::prev(after);
    if (begin + size > address) return false;
  }
  registered_[address] = bytes;
  return true;
}

bool FakeMemory::Unregister(void* memory) {
  return registered_.erase(reinterpret_cast<uintptr_t>(memory)) > 0;
}

int64_t FakeMemory::bytes(Kind kind) const {
  return Sum(kind == Kind::kDevice ? device_ : pinned_);
}

int64_t FakeMemory::registered_bytes() const { return Sum(registered_); }

// Returns 0 if the bytes are out of reach.
uintptr_t FakeMemory::HostAddress(uintptr_t address, size_t bytes,
                                  bool any_of_host) const {
  const bool on_device = (address & kOnDevice) != 0;
  if (!on_device && any_of_host) return address;
  const uintptr_t host = address & ~kOnDevice;
  const bool reached = on_device ? Holds(device_, host, bytes)
                                 : Holds(pinned_, host, bytes) ||
                                       Holds(registered_, host, bytes);
  return reached ? host : 0;
}

namespace {

kernels::ElementType TypeOf(int32_t element) {
  switch (element) {
    case HEARTH_CUDA_FLOAT16:
      return kernels::ElementType::kFloat16;
    case HEARTH_CUDA_BFLOAT16:
      return kernels::ElementType::kBFloat16;
    case HEARTH_CUDA_SCALED_INT8:
      return kernels::ElementType::kScaledInt8;
    default:
      return kernels::ElementType::kFloat32;
  }
}

size_t RowBytes(int32_t element, int64_t dim) {
  const auto elements = static_cast<size_t>(dim);
  if (element == HEARTH_CUDA_SCALED_INT8) {
    return elements + kernels::kScaleBytes;
  }
  return elements * (element == HEARTH_CUDA_FLOAT32 ? 4 : 2);
}

// Number of rows that a matrix needs for these row numbers. REQUIRES: count >
// 0.
template <typename Row>
size_t Extent(const Row* rows, int64_t count) {
  return static_cast<size_t>(*std::max_element(rows, rows + count)) + 1;
}

bool RunPart(const FakeMemory& memory, const HearthCudaScatter& scatter,
             const HearthCudaScatterPart& part) {
  const auto count = static_cast<size_t>(part.count);
  const int64_t* const slots =
      memory.ReachFromKernel(part.slots, count * sizeof(int64_t));
  if (slots == nullptr && part.slots != nullptr) return false;
  const int32_t* const positions =
      memory.ReachFromKernel(part.positions, count * sizeof(int32_t));
  if (positions == nullptr) return false;
  const size_t num_rows = slots == nullptr ? count : Extent(slots, part.count);
  const void* const rows = memory.ReachFromKernel(
      part.rows, num_rows * RowBytes(scatter.element, scatter.dim));
  float* const out = memory.ReachFromKernel(
      scatter.out, Extent(positions, part.count) *
                       RowBytes(HEARTH_CUDA_FLOAT32, scatter.dim));
  if (rows == nullptr || out == nullptr) return false;
  kernels::ScatterRows({static_cast<const std::byte*>(rows),
                        TypeOf(scatter.element), scatter.dim},
                       slots, positions, part.count, out);
  return true;
}

// Turns the pointers of a kernel's argument, in place, into host addresses.
class Translation {
 public:
  explicit Translation(const FakeMemory& memory) : memory_(memory) {}

  // Whether the kernel may touch all memory that it was given.
  bool ok() const { return ok_; }

  // Translates a pointer to `count` elements; any pointer is right for 0.
  template <typename T>
  void Translate(T*& pointer, int64_t count) {
    if (count == 0 || !ok_) return;
    pointer = memory_.ReachFromKernel(pointer,
                                      static_cast<size_t>(count) * sizeof(T));
    ok_ = pointer != nullptr;
  }

  // Translates a pointer that may be null, which stays null.
  template <typename T>
  void TranslateOptional(T*& pointer, int64_t count) {
    if (pointer != nullptr) Translate(pointer, count);
  }

 private:
  const FakeMemory& memory_;
  bool ok_ = true;
};

// How far the edge lists of a kernel reach into its other arrays.
struct EdgeExtents {
  // Rows that the edges' other ends need.
  int64_t others = 0;
  // Entries that arrays with an entry for each edge need.
  int64_t places = 0;
};

EdgeExtents TranslateEdges(Translation& translation, HearthCudaEdges& edges) {
  translation.Translate(edges.indptr, edges.num_rows + 1);
  if (!translation.ok()) return {};
  const int64_t count = edges.indptr[edges.num_rows];
  translation.Translate(edges.indices, count);
  translation.TranslateOptional(edges.edges, count);
  if (!translation.ok() || count == 0) return {};
  return {.others = static_cast<int64_t>(Extent(edges.indices, count)),
          .places = edges.edges == nullptr
                        ? count
                        : static_cast<int64_t>(Extent(edges.edges, count))};
}

EdgeExtents TranslateScored(Translation& translation,
                            HearthCudaScored& scored) {
  const EdgeExtents extents = TranslateEdges(translation, scored.edges);
  // Of the last row only `width` columns are there, not `stride`.
  const int64_t width = scored.heads * scored.channels;
  const auto elements = [&](int64_t rows) {
    return rows == 0 ? 0 : (rows - 1) * scored.stride + width;
  };
  translation.Translate(scored.own, elements(scored.edges.num_rows));
  translation.Translate(scored.other, elements(extents.others));
  translation.TranslateOptional(scored.attention, width);
  return extents;
}

void TranslateTable(Translation& translation, HearthCudaNodeTable& table) {
  translation.Translate(table.nodes, table.slots);
  translation.Translate(table.positions, table.slots);
}

// The arrays of relations lie in host memory, where kernels reach them
// untranslated.
void TranslateGraph(Translation& translation, HearthCudaGraph& graph) {
  translation.Translate(graph.relations, graph.num_relations);
  translation.Translate(graph.type_firsts, graph.num_types + 1);
  translation.Translate(graph.lists, graph.num_types * graph.lists_per_node);
  for (int32_t list = 0; list < graph.num_types * graph.lists_per_node;
       ++list) {
    if (!translation.ok() || graph.lists[list] < 0) continue;
    HearthCudaRelation relation = graph.relations[graph.lists[list]];
    const int64_t* const firsts =
        graph.type_firsts + list / graph.lists_per_node;
    translation.Translate(relation.indptr, firsts[1] - firsts[0] + 1);
    const auto* indices = static_cast<const std::byte*>(relation.indices);
    translation.Translate(indices, relation.num_edges * relation.index_bytes);
  }
}

// Runs `kernel` on a translated argument.
template <typename Kernel, typename Argument>
bool Run(const Translation& translation, const Kernel& kernel,
         const Argument& argument) {
  return translation.ok() && kernel(argument) == 0;
}

}  // namespace

bool RunSum(const FakeMemory& memory, HearthCudaSum sum) {
  Translation translation(memory);
  const EdgeExtents extents = TranslateEdges(translation, sum.edges);
  const int64_t width = sum.heads * sum.channels;
  translation.Translate(sum.weights, extents.places * sum.heads);
  translation.Translate(sum.source, extents.others * width);
  translation.Translate(sum.out, sum.edges.num_rows * width);
  return Run(translation, kernels::EmulateSum, sum);
}

bool RunDots(const FakeMemory& memory, HearthCudaDots dots) {
  Translation translation(memory);
  const EdgeExtents extents = TranslateEdges(translation, dots.edges);
  const int64_t width = dots.heads * dots.channels;
  translation.Translate(dots.own, dots.edges.num_rows * width);
  translation.Translate(dots.other, extents.others * width);
  translation.Translate(dots.out, extents.places * dots.heads);
  return Run(translation, kernels::EmulateDots, dots);
}

bool RunScores(const FakeMemory& memory, HearthCudaScores scores) {
  Translation translation(memory);
  const EdgeExtents extents = TranslateScored(translation, scores.scored);
  translation.Translate(scores.scores, extents.places * scores.scored.heads);
  return Run(translation, kernels::EmulateScores, scores);
}

bool RunSoftmax(const FakeMemory& memory, HearthCudaSoftmax softmax) {
  Translation translation(memory);
  const EdgeExtents extents = TranslateEdges(translation, softmax.edges);
  translation.Translate(softmax.values, extents.places * softmax.heads);
  return Run(translation, kernels::EmulateSoftmax, softmax);
}

bool RunSoftmaxGradient(const FakeMemory& memory, HearthCudaSoftmax softmax) {
  Translation translation(memory);
  const EdgeExtents extents = TranslateEdges(translation, softmax.edges);
  translation.Translate(softmax.softmax, extents.places * softmax.heads);
  translation.Translate(softmax.values, extents.places * softmax.heads);
  return Run(translation, kernels::EmulateSoftmaxGradient, softmax);
}

bool RunScoreGradient(const FakeMemory& memory,
                      HearthCudaScoreGradient gradient) {
  Translation translation(memory);
  const EdgeExtents extents = TranslateScored(translation, gradient.scored);
  const int64_t rows = gradient.scored.edges.num_rows;
  const int64_t width = gradient.scored.heads * gradient.scored.channels;
  translation.Translate(gradient.by_scores,
                        extents.places * gradient.scored.heads);
  translation.Translate(
      gradient.by_own,
      rows == 0 ? 0 : (rows - 1) * gradient.scored.stride + width);
  translation.TranslateOptional(gradient.by_attention, rows * width);
  return Run(translation, kernels::EmulateScoreGradient, gradient);
}

bool RunActivate(const FakeMemory& memory, HearthCudaActivate activate) {
  Translation translation(memory);
  translation.Translate(activate.output, activate.count);
  return Run(translation, kernels::EmulateActivate, activate);
}

bool RunActivationGradient(const FakeMemory& memory,
                           HearthCudaActivate activate) {
  Translation translation(memory);
  translation.Translate(activate.output, activate.count);
  translation.Translate(activate.gradient, activate.count);
  translation.Translate(activate.result, activate.count);
  return Run(translation, kernels::EmulateActivationGradient, activate);
}

bool RunFillTable(const FakeMemory& memory, HearthCudaFillTable fill) {
  Translation translation(memory);
  TranslateTable(translation, fill.table);
  translation.Translate(fill.nodes, fill.count);
  translation.Translate(fill.damage, 1);
  return Run(translation, kernels::EmulateFillTable, fill);
}

bool RunLookUp(const FakeMemory& memory, HearthCudaLookUp look_up) {
  Translation translation(memory);
  TranslateGraph(translation, look_up.graph);
  const int64_t lists = look_up.count * look_up.graph.lists_per_node;
  translation.Translate(look_up.nodes, look_up.count);
  translation.Translate(look_up.starts, lists);
  translation.Translate(look_up.degrees, lists);
  translation.TranslateOptional(look_up.in_degrees, look_up.count);
  translation.Translate(look_up.damage, 1);
  return Run(translation, kernels::EmulateLookUp, look_up);
}

bool RunCountEdges(const FakeMemory& memory, HearthCudaCountEdges count) {
  Translation translation(memory);
  TranslateGraph(translation, count.graph);
  const int64_t lists = count.count * count.graph.lists_per_node;
  translation.Translate(count.nodes, count.count);
  translation.Translate(count.degrees, lists);
  translation.Translate(count.indptr, lists + 1);
  translation.TranslateOptional(count.node_indptr, count.count + 1);
  translation.Translate(count.scratch, HEARTH_CUDA_SCAN_SCRATCH(lists + 1));
  return Run(translation, kernels::EmulateCountEdges, count);
}

bool RunSampleLayer(const FakeMemory& memory, HearthCudaSampleLayer layer) {
  Translation translation(memory);
  TranslateGraph(translation, layer.graph);
  const int64_t lists = layer.num_destinations * layer.graph.lists_per_node;
  translation.Translate(layer.starts, lists);
  translation.Translate(layer.degrees, lists);
  translation.Translate(layer.indptr, lists + 1);
  TranslateTable(translation, layer.table);
  translation.Translate(layer.nodes,
                        std::min(layer.num_destinations + layer.num_edges,
                                 layer.graph.num_nodes));
  translation.Translate(layer.indices, layer.num_edges);
  translation.Translate(layer.sources, layer.num_edges);
  translation.TranslateOptional(layer.edge_relations, layer.num_edges);
  const int64_t counted = layer.num_edges + 1;
  translation.Translate(layer.ranks,
                        counted + HEARTH_CUDA_SCAN_SCRATCH(counted));
  translation.Translate(layer.damage, 1);
  return Run(translation, kernels::EmulateSampleLayer, layer);
}

bool RunGather(const FakeMemory& memory, const HearthCudaGather& gather) {
  if (gather.count == 0 || gather.dim == 0) return true;
  const auto count = static_cast<size_t>(gather.count);
  const int64_t* const indices =
      memory.ReachFromKernel(gather.indices, count * sizeof(int64_t));
  if (indices == nullptr) return false;
  const void* const source = memory.ReachFromKernel(
      gather.source,
      Extent(indices, gather.count) * RowBytes(gather.element, gather.dim));
  float* const out = memory.ReachFromKernel(
      gather.out, count * RowBytes(HEARTH_CUDA_FLOAT32, gather.dim));
  if (source == nullptr || out == nullptr) return false;
  kernels::GatherRows({static_cast<const std::byte*>(source),
                       TypeOf(gather.element), gather.dim},
                      indices, gather.count, out);
  return true;
}

bool RunScatter(const FakeMemory& memory, const HearthCudaScatter& scatter) {
  return std::all_of(std::begin(scatter.parts), std::end(scatter.parts),
                     [&](const HearthCudaScatterPart& part) {
                       return part.count == 0 || scatter.dim == 0 ||
                              RunPart(memory, scatter, part);
                     });
}

}  // namespace hearth::cuda
