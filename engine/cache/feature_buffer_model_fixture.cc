#include "engine/cache/feature_buffer_model_fixture.h"

#include <algorithm>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace hearth::cache {

using store::NodeId;

std::vector<FeatureBufferModel> FeatureBufferModel::Successors() const {
  std::vector<FeatureBufferModel> result;
  for (size_t b = 0; b < batches_.size(); ++b) {
    if (!CanStep(b)) continue;
    if (batches_[b].phase != Phase::kLoads) {
      result.push_back(*this);
      result.back().Step(b);
      continue;
    }
    for (size_t i = 0; i < batches_[b].missing.size(); ++i) {
      result.push_back(*this);
      result.back().LoadOne(b, i);
    }
    if (!batches_[b].arrived.empty()) {
      result.push_back(*this);
      result.back().PublishArrived(b);
    }
    if (failing_reads_ > 0 && !batches_[b].missing.empty()) {
      result.push_back(*this);
      result.back().FailRead(b);
    }
  }
  return result;
}

bool FeatureBufferModel::Ended() const {
  return std::all_of(batches_.begin(), batches_.end(),
                     [](const Batch& b) { return b.phase == Phase::kEnded; });
}

int FeatureBufferModel::NumFailed() const {
  return static_cast<int>(
      std::count_if(batches_.begin(), batches_.end(),
                    [](const Batch& b) { return b.failed; }));
}

std::string FeatureBufferModel::Key() const {
  std::string key;
  for (int64_t slot = 0; slot < case_->slots; ++slot) {
    absl::StrAppend(&key, static_cast<int>(table_.state(slot)), ",",
                    table_.node(slot), ",", table_.refs(slot), ",",
                    table_.awaited(slot), ",", bytes_[slot], ";");
  }
  for (const int64_t slot : table_.StandbySlots()) absl::StrAppend(&key, slot);
  for (const Batch& batch : batches_) {
    absl::StrAppend(&key, "|", static_cast<int>(batch.phase), batch.asleep,
                    batch.failed, batch.released);
    for (const auto* list :
         {&batch.slots, &batch.missing, &batch.arrived, &batch.awaited}) {
      absl::StrAppend(&key, "/");
      for (const int64_t slot : *list) absl::StrAppend(&key, slot, ",");
    }
  }
  absl::StrAppend(&key, "|", turn_taken_, next_turn_, next_consumed_,
                  failing_reads_);
  return key;
}

void FeatureBufferModel::Check() const {
  std::vector<int64_t> refs(case_->slots);
  std::vector<int64_t> loaders(case_->slots);
  for (size_t b = 0; b < batches_.size(); ++b) {
    const Batch& batch = batches_[b];
    for (size_t i = batch.released; i < batch.slots.size(); ++i) {
      const int64_t slot = batch.slots[i];
      ++refs[slot];
      if (table_.state(slot) != SlotTable::State::kFailed) {
        ASSERT_EQ(table_.node(slot), case_->batches[b][i]);
      }
      if (table_.state(slot) == SlotTable::State::kValid) {
        ASSERT_EQ(bytes_[slot], case_->batches[b][i]);
      }
    }
    for (const int64_t slot : batch.missing) ++loaders[slot];
    for (const int64_t slot : batch.arrived) ++loaders[slot];
  }
  std::set<NodeId> nodes;
  std::vector<int64_t> standby;
  for (int64_t slot = 0; slot < case_->slots; ++slot) {
    CheckSlot(slot, loaders[slot]);
    ASSERT_EQ(table_.refs(slot), refs[slot]);
    if (refs[slot] == 0) standby.push_back(slot);
    if (table_.node(slot) == SlotTable::kNoNode) continue;
    ASSERT_TRUE(nodes.insert(table_.node(slot)).second)
        << "two slots for one node";
  }
  std::vector<int64_t> listed = table_.StandbySlots();
  ASSERT_EQ(static_cast<int64_t>(listed.size()), table_.num_standby());
  std::sort(listed.begin(), listed.end());
  ASSERT_EQ(listed, standby);
}

void FeatureBufferModel::CheckSlot(int64_t slot, int64_t loaders) const {
  const SlotTable::State state = table_.state(slot);
  const NodeId node = table_.node(slot);
  const bool loading = state == SlotTable::State::kLoading;
  ASSERT_EQ(loaders, loading ? 1 : 0);
  ASSERT_EQ(node != SlotTable::kNoNode,
            loading || state == SlotTable::State::kValid);
  if (node != SlotTable::kNoNode) {
    ASSERT_EQ(table_.Find(node), slot);
  }
  if (state == SlotTable::State::kValid) {
    ASSERT_EQ(bytes_[slot], node);
  }
  if (table_.awaited(slot)) {
    ASSERT_TRUE(loading);
  }
}

bool FeatureBufferModel::CanStep(size_t b) const {
  const Batch& batch = batches_[b];
  if (batch.asleep) return false;
  const bool by_number = case_->turns == ModelTurns::kByNumber;
  switch (batch.phase) {
    case Phase::kQueued:
      return NumExtracting() < case_->extractors &&
             (!by_number || b == 0 || batches_[b - 1].phase != Phase::kQueued);
    case Phase::kWaitsForTurn:
      return case_->turns == ModelTurns::kNone ||
             (!turn_taken_ && (!by_number || next_turn_ == b));
    case Phase::kExtracted:
      return by_number ? next_consumed_ == b : AssemblerIsFree();
    case Phase::kEnded:
      return false;
    default:
      return true;
  }
}

int FeatureBufferModel::NumExtracting() const {
  return static_cast<int>(
      std::count_if(batches_.begin(), batches_.end(), [](const Batch& batch) {
        return batch.phase != Phase::kQueued && batch.phase < Phase::kExtracted;
      }));
}

// A batch that failed gives its references back itself.
bool FeatureBufferModel::AssemblerIsFree() const {
  return std::none_of(batches_.begin(), batches_.end(), [](const Batch& batch) {
    return batch.phase == Phase::kWaitsForRows ||
           (batch.phase == Phase::kReleases && !batch.failed);
  });
}

void FeatureBufferModel::Step(size_t b) {
  Batch& batch = batches_[b];
  switch (batch.phase) {
    case Phase::kQueued:
      batch.phase = Phase::kWaitsForTurn;
      return;
    case Phase::kWaitsForTurn:
      turn_taken_ = true;
      batch.phase = Phase::kClaims;
      return;
    case Phase::kClaims:
      return ClaimOne(b);
    case Phase::kWaitsForSlot:
      batch.asleep = table_.num_standby() == 0;
      if (!batch.asleep) batch.phase = Phase::kClaims;
      return;
    case Phase::kWaitsForRows:
      return AwaitOne(b);
    case Phase::kExtracted:
      batch.phase = Phase::kWaitsForRows;
      return;
    case Phase::kReleases:
      return ReleaseOne(b);
    default:
      FAIL() << "no step";
  }
}

void FeatureBufferModel::ClaimOne(size_t b) {
  Batch& batch = batches_[b];
  const auto claimed = table_.Claim(case_->batches[b][batch.slots.size()]);
  if (claimed.outcome == SlotTable::Outcome::kNoSlot) {
    batch.phase = batch.missing.empty() ? Phase::kWaitsForSlot : Phase::kLoads;
    return;
  }
  batch.slots.push_back(claimed.slot);
  if (claimed.outcome == SlotTable::Outcome::kMustLoad) {
    batch.missing.push_back(claimed.slot);
    bytes_[claimed.slot] = SlotTable::kNoNode;
  } else if (claimed.outcome == SlotTable::Outcome::kLoading) {
    batch.awaited.push_back(claimed.slot);
  }
  if (!AllClaimed(b)) return;
  PassTurn();
  batch.phase = batch.missing.empty() ? Phase::kExtracted : Phase::kLoads;
}

bool FeatureBufferModel::AllClaimed(size_t b) const {
  return batches_[b].slots.size() == case_->batches[b].size();
}

void FeatureBufferModel::PassTurn() {
  turn_taken_ = false;
  ++next_turn_;
}

void FeatureBufferModel::LoadOne(size_t b, size_t index) {
  Batch& batch = batches_[b];
  const int64_t slot = batch.missing[index];
  bytes_[slot] = table_.node(slot);
  batch.missing.erase(batch.missing.begin() + static_cast<int64_t>(index));
  batch.arrived.push_back(slot);
}

void FeatureBufferModel::PublishArrived(size_t b) {
  Batch& batch = batches_[b];
  bool awaited = false;
  for (const int64_t slot : batch.arrived) {
    awaited = table_.Publish(slot) || awaited;
  }
  batch.arrived.clear();
  if (awaited) Wake(Phase::kWaitsForRows);
  if (!batch.missing.empty()) return;
  batch.phase = AllClaimed(b) ? Phase::kExtracted : Phase::kWaitsForSlot;
}

void FeatureBufferModel::FailRead(size_t b) {
  Batch& batch = batches_[b];
  --failing_reads_;
  PublishArrived(b);
  bool awaited = false;
  for (const int64_t slot : batch.missing) {
    awaited = table_.Fail(slot, absl::UnavailableError("EIO")) || awaited;
  }
  batch.missing.clear();
  if (awaited) Wake(Phase::kWaitsForRows);
  if (!AllClaimed(b)) PassTurn();
  GiveUp(b);
}

void FeatureBufferModel::AwaitOne(size_t b) {
  Batch& batch = batches_[b];
  if (batch.awaited.empty()) {
    batch.phase = Phase::kReleases;
    for (size_t i = 0; i < batch.slots.size(); ++i) {
      ASSERT_EQ(bytes_[batch.slots[i]], case_->batches[b][i]);
    }
    return;
  }
  batch.asleep = table_.Await(batch.awaited.front());
  if (batch.asleep) return;
  if (table_.state(batch.awaited.front()) == SlotTable::State::kFailed) {
    EXPECT_TRUE(absl::IsUnavailable(table_.error(batch.awaited.front())));
    return GiveUp(b);
  }
  batch.awaited.erase(batch.awaited.begin());
}

void FeatureBufferModel::GiveUp(size_t b) {
  batches_[b].failed = true;
  batches_[b].awaited.clear();
  batches_[b].phase = Phase::kReleases;
  if (batches_[b].slots.empty()) End(b);
}

void FeatureBufferModel::ReleaseOne(size_t b) {
  Batch& batch = batches_[b];
  if (table_.Release(batch.slots[batch.released++])) {
    Wake(Phase::kWaitsForSlot);
  }
  if (batch.released == batch.slots.size()) End(b);
}

void FeatureBufferModel::End(size_t b) {
  batches_[b].phase = Phase::kEnded;
  while (next_consumed_ < batches_.size() &&
         batches_[next_consumed_].phase == Phase::kEnded) {
    ++next_consumed_;
  }
}

void FeatureBufferModel::Wake(Phase phase) {
  for (Batch& batch : batches_) {
    if (batch.phase == phase) batch.asleep = false;
  }
}

}  // namespace hearth::cache
