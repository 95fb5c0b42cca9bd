#include "engine/sample/seed_order.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"

namespace hearth::sample {
namespace {

// Shuffles by Fisher and Yates.
template <typename Element>
void Shuffle(absl::Span<Element> elements, RandomStream random) {
  for (size_t left = elements.size(); left > 1; --left) {
    std::swap(elements[left - 1], elements[random.Below(left)]);
  }
}

// 0, 1, ... count - 1.
std::vector<int64_t> InOrder(int64_t count) {
  std::vector<int64_t> places(static_cast<size_t>(count));
  std::iota(places.begin(), places.end(), int64_t{0});
  return places;
}

class ShuffledOrder final : public SeedOrder {
 public:
  ShuffledOrder(std::vector<store::NodeId> nodes, uint64_t data_seed)
      : nodes_(std::move(nodes)), data_seed_(data_seed) {}

  int64_t size() const override { return std::ssize(nodes_); }

  std::vector<store::NodeId> Epoch(uint64_t epoch_key) const override {
    return Shuffled(nodes_, epoch_key);
  }

  std::vector<int64_t> Places(uint64_t epoch_key) const override {
    return Shuffled(InOrder(size()), epoch_key);
  }

 private:
  template <typename Element>
  std::vector<Element> Shuffled(std::vector<Element> elements,
                                uint64_t epoch_key) const {
    Shuffle(absl::MakeSpan(elements),
            RandomStream(data_seed_, RandomPurpose::kSeedOrder, epoch_key));
    return elements;
  }

  const std::vector<store::NodeId> nodes_;
  const uint64_t data_seed_;
};

class PartitionOrder final : public SeedOrder {
 public:
  PartitionOrder(absl::Span<const store::NodeId> nodes,
                 const PartitionOrderOptions& options)
      : parts_per_macro_batch_(options.parts_per_macro_batch),
        partition_(options.partition),
        data_seed_(options.data_seed) {
    const size_t num_parts =
        options.parts.empty()
            ? 0
            : *std::max_element(options.parts.begin(), options.parts.end()) + 1;
    begins_.resize(num_parts + 1);
    for (const uint16_t part : options.parts) ++begins_[part + 1];
    for (size_t part = 0; part < num_parts; ++part) {
      if (begins_[part + 1] > 0) {
        parts_.push_back(static_cast<uint16_t>(part));
      }
      begins_[part + 1] += begins_[part];
    }
    nodes_.resize(nodes.size());
    places_.resize(nodes.size());
    std::vector<int64_t> ends = begins_;
    for (size_t seed = 0; seed < nodes.size(); ++seed) {
      const int64_t at = ends[options.parts[seed]]++;
      nodes_[at] = nodes[seed];
      places_[at] = static_cast<int64_t>(seed);
    }
  }

  int64_t size() const override { return std::ssize(nodes_); }

  std::vector<store::NodeId> Epoch(uint64_t epoch_key) const override {
    return Ordered(nodes_, epoch_key);
  }

  std::vector<int64_t> Places(uint64_t epoch_key) const override {
    return Ordered(places_, epoch_key);
  }

  std::vector<MacroBatch> MacroBatches(uint64_t epoch_key) const override {
    std::vector<uint16_t> parts = parts_;
    Shuffle(
        absl::MakeSpan(parts),
        RandomStream(data_seed_, RandomPurpose::kPartitionOrder, epoch_key));
    std::vector<MacroBatch> macro_batches;
    for (size_t taken = 0; taken < parts.size(); ++taken) {
      if (taken % parts_per_macro_batch_ == 0) macro_batches.emplace_back();
      MacroBatch& macro_batch = macro_batches.back();
      macro_batch.parts.push_back(parts[taken]);
      macro_batch.num_seeds +=
          begins_[parts[taken] + 1] - begins_[parts[taken]];
    }
    return macro_batches;
  }

  std::string identity() const override {
    return absl::StrCat(partition_, " ", parts_per_macro_batch_);
  }

 private:
  // Elements that are grouped by part, in the order of the epoch.
  template <typename Element>
  std::vector<Element> Ordered(const std::vector<Element>& grouped,
                               uint64_t epoch_key) const {
    std::vector<Element> order;
    order.reserve(grouped.size());
    uint64_t number = 0;
    for (const MacroBatch& macro_batch : MacroBatches(epoch_key)) {
      const size_t begin = order.size();
      for (const uint16_t part : macro_batch.parts) {
        order.insert(order.end(), grouped.begin() + begins_[part],
                     grouped.begin() + begins_[part + 1]);
      }
      Shuffle(absl::MakeSpan(order).subspan(begin),
              RandomStream(data_seed_, RandomPurpose::kSeedOrder, epoch_key,
                           number++));
    }
    return order;
  }

  const size_t parts_per_macro_batch_;
  const std::string partition_;
  const uint64_t data_seed_;
  // Seeds grouped by part, in the order given within each part.
  std::vector<store::NodeId> nodes_;
  // Where each of them was given.
  std::vector<int64_t> places_;
  // [parts + 1] index of each part's first seed in nodes_.
  std::vector<int64_t> begins_;
  // Parts that have seeds, ascending.
  std::vector<uint16_t> parts_;
};

class SequentialOrder final : public SeedOrder {
 public:
  explicit SequentialOrder(std::vector<store::NodeId> nodes)
      : nodes_(std::move(nodes)) {}

  int64_t size() const override { return std::ssize(nodes_); }

  std::vector<store::NodeId> Epoch(uint64_t /*epoch_key*/) const override {
    return nodes_;
  }

  std::vector<int64_t> Places(uint64_t /*epoch_key*/) const override {
    return InOrder(size());
  }

 private:
  const std::vector<store::NodeId> nodes_;
};

class NamedOrder final : public SeedOrder {
 public:
  NamedOrder(std::unique_ptr<SeedOrder> order, std::string name)
      : order_(std::move(order)), name_(std::move(name)) {}

  int64_t size() const override { return order_->size(); }

  std::vector<store::NodeId> Epoch(uint64_t epoch_key) const override {
    return order_->Epoch(epoch_key);
  }

  std::vector<int64_t> Places(uint64_t epoch_key) const override {
    return order_->Places(epoch_key);
  }

  std::vector<MacroBatch> MacroBatches(uint64_t epoch_key) const override {
    return order_->MacroBatches(epoch_key);
  }

  std::string identity() const override {
    return absl::StrCat(order_->identity(), ";", name_);
  }

 private:
  const std::unique_ptr<SeedOrder> order_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<SeedOrder> NewShuffledOrder(std::vector<store::NodeId> nodes,
                                            uint64_t data_seed) {
  return std::make_unique<ShuffledOrder>(std::move(nodes), data_seed);
}

std::unique_ptr<SeedOrder> NewPartitionOrder(
    absl::Span<const store::NodeId> nodes,
    const PartitionOrderOptions& options) {
  return std::make_unique<PartitionOrder>(nodes, options);
}

std::unique_ptr<SeedOrder> NewSequentialOrder(
    std::vector<store::NodeId> nodes) {
  return std::make_unique<SequentialOrder>(std::move(nodes));
}

std::unique_ptr<SeedOrder> NewNamedOrder(std::unique_ptr<SeedOrder> order,
                                         std::string name) {
  return std::make_unique<NamedOrder>(std::move(order), std::move(name));
}

}  // namespace hearth::sample
