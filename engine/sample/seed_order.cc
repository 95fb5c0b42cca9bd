#include "engine/sample/seed_order.h"

#include <iterator>
#include <utility>

#include "engine/base/random.h"

namespace hearth::sample {
namespace {

class ShuffledOrder final : public SeedOrder {
 public:
  ShuffledOrder(std::vector<store::NodeId> nodes, uint64_t data_seed)
      : nodes_(std::move(nodes)), data_seed_(data_seed) {}

  int64_t size() const override { return std::ssize(nodes_); }

  std::vector<store::NodeId> Epoch(uint64_t epoch_key) const override {
    std::vector<store::NodeId> order = nodes_;
    RandomStream random(data_seed_, RandomPurpose::kSeedOrder, epoch_key);
    for (size_t left = order.size(); left > 1; --left) {
      std::swap(order[left - 1], order[random.Below(left)]);
    }
    return order;
  }

 private:
  const std::vector<store::NodeId> nodes_;
  const uint64_t data_seed_;
};

class SequentialOrder final : public SeedOrder {
 public:
  explicit SequentialOrder(std::vector<store::NodeId> nodes)
      : nodes_(std::move(nodes)) {}

  int64_t size() const override { return std::ssize(nodes_); }

  std::vector<store::NodeId> Epoch(uint64_t /*epoch_key*/) const override {
    return nodes_;
  }

 private:
  const std::vector<store::NodeId> nodes_;
};

}  // namespace

std::unique_ptr<SeedOrder> NewShuffledOrder(std::vector<store::NodeId> nodes,
                                            uint64_t data_seed) {
  return std::make_unique<ShuffledOrder>(std::move(nodes), data_seed);
}

std::unique_ptr<SeedOrder> NewSequentialOrder(
    std::vector<store::NodeId> nodes) {
  return std::make_unique<SequentialOrder>(std::move(nodes));
}

}  // namespace hearth::sample
