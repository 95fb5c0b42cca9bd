#include "engine/sample/epoch_profile.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/store/node_columns.h"

namespace hearth::sample {

namespace {

using store::NodeId;

// Facts: seeds, rows, drawn neighbors, pages of these, pages of a row,
// redundancy in shuffled order. Columns: features, sampled, gathered.
constexpr store::NodeColumnsKind kKind = {.name = "profile of an epoch",
                                          .version = 2,
                                          .num_scalars = 6,
                                          .num_columns = 3};

}  // namespace

double EpochProfile::redundancy() const {
  return num_seeds == 0
             ? 0
             : static_cast<double>(num_rows) / static_cast<double>(num_seeds);
}

double EpochProfile::beta() const {
  if (num_drawn == 0 || row_pages == 0) return 1;
  return static_cast<double>(drawn_pages) / static_cast<double>(num_drawn) /
         static_cast<double>(row_pages);
}

std::vector<NodeId> EpochProfile::BestHistories(int64_t count,
                                                double beta) const {
  std::vector<NodeId> nodes(static_cast<size_t>(num_nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  const auto middle =
      nodes.begin() + std::clamp<int64_t>(count, 0, num_nodes());
  std::partial_sort(nodes.begin(), middle, nodes.end(),
                    [&](NodeId a, NodeId b) {
                      const double of_a = SavedByHistory(a, beta);
                      const double of_b = SavedByHistory(b, beta);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  nodes.erase(middle, nodes.end());
  nodes.shrink_to_fit();
  return nodes;
}

uint64_t EpochProfileBytes(int64_t num_nodes) {
  return store::NodeColumnsBytes(kKind, num_nodes);
}

absl::Status WriteEpochProfile(io::FileSystem& files, const std::string& path,
                               const EpochProfile& profile) {
  const std::array<double, 6> scalars = {
      static_cast<double>(profile.num_seeds),
      static_cast<double>(profile.num_rows),
      static_cast<double>(profile.num_drawn),
      static_cast<double>(profile.drawn_pages),
      static_cast<double>(profile.row_pages),
      profile.shuffled_redundancy};
  const std::array<absl::Span<const float>, 3> columns = {
      profile.features, profile.sampled, profile.gathered};
  return store::WriteNodeColumns(files, path, kKind, scalars, columns);
}

absl::StatusOr<EpochProfile> ReadEpochProfile(io::FileSystem& files,
                                              const std::string& path,
                                              int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      store::NodeColumns read,
      store::ReadNodeColumns(files, path, kKind, num_nodes));
  return EpochProfile{.num_seeds = static_cast<int64_t>(read.scalars[0]),
                      .num_rows = static_cast<int64_t>(read.scalars[1]),
                      .num_drawn = static_cast<int64_t>(read.scalars[2]),
                      .drawn_pages = static_cast<int64_t>(read.scalars[3]),
                      .row_pages = static_cast<int64_t>(read.scalars[4]),
                      .shuffled_redundancy = read.scalars[5],
                      .features = std::move(read.columns[0]),
                      .sampled = std::move(read.columns[1]),
                      .gathered = std::move(read.columns[2])};
}

namespace {

constexpr int64_t kPageBytes = 4096;

int64_t PagesOf(int64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

}  // namespace

EpochProfiler::EpochProfiler(const Options& options)
    : index_bytes_(options.index_bytes) {
  const auto nodes = static_cast<size_t>(options.num_nodes);
  profile_.row_pages = PagesOf(options.row_bytes);
  profile_.features.resize(nodes);
  profile_.sampled.resize(nodes);
  profile_.gathered.resize(nodes);
}

// Walks the trees below the sources of the last block, from the leaves up: a
// node of weight w stands for w nodes, itself included; a source of the last
// block gets the weight of its edges alone.
template <typename Counts>
void EpochProfiler::AddTrees(const MiniBatch& batch, const Counts& counts,
                             std::vector<float>& totals) {
  const size_t top = batch.blocks.size() - 2;
  below_.assign(batch.input_nodes.size(), 1);
  for (size_t layer = 0; layer <= top; ++layer) {
    const Block& block = batch.blocks[layer];
    weights_.assign(static_cast<size_t>(block.num_destinations),
                    layer < top ? 1 : 0);
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      for (int64_t edge = block.indptr[row]; edge < block.indptr[row + 1];
           ++edge) {
        if (counts(layer, row, edge)) {
          weights_[row] += below_[block.indices[edge]];
        }
      }
    }
    below_.swap(weights_);
  }
  for (size_t row = 0; row < below_.size(); ++row) {
    totals[batch.input_nodes[row]] += below_[row];
  }
}

void EpochProfiler::Add(const MiniBatch& batch,
                        absl::FunctionRef<bool(NodeId)> list_is_resident) {
  for (const NodeId node : batch.input_nodes) ++profile_.features[node];
  profile_.num_seeds += batch.num_seeds;
  profile_.num_rows += std::ssize(batch.input_nodes);

  // Upper bound of the pages read: one per drawn neighbor, or all pages of the
  // list.
  for (const Block& block : batch.blocks) {
    for (int64_t row = 0; row < block.num_destinations; ++row) {
      if (list_is_resident(batch.input_nodes[row])) continue;
      const int64_t drawn = block.indptr[row + 1] - block.indptr[row];
      profile_.num_drawn += drawn;
      profile_.drawn_pages +=
          std::min(drawn, PagesOf(batch.in_degrees[row] * index_bytes_));
    }
  }
  AddTrees(
      batch,
      [&](size_t /*layer*/, int64_t row, int64_t /*edge*/) {
        return !list_is_resident(batch.input_nodes[row]);
      },
      profile_.sampled);

  // A source that is no destination entered the batch by its first edge.
  size_t layer_of = batch.blocks.size();
  AddTrees(
      batch,
      [&](size_t layer, int64_t /*row*/, int64_t edge) {
        const Block& block = batch.blocks[layer];
        const int32_t source = block.indices[edge];
        if (layer != layer_of) {
          introduced_.assign(batch.input_nodes.size(), false);
          layer_of = layer;
        }
        if (source < block.num_destinations || introduced_[source]) {
          return false;
        }
        introduced_[source] = true;
        return true;
      },
      profile_.gathered);
}

namespace {

constexpr int kShares = 100;

// Sums of the largest values.
class LargestSums {
 public:
  explicit LargestSums(std::vector<float> values) : values_(std::move(values)) {
    std::sort(values_.begin(), values_.end(), std::greater<>());
  }

  // Sum of the `count` largest values. REQUIRES: `count` never falls.
  double Of(int64_t count) {
    const auto end = std::min(static_cast<size_t>(count), values_.size());
    for (; added_ < end; ++added_) sum_ += double{values_[added_]};
    return sum_;
  }

 private:
  std::vector<float> values_;
  size_t added_ = 0;
  double sum_ = 0;
};

std::vector<float> SavedByHistories(const EpochProfile& profile, double beta) {
  std::vector<float> saved(static_cast<size_t>(profile.num_nodes()));
  for (size_t node = 0; node < saved.size(); ++node) {
    saved[node] = static_cast<float>(
        profile.SavedByHistory(static_cast<store::NodeId>(node), beta));
  }
  return saved;
}

CacheSplit SplitAt(double share, int64_t num_nodes, const SharedCache& cache) {
  CacheSplit split;
  split.share = share;
  split.embedding_bytes =
      std::min(cache.bytes,
               static_cast<uint64_t>(static_cast<double>(cache.bytes) * share));
  split.row_bytes = cache.bytes - split.embedding_bytes;
  split.embeddings = std::clamp<int64_t>(
      cache.embeddings_within(split.embedding_bytes), 0, num_nodes);
  return split;
}

}  // namespace

CacheSplit SplitCache(const EpochProfile& profile, double beta,
                      const SharedCache& cache, std::optional<double> share) {
  const int64_t nodes = profile.num_nodes();
  std::vector<CacheSplit> splits;
  if (share.has_value()) {
    splits.push_back(SplitAt(*share, nodes, cache));
  } else {
    for (int i = 0; i <= kShares; ++i) {
      splits.push_back(SplitAt(static_cast<double>(i) / kShares, nodes, cache));
    }
  }
  // Sums grow from few values to many: embeddings with rising shares, rows with
  // falling ones.
  {
    LargestSums embeddings(SavedByHistories(profile, beta));
    for (CacheSplit& split : splits) {
      split.saved_rows = embeddings.Of(split.embeddings);
    }
  }
  LargestSums rows(profile.features);
  for (auto split = splits.rbegin(); split != splits.rend(); ++split) {
    split->saved_rows +=
        rows.Of(std::max<int64_t>(cache.rows_within(split->row_bytes), 0));
  }
  return *std::max_element(splits.begin(), splits.end(),
                           [](const CacheSplit& a, const CacheSplit& b) {
                             return a.saved_rows < b.saved_rows;
                           });
}

}  // namespace hearth::sample
