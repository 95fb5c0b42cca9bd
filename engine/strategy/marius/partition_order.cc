#include "engine/strategy/marius/partition_order.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>
#include <numeric>

namespace hearth::strategy {

namespace {

template <typename T>
void Shuffle(std::vector<T>& values, RandomStream& random) {
  for (size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[random.Below(left)]);
  }
}

std::vector<int32_t> ShuffledPartitions(int32_t partitions,
                                        RandomStream& random) {
  std::vector<int32_t> all(static_cast<size_t>(partitions));
  std::iota(all.begin(), all.end(), 0);
  Shuffle(all, random);
  return all;
}

PartitionSet Sorted(PartitionSet set) {
  std::sort(set.begin(), set.end());
  return set;
}

}  // namespace

int64_t CountLoads(const std::vector<PartitionSet>& sets) {
  int64_t loads = 0;
  PartitionSet before;
  for (const PartitionSet& set : sets) {
    loads += std::count_if(set.begin(), set.end(), [&](int32_t partition) {
      return !std::binary_search(before.begin(), before.end(), partition);
    });
    before = set;
  }
  return loads;
}

PartitionSet RandomSet(int32_t partitions, int32_t count,
                       RandomStream& random) {
  std::vector<int32_t> all = ShuffledPartitions(partitions, random);
  all.resize(static_cast<size_t>(count));
  return Sorted(std::move(all));
}

std::vector<PartitionSet> DispersedOrder(int32_t partitions, int32_t capacity,
                                         int32_t step, RandomStream& random) {
  assert(1 <= step && step <= capacity);
  const std::vector<int32_t> all = ShuffledPartitions(partitions, random);
  size_t next = std::min(all.size(), static_cast<size_t>(capacity));
  PartitionSet set(all.begin(), all.begin() + static_cast<ptrdiff_t>(next));
  std::vector<PartitionSet> sets = {Sorted(set)};
  while (next < all.size()) {
    const size_t count = std::min(all.size() - next, static_cast<size_t>(step));
    Shuffle(set, random);
    std::copy_n(all.begin() + static_cast<ptrdiff_t>(next), count, set.begin());
    next += count;
    sets.push_back(Sorted(set));
  }
  return sets;
}

std::vector<PartitionSet> BetaOrder(int32_t partitions, int32_t capacity,
                                    RandomStream& random) {
  assert(capacity >= 2 || partitions <= 1);
  std::vector<int32_t> outside = ShuffledPartitions(partitions, random);
  const size_t held = std::min(outside.size(), static_cast<size_t>(capacity));
  std::vector<int32_t> inside(outside.end() - static_cast<ptrdiff_t>(held),
                              outside.end());
  outside.resize(outside.size() - held);
  std::vector<PartitionSet> sets = {Sorted(inside)};
  while (!outside.empty()) {
    Shuffle(inside, random);
    Shuffle(outside, random);
    // All but the last of those inside stay, and meet all others.
    for (int32_t& other : outside) {
      std::swap(inside.back(), other);
      sets.push_back(Sorted(inside));
    }
    // They are done with, and make room for others.
    Shuffle(outside, random);
    for (size_t i = 0; i + 1 < inside.size() && !outside.empty(); ++i) {
      inside[i] = outside.back();
      outside.pop_back();
      sets.push_back(Sorted(inside));
    }
  }
  return sets;
}

int64_t LeastPairLoads(int32_t partitions, int32_t capacity) {
  if (partitions <= capacity) return partitions;
  const auto pairs = [](int64_t count) { return count * (count - 1) / 2; };
  const int64_t others = capacity - 1;
  return capacity + (pairs(partitions) - pairs(capacity) + others - 1) / others;
}

std::vector<PartitionSet> CometOrder(int32_t partitions, int32_t capacity,
                                     int32_t group, RandomStream& random) {
  assert(group >= 1 && (capacity / group >= 2 || partitions <= capacity));
  const std::vector<int32_t> physical = ShuffledPartitions(partitions, random);
  if (partitions <= capacity) return {Sorted(physical)};
  const int32_t groups = (partitions + group - 1) / group;
  std::vector<PartitionSet> sets;
  for (const PartitionSet& logical :
       BetaOrder(groups, capacity / group, random)) {
    PartitionSet& set = sets.emplace_back();
    for (const int32_t number : logical) {
      const int32_t first = number * group;
      const int32_t end = std::min(first + group, partitions);
      set.insert(set.end(), physical.begin() + first, physical.begin() + end);
    }
    std::sort(set.begin(), set.end());
  }
  return sets;
}

std::vector<PartitionPairs> AssignPairs(const std::vector<PartitionSet>& sets,
                                        int32_t partitions,
                                        RandomStream& random) {
  // The sets that have each partition, ascending.
  std::vector<std::vector<size_t>> with(static_cast<size_t>(partitions));
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const int32_t partition : sets[i]) with[partition].push_back(i);
  }
  std::vector<PartitionPairs> pairs(sets.size());
  std::vector<size_t> both;
  for (int32_t from = 0; from < partitions; ++from) {
    for (int32_t to = 0; to < partitions; ++to) {
      both.clear();
      std::set_intersection(with[from].begin(), with[from].end(),
                            with[to].begin(), with[to].end(),
                            std::back_inserter(both));
      if (both.empty()) continue;
      pairs[both[random.Below(both.size())]].emplace_back(from, to);
    }
  }
  return pairs;
}

}  // namespace hearth::strategy
