#include "engine/strategy/pricing/miss_curves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <queue>
#include <utility>

#include "engine/base/random.h"
#include "engine/strategy/diskgnn/layout/popularity_model.h"

namespace hearth::strategy {

namespace {

constexpr double kMostNodes = 10000;

// Least recently used of `capacity` nodes.
class LruCache {
 public:
  LruCache(int32_t num_nodes, int64_t capacity)
      : capacity_(capacity),
        next_(static_cast<size_t>(num_nodes) + 1, kAbsent),
        previous_(static_cast<size_t>(num_nodes) + 1, kAbsent),
        end_(num_nodes) {
    next_[end_] = previous_[end_] = end_;
  }

  // Whether the node was inside; it then is the most recently used one.
  bool Use(int32_t node) {
    if (capacity_ == 0) return false;
    const bool hit = next_[node] != kAbsent;
    if (hit) {
      Unlink(node);
    } else if (size_ == capacity_) {
      Unlink(previous_[end_]);
    } else {
      ++size_;
    }
    next_[node] = next_[end_];
    previous_[node] = end_;
    previous_[next_[end_]] = node;
    next_[end_] = node;
    return hit;
  }

 private:
  static constexpr int32_t kAbsent = -1;

  void Unlink(int32_t node) {
    previous_[next_[node]] = previous_[node];
    next_[previous_[node]] = next_[node];
    next_[node] = kAbsent;
  }

  const int64_t capacity_;
  int64_t size_ = 0;
  // A ring through all nodes inside, the most recently used after `end_`.
  std::vector<int32_t> next_;
  std::vector<int32_t> previous_;
  const int32_t end_;
};

int64_t Whole(double value) {
  return static_cast<int64_t>(std::llround(std::max(0.0, value)));
}

// Appends `node` to `count` of the batches, drawn without replacement (Floyd).
// `taken[i]` is the last node that batch i was drawn for.
void Scatter(int32_t node, int64_t count, RandomStream& random,
             std::vector<int32_t>& taken,
             std::vector<std::vector<int32_t>>& batches) {
  const auto all = std::ssize(taken);
  for (int64_t last = all - std::min(count, all); last < all; ++last) {
    auto drawn =
        static_cast<int64_t>(random.Below(static_cast<uint64_t>(last) + 1));
    if (taken[drawn] == node) drawn = last;
    taken[drawn] = node;
    batches[drawn].push_back(node);
  }
}

}  // namespace

MissCurves::MissCurves(std::vector<double> seen, int64_t total, bool repeats) {
  // There may be fewer batches in an epoch than were sampled of all.
  total = std::max<int64_t>(total, std::ssize(seen) - 1);
  const int64_t epochs = repeats ? 1 : 2;
  const int64_t batches = epochs * total;
  const PopularityModel model(seen, batches);
  accesses_ = model.num_accesses() / static_cast<double>(epochs);
  double nodes = 0;
  for (int64_t k = 1; k <= batches; ++k) nodes += model.nodes()[k];
  nodes_per_node_ = std::max(1.0, nodes / kMostNodes);
  trace_.resize(static_cast<size_t>(batches));
  std::vector<int32_t> taken(static_cast<size_t>(batches), -1);
  RandomStream random(1, RandomPurpose::kGenerator);
  double due = 0;
  for (int64_t k = batches; k >= 1; --k) {
    due += model.nodes()[k] / nodes_per_node_;
    for (; due >= 0.5; due -= 1) {
      Scatter(num_nodes_++, k, random, taken, trace_);
    }
  }
  if (repeats) {
    for (int64_t i = 0; i < total; ++i) trace_.push_back(trace_[i]);
  }
  double synthetic = 0;
  for (const std::vector<int32_t>& batch : trace_) {
    synthetic += static_cast<double>(batch.size());
  }
  accesses_per_access_ = 2 * accesses_ / std::max(1.0, synthetic);
  distinct_ = Lru(nodes_per_node_ * num_nodes_).first;
}

MissCurves::Misses MissCurves::Scaled(double first, double later) const {
  return {.first = std::min(accesses_, first * accesses_per_access_),
          .later = std::min(accesses_, later * accesses_per_access_)};
}

MissCurves::Misses MissCurves::Lru(double rows) const {
  return Static(0, rows);
}

MissCurves::Misses MissCurves::Static(double hot, double lines) const {
  const int64_t stay = Whole(hot / nodes_per_node_);
  LruCache cache(num_nodes_,
                 std::min<int64_t>(Whole(lines / nodes_per_node_), num_nodes_));
  double misses[2] = {0, 0};
  for (size_t i = 0; i < trace_.size(); ++i) {
    for (const int32_t node : trace_[i]) {
      if (node >= stay && !cache.Use(node)) ++misses[i >= trace_.size() / 2];
    }
  }
  return Scaled(misses[0], misses[1]);
}

MissCurves::Misses MissCurves::Optimal(double rows) const {
  const auto capacity = static_cast<size_t>(
      std::min<int64_t>(Whole(rows / nodes_per_node_), num_nodes_));
  constexpr auto kNever = std::numeric_limits<int32_t>::max();
  // Of each access, the batch of the node's next one.
  std::vector<std::vector<int32_t>> next_uses(trace_.size());
  std::vector<int32_t> next(static_cast<size_t>(num_nodes_), kNever);
  for (size_t i = trace_.size(); i-- > 0;) {
    for (const int32_t node : trace_[i]) {
      next_uses[i].push_back(next[node]);
      next[node] = static_cast<int32_t>(i);
    }
  }
  // Nodes inside by their next use, the latest first; entries of nodes that
  // were used since are stale.
  std::priority_queue<std::pair<int32_t, int32_t>> latest;
  std::vector<int32_t> inside(static_cast<size_t>(num_nodes_), -1);
  size_t size = 0;
  double misses[2] = {0, 0};
  for (size_t i = 0; i < trace_.size(); ++i) {
    for (size_t j = 0; j < trace_[i].size(); ++j) {
      const int32_t node = trace_[i][j];
      const int32_t use = next_uses[i][j];
      if (inside[node] >= 0) {
        inside[node] = use;
        latest.emplace(use, node);
        continue;
      }
      ++misses[i >= trace_.size() / 2];
      if (use == kNever || capacity == 0) continue;
      if (size == capacity) {
        while (inside[latest.top().second] != latest.top().first) latest.pop();
        if (latest.top().first <= use) continue;
        inside[latest.top().second] = -1;
        latest.pop();
        --size;
      }
      ++size;
      inside[node] = use;
      latest.emplace(use, node);
    }
  }
  return Scaled(misses[0], misses[1]);
}

}  // namespace hearth::strategy
