#include "engine/plan/plan_store.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/whole_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::plan {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// A clock that advances by a second at every reading.
class TickingClock final : public Clock {
 public:
  absl::Time Now() const override {
    return absl::UnixEpoch() + absl::Seconds(++seconds_);
  }
  double SteadySeconds() const override { return 0; }

 private:
  mutable int64_t seconds_ = 1'000'000;
};

class PlanStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<PlanStore> Open(uint64_t space_bytes = 0) {
    return std::make_unique<PlanStore>(
        files_, clock_,
        PlanStore::Options{.folder = scratch_.Path("plans"),
                           .space_bytes = space_bytes});
  }

  // Makes a plan of `bytes` and its records, as a strategy does.
  absl::Status Make(PlanStore& store, const std::string& name, uint64_t bytes) {
    auto lease = store.Take(name, {});
    if (!lease.ok()) return lease.status();
    absl::Status status = lease->MakeRoom(bytes + PlanStore::kRecordBytes);
    status.Update(io::WriteFileAtomically(files_, lease->folder() + "/packs",
                                          std::string(bytes, 'x')));
    if (!status.ok()) return status;
    status.Update(lease->Publish({{"batches", "12"}}));
    status.Update(lease->Share());
    return status;
  }

  static std::vector<std::string> Names(PlanStore& store) {
    std::vector<std::string> names;
    const auto plans = store.List();
    for (const PlanInfo& plan : *plans) names.push_back(plan.name);
    return names;
  }

  const io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  TickingClock clock_;
};

TEST_F(PlanStoreTest, RoomIsToldWithoutMakingAFolder) {
  const auto store = Open(1000000);
  EXPECT_EQ(store->Space("diskgnn-a-1")->bytes, 1000000u);
  EXPECT_TRUE(absl::IsNotFound(files_.Stat(store->options().folder).status()));
  ASSERT_EQ(Make(*store, "diskgnn-a-2", 100000), absl::OkStatus());
  // Nobody uses the plan, so it may be removed.
  EXPECT_EQ(store->Space("diskgnn-a-1")->bytes, 1000000u);
  const auto lease = store->Take("diskgnn-a-2", {});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_LT(store->Space("diskgnn-a-1")->bytes, 900000u);
  EXPECT_EQ(Names(*store).size(), 1u);
}

TEST_F(PlanStoreTest, NamesTellStrategyAndDataset) {
  const PlanInfo info = {.name = PlanName("diskgnn", "ab12", "99ff")};
  EXPECT_EQ(info.name, "diskgnn-ab12-99ff");
  EXPECT_EQ(info.strategy(), "diskgnn");
  EXPECT_EQ(info.fingerprint(), "ab12");
  EXPECT_EQ(PlanInfo{.name = "odd"}.fingerprint(), "");
}

TEST_F(PlanStoreTest, AnEmptyStoreHasNoPlans) {
  const auto store = Open();
  EXPECT_TRUE(store->List()->empty());
  EXPECT_EQ(*store->TotalBytes(), 0u);
  EXPECT_TRUE(absl::IsNotFound(store->Get("a").status()));
  EXPECT_TRUE(absl::IsNotFound(store->Remove("a")));
  EXPECT_EQ(store->RemoveOf("f"), absl::OkStatus());
}

TEST_F(PlanStoreTest, TellsWhatThereIsTheLastUsedFirst) {
  const auto store = Open();
  ASSERT_EQ(Make(*store, "d-f-1", 100), absl::OkStatus());
  ASSERT_EQ(Make(*store, "d-f-2", 50), absl::OkStatus());
  // A file is no plan.
  ASSERT_EQ(io::WriteFileAtomically(files_, scratch_.Path("plans/b-f-9"), "x"),
            absl::OkStatus());
  EXPECT_THAT(Names(*store), ElementsAre("d-f-2", "d-f-1"));
  ASSERT_EQ(store->Take("d-f-1", {})->Share(), absl::OkStatus());
  const auto plans = *store->List();
  ASSERT_EQ(plans.size(), 2u);
  EXPECT_EQ(plans[0].name, "d-f-1");
  EXPECT_EQ(plans[0].state, PlanInfo::State::kWhole);
  EXPECT_FALSE(plans[0].in_use);
  EXPECT_GT(plans[0].size_bytes, 100u);
  EXPECT_LE(plans[0].size_bytes, 100u + PlanStore::kRecordBytes);
  EXPECT_GT(plans[0].used, plans[0].created);
  EXPECT_THAT(plans[0].properties, ElementsAre(Pair("batches", "12")));
  EXPECT_EQ(*store->TotalBytes(), plans[0].size_bytes + plans[1].size_bytes);
  // A second store over the same folder finds the same plans.
  EXPECT_THAT(Names(*Open()), ElementsAre("d-f-1", "d-f-2"));
}

TEST_F(PlanStoreTest, TellsStates) {
  const auto store = Open();
  {
    const auto lease = store->Take("d-f-1", {});
    EXPECT_TRUE(store->Get("d-f-1")->in_use);
  }
  EXPECT_EQ(store->Get("d-f-1")->state, PlanInfo::State::kUnfinished);
  EXPECT_EQ(store->Get("d-f-1")->used, absl::InfinitePast());
  ASSERT_EQ(Make(*store, "d-f-1", 10), absl::OkStatus());
  EXPECT_EQ(store->Get("d-f-1")->state, PlanInfo::State::kWhole);
  auto lease = store->Take("d-f-1", {});
  ASSERT_EQ(lease->records().WriteDamage("packs: batch 3"), absl::OkStatus());
  EXPECT_EQ(store->Get("d-f-1")->state, PlanInfo::State::kDamaged);
  EXPECT_EQ(*lease->records().ReadDamage(), "packs: batch 3");
  ASSERT_EQ(lease->Clear(), absl::OkStatus());
  EXPECT_EQ(store->Get("d-f-1")->state, PlanInfo::State::kUnfinished);
}

TEST_F(PlanStoreTest, DamagedRecordsAreNoReasonToFail) {
  const auto store = Open();
  ASSERT_EQ(Make(*store, "d-f-1", 10), absl::OkStatus());
  for (const char* name : {"about.json", "last_use"}) {
    ASSERT_EQ(io::WriteFileAtomically(
                  files_, scratch_.Path("plans/d-f-1/") + name, "nonsense"),
              absl::OkStatus());
  }
  EXPECT_EQ(store->Get("d-f-1")->state, PlanInfo::State::kUnfinished);
  EXPECT_EQ(store->Get("d-f-1")->used, absl::InfinitePast());
}

TEST_F(PlanStoreTest, OneMakesAPlanAndOthersWait) {
  const auto store = Open();
  std::optional<PlanLease> first = *store->Take("d-f-1", {});
  bool shared = false;
  std::jthread next([&] {
    const auto second = store->Take("d-f-1", {});
    EXPECT_TRUE(second.ok());
    EXPECT_TRUE(shared);
  });
  // A different plan is free.
  EXPECT_TRUE(store->Take("d-f-2", {}).ok());
  shared = true;
  EXPECT_EQ(first->Share(), absl::OkStatus());
}

TEST_F(PlanStoreTest, AStopEndsTheWait) {
  const auto store = Open();
  const auto first = store->Take("d-f-1", {});
  std::stop_source stop;
  std::jthread next([&] {
    EXPECT_TRUE(
        absl::IsCancelled(store->Take("d-f-1", stop.get_token()).status()));
  });
  stop.request_stop();
  EXPECT_TRUE(
      absl::IsCancelled(store->Take("d-f-2", stop.get_token()).status()));
}

TEST_F(PlanStoreTest, WhatIsInUseIsNotRemoved) {
  const auto store = Open();
  ASSERT_EQ(Make(*store, "d-f-1", 10), absl::OkStatus());
  ASSERT_EQ(Make(*store, "d-f-2", 10), absl::OkStatus());
  ASSERT_EQ(Make(*store, "d-g-1", 10), absl::OkStatus());
  {
    auto lease = store->Take("d-f-1", {});
    ASSERT_EQ(lease->Share(), absl::OkStatus());
    const PlanLease moved = *std::move(lease);
    EXPECT_TRUE(absl::IsFailedPrecondition(store->Remove("d-f-1")));
    EXPECT_TRUE(absl::IsFailedPrecondition(store->RemoveOf("f")));
    EXPECT_THAT(Names(*store), ElementsAre("d-f-1", "d-g-1"));
  }
  EXPECT_EQ(store->RemoveOf("f"), absl::OkStatus());
  EXPECT_THAT(Names(*store), ElementsAre("d-g-1"));
}

TEST_F(PlanStoreTest, WhatRestsIsWokenOrGoesWithThePlan) {
  const auto store = Open();
  ASSERT_EQ(Make(*store, "d-f-1", 10), absl::OkStatus());
  auto open = std::make_shared<int>(7);
  const std::weak_ptr<int> watch = open;
  {
    auto lease = store->Take("d-f-1", {});
    ASSERT_EQ(lease->Share(), absl::OkStatus());
    lease->Rest(std::move(open));
    EXPECT_FALSE(store->Get("d-f-1")->in_use);
    open = std::static_pointer_cast<int>(lease->Wake());
    EXPECT_EQ(*open, 7);
    EXPECT_TRUE(absl::IsFailedPrecondition(store->Remove("d-f-1")));
    lease->Rest(std::move(open));
    EXPECT_EQ(store->Remove("d-f-1"), absl::OkStatus());
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(lease->Wake(), nullptr);
  }
  // A lease that ends while it rests destroys the object that it keeps.
  ASSERT_EQ(Make(*store, "d-f-1", 10), absl::OkStatus());
  auto other = std::make_shared<int>(8);
  const std::weak_ptr<int> other_watch = other;
  {
    auto lease = store->Take("d-f-1", {});
    ASSERT_EQ(lease->Share(), absl::OkStatus());
    lease->Rest(std::move(other));
    EXPECT_FALSE(other_watch.expired());
  }
  EXPECT_TRUE(other_watch.expired());
  EXPECT_EQ(store->Remove("d-f-1"), absl::OkStatus());
}

TEST_F(PlanStoreTest, ClearingClosesWhatRests) {
  const auto store = Open();
  auto resting = store->Take("d-f-1", {});
  ASSERT_EQ(resting->Share(), absl::OkStatus());
  resting->Rest(std::make_shared<int>(7));
  ASSERT_EQ(store->Take("d-f-1", {})->Clear(), absl::OkStatus());
  EXPECT_EQ(resting->Wake(), nullptr);
}

TEST_F(PlanStoreTest, TheLeastRecentlyUsedMakesRoom) {
  const auto store = Open(/*space_bytes=*/100'000);
  ASSERT_EQ(Make(*store, "d-f-1", 30'000), absl::OkStatus());
  ASSERT_EQ(Make(*store, "d-f-2", 30'000), absl::OkStatus());
  ASSERT_EQ(store->Take("d-f-1", {})->Share(), absl::OkStatus());
  ASSERT_EQ(Make(*store, "d-f-3", 40'000), absl::OkStatus());
  EXPECT_THAT(Names(*store), ElementsAre("d-f-3", "d-f-1"));
  EXPECT_LE(*store->TotalBytes(), 100'000u);
}

TEST_F(PlanStoreTest, WhatIsInUseDoesNotMakeRoom) {
  const auto store = Open(/*space_bytes=*/100'000);
  ASSERT_EQ(Make(*store, "d-f-1", 30'000), absl::OkStatus());
  ASSERT_EQ(Make(*store, "d-f-2", 30'000), absl::OkStatus());
  auto user = store->Take("d-f-1", {});
  ASSERT_EQ(user->Share(), absl::OkStatus());
  auto maker = store->Take("d-f-3", {});
  const uint64_t used = store->Get("d-f-1")->size_bytes;
  EXPECT_EQ(maker->Space()->bytes, 100'000 - used);
  const absl::Status refused = maker->MakeRoom(80'000);
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("80000"));
  EXPECT_EQ(WaitCauseOf(refused), WaitCause::kPlanSpace);
  EXPECT_EQ(BytesNeededBy(refused), 80'000u);
  EXPECT_EQ(maker->Space()->alone_bytes, 100'000u);
  EXPECT_EQ(maker->Space()->more_needs_bytes, 100'001 - used);
  const absl::Status too_large = maker->MakeRoom(100'001);
  EXPECT_TRUE(absl::IsResourceExhausted(too_large)) << too_large;
  EXPECT_EQ(WaitCauseOf(too_large), WaitCause::kNone) << "not even alone";
  EXPECT_EQ(maker->MakeRoom(60'000), absl::OkStatus());
  // Reserved bytes count as taken.
  auto other = store->Take("d-f-4", {});
  EXPECT_EQ(other->Space()->bytes, 40'000 - used);
  EXPECT_TRUE(absl::IsResourceExhausted(other->MakeRoom(40'000)));
  // Nobody uses the plan any more, and the other one fits.
  EXPECT_FALSE(store->HasRoomFor(40'000));
  { const PlanLease gone = *std::move(other); }
  { const PlanLease gone = *std::move(maker); }
  EXPECT_TRUE(store->HasRoomFor(100'000 - used));
  EXPECT_FALSE(store->HasRoomFor(100'001 - used));
  files_.LimitSpace(5'000);
  EXPECT_FALSE(store->Space("d-f-3")->more_needs_bytes.has_value())
      << "the disk is too small";
}

TEST_F(PlanStoreTest, TellsWhenSomethingIsLetGo) {
  const auto store = Open(/*space_bytes=*/100'000);
  int released = 0;
  std::vector<uint64_t> rooms;
  std::optional<PlanLease> lease = *store->Take("d-f-1", {});
  const auto other = store->Take("d-f-2", {});
  store->SetOnRelease([&] {
    ++released;
    rooms.push_back(other->Space()->bytes);
  });
  ASSERT_EQ(lease->MakeRoom(60'000), absl::OkStatus());
  EXPECT_EQ(other->Space()->bytes, 40'000u);
  ASSERT_EQ(lease->Share(), absl::OkStatus());
  EXPECT_EQ(released, 1) << "what was reserved and not used";
  lease->Rest(std::make_shared<int>(7));
  EXPECT_EQ(released, 2);
  ASSERT_NE(lease->Wake(), nullptr);
  lease.reset();
  EXPECT_EQ(released, 3);
  EXPECT_GT(rooms[0], 90'000u);
  EXPECT_EQ(rooms[1], 100'000u);
  EXPECT_EQ(rooms[2], 100'000u);
  store->SetOnRelease(nullptr);
}

// Sum of the sizes of the files in the store's folder.
uint64_t BytesIn(const std::string& folder) {
  uint64_t bytes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

TEST_F(PlanStoreTest, SizesAreKnownWithoutAnotherLook) {
  ASSERT_EQ(Make(*Open(), "d-f-1", 1000), absl::OkStatus());
  const auto store = Open();
  const std::string& folder = store->options().folder;
  EXPECT_EQ(*store->TotalBytes(), BytesIn(folder));
  const auto expect_known = [&](const char* when) {
    const size_t before = files_.calls().size();
    EXPECT_EQ(*store->TotalBytes(), BytesIn(folder)) << when;
    EXPECT_EQ(files_.calls().size(), before) << when;
  };
  expect_known("found");
  ASSERT_EQ(Make(*store, "d-f-2", 2000), absl::OkStatus());
  expect_known("made");
  {
    auto lease = store->Take("d-f-2", {});
    ASSERT_EQ(lease->Clear(), absl::OkStatus());
  }
  expect_known("cleared");
  ASSERT_EQ(Make(*store, "d-f-2", 50), absl::OkStatus());
  expect_known("made again");
  {
    auto lease = store->Take("d-f-1", {});
    ASSERT_EQ(lease->Share(), absl::OkStatus());
    ASSERT_EQ(lease->records().WriteDamage("packs: batch 3"), absl::OkStatus());
  }
  expect_known("damaged");
  ASSERT_EQ(store->Remove("d-f-1"), absl::OkStatus());
  expect_known("removed");
  {
    // A plan that is left unfinished.
    auto lease = store->Take("d-f-3", {});
    ASSERT_EQ(io::WriteFileAtomically(files_, lease->folder() + "/samples",
                                      std::string(700, 'x')),
              absl::OkStatus());
  }
  expect_known("unfinished");
  uint64_t listed = 0;
  const auto plans = store->List();
  for (const PlanInfo& plan : *plans) listed += plan.size_bytes;
  EXPECT_EQ(listed, BytesIn(folder));
}

TEST_F(PlanStoreTest, ASizeThatCouldNotBeLookedAtIsLookedAtAgain) {
  const auto store = Open();
  for (const bool taken : {true, false}) {
    // Measuring at the end of the lease, or removing, fails.
    ASSERT_EQ(Make(*store, "d-f-1", 1000), absl::OkStatus());
    if (taken) {
      auto lease = store->Take("d-f-1", {});
      ASSERT_EQ(io::WriteFileAtomically(files_, lease->folder() + "/more",
                                        std::string(500, 'x')),
                absl::OkStatus());
      files_.Inject({.for_good = true});
    } else {
      files_.Inject({.only = io::Operation::kRename});
      EXPECT_FALSE(store->Remove("d-f-1").ok());
    }
    files_.Clear();
    EXPECT_EQ(*store->TotalBytes(), BytesIn(store->options().folder));
  }
  // Plans are not taken for removed while their folder cannot be read.
  const auto next = Open();
  files_.Inject({.effect = io::Effect::kFail});
  EXPECT_FALSE(next->TotalBytes().ok());
  files_.Clear();
  EXPECT_EQ(*next->TotalBytes(), BytesIn(next->options().folder));
}

TEST_F(PlanStoreTest, WithoutALimitTheDiskIsTheLimit) {
  const auto store = Open();
  auto lease = store->Take("d-f-1", {});
  files_.LimitSpace(12'345);
  EXPECT_EQ(lease->Space()->bytes, 12'345u);
  EXPECT_EQ(lease->MakeRoom(1 << 30), absl::OkStatus());
}

TEST_F(PlanStoreTest, EveryCallOfARemovalMayFail) {
  const auto store = Open();
  for (int64_t nth = 1;; ++nth) {
    ASSERT_EQ(Make(*store, "d-f-1", 10), absl::OkStatus());
    files_.Inject({.nth = nth});
    const absl::Status status = store->Remove("d-f-1");
    const bool hit = files_.hits() > 0;
    files_.Clear();
    if (!hit) {
      EXPECT_EQ(status, absl::OkStatus());
      break;
    }
    // A plan exists whole or not at all.
    const auto info = store->Get("d-f-1");
    if (info.ok()) {
      EXPECT_EQ(info->state, PlanInfo::State::kWhole);
      EXPECT_FALSE(info->in_use);
    } else {
      EXPECT_TRUE(absl::IsNotFound(info.status()));
    }
  }
}

class PlanStoresTest : public ::testing::Test {
 protected:
  static void Make(PlanStore& store, const std::string& name) {
    auto lease = store.Take(name, {});
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(lease->Publish({}).ok());
    ASSERT_TRUE(lease->Share().ok());
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const auto plans = *stores_.List();
    for (const PlanInfo& plan : plans) names.push_back(plan.name);
    return names;
  }

  io::ScratchDirectory scratch_;
  PlanStore main_{io::FileSystem::Posix(),
                  Clock::Real(),
                  {.folder = scratch_.Path("main")}};
  PlanStore disk_{io::FileSystem::Posix(),
                  Clock::Real(),
                  {.folder = scratch_.Path("disk")}};
  PlanStore* const others_[1] = {&disk_};
  const PlanStores stores_{main_, others_};
};

TEST_F(PlanStoresTest, AllPlansAreShownAndFoundByName) {
  EXPECT_TRUE(Names().empty());
  Make(main_, "gids-ab-1");
  Make(disk_, "stripe-ab-2");
  EXPECT_THAT(Names(),
              ::testing::UnorderedElementsAre("gids-ab-1", "stripe-ab-2"));
  EXPECT_EQ(stores_.Get("stripe-ab-2")->strategy(), "stripe");
  EXPECT_EQ(stores_.Get("gids-ab-1")->strategy(), "gids");
  EXPECT_TRUE(absl::IsNotFound(stores_.Get("none").status()));
}

TEST_F(PlanStoresTest, APlanIsRemovedWhereItIs) {
  Make(main_, "gids-ab-1");
  Make(disk_, "stripe-ab-2");
  EXPECT_EQ(stores_.Remove("stripe-ab-2"), absl::OkStatus());
  EXPECT_THAT(Names(), ::testing::ElementsAre("gids-ab-1"));
  EXPECT_TRUE(absl::IsNotFound(stores_.Remove("stripe-ab-2")));
  const auto lease = main_.Take("gids-ab-1", {});
  EXPECT_TRUE(absl::IsFailedPrecondition(stores_.Remove("gids-ab-1")));
}

TEST_F(PlanStoresTest, PlansOfADatasetGoFromAllStores) {
  Make(main_, "gids-ab-1");
  Make(main_, "gids-cd-1");
  Make(disk_, "stripe-ab-2");
  const auto lease = main_.Take("gids-ab-1", {});
  EXPECT_TRUE(absl::IsFailedPrecondition(stores_.RemoveOf("ab")));
  EXPECT_THAT(Names(),
              ::testing::UnorderedElementsAre("gids-ab-1", "gids-cd-1"));
}

}  // namespace

}  // namespace hearth::plan
