#include "engine/feed/slot_pool.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/random.h"
#include "engine/io/descriptor.h"
#include "engine/train/train_step.h"
#include "gtest/gtest.h"

namespace hearth::feed {

namespace {

constexpr uint64_t kHugePage = 2 << 20;

uint64_t PageBytes() { return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)); }

// Descriptors that this process has open, and its mappings of slots.
struct Held {
  static Held Now() {
    Held held;
    held.descriptors =
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                      std::filesystem::directory_iterator());
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      held.mappings += line.find("hearth-feed") != std::string::npos ? 1 : 0;
    }
    return held;
  }
  bool operator==(const Held&) const = default;

  int64_t descriptors = 0;
  int64_t mappings = 0;
};

std::shared_ptr<Slot> TakeSlot(SlotPool& pool, uint64_t bytes) {
  absl::StatusOr<std::shared_ptr<Slot>> slot = pool.TakeSlot(bytes);
  EXPECT_TRUE(slot.ok()) << slot.status();
  return *std::move(slot);
}

TEST(SlotPoolTest, LendsWritableMemoryOfWholePages) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  for (const auto& [asked, given] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, PageBytes()},
           {1, PageBytes()},
           {PageBytes() + 1, 2 * PageBytes()},
           {kHugePage, kHugePage},
           {kHugePage + 1, 2 * kHugePage}}) {
    const std::shared_ptr<Slot> slot = TakeSlot(*pool, asked);
    EXPECT_EQ(slot->bytes(), given);
    EXPECT_EQ(pool->bytes(), given) << "it replaces the one before";
    std::fill_n(slot->data(), given, std::byte{7});
    EXPECT_EQ(slot->data()[given - 1], std::byte{7});
    EXPECT_NE(::fcntl(slot->descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(SlotPoolTest, NoSlotIsSmallerThanExpected) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(3 * kHugePage);
  EXPECT_EQ(TakeSlot(*pool, 5)->bytes(), 3 * kHugePage);
}

TEST(SlotPoolTest, WhatAPoolOfInputsLendsIsASlot) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  train::InputPool& inputs = *pool;
  const std::shared_ptr<train::InputMemory> memory = *inputs.Take(100);
  ASSERT_NE(dynamic_cast<Slot*>(memory.get()), nullptr);
  EXPECT_EQ(dynamic_cast<Slot*>(memory.get())->data(), memory->data());
}

TEST(SlotPoolTest, LendsAgainOnceTheLastReferenceIsGone) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::shared_ptr<Slot> slot = TakeSlot(*pool, 10);
  const uint64_t id = slot->id();
  std::shared_ptr<Slot> other_holder = slot;
  slot.reset();
  EXPECT_NE(TakeSlot(*pool, 10)->id(), id);
  EXPECT_EQ(pool->num_slots(), 2);
  EXPECT_EQ(pool->lent(), 1);
  const std::weak_ptr<const void> file = other_holder->file();
  other_holder.reset();
  EXPECT_EQ(pool->lent(), 0);
  EXPECT_FALSE(file.expired());
  EXPECT_EQ(TakeSlot(*pool, 10)->id(), id) << "the last to come back";
  EXPECT_EQ(pool->num_slots(), 2);
}

TEST(SlotPoolTest, LendsTheSmallestThatIsLargeEnough) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::shared_ptr<Slot> large = TakeSlot(*pool, 9 * PageBytes());
  std::shared_ptr<Slot> small = TakeSlot(*pool, PageBytes());
  std::shared_ptr<Slot> medium = TakeSlot(*pool, 3 * PageBytes());
  const uint64_t id = medium->id();
  large.reset();
  small.reset();
  medium.reset();
  EXPECT_EQ(TakeSlot(*pool, 2 * PageBytes())->id(), id);
  EXPECT_EQ(pool->num_slots(), 3);
}

TEST(SlotPoolTest, ReplacesAFreeSlotThatIsTooSmall) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::shared_ptr<Slot> slot = TakeSlot(*pool, 10);
  const uint64_t id = slot->id();
  const std::weak_ptr<const void> file = slot->file();
  slot.reset();
  slot = TakeSlot(*pool, 5 * PageBytes());
  EXPECT_TRUE(file.expired());
  EXPECT_NE(slot->id(), id);
  EXPECT_EQ(pool->num_slots(), 1);
  EXPECT_EQ(pool->bytes(), 5 * PageBytes());
}

TEST(SlotPoolTest, IdsAreUniqueAmongPools) {
  const std::shared_ptr<SlotPool> pools[] = {SlotPool::Make(0),
                                             SlotPool::Make(0)};
  std::set<uint64_t> ids;
  std::vector<std::shared_ptr<Slot>> slots;
  for (int i = 0; i < 10; ++i) {
    slots.push_back(TakeSlot(*pools[i % 2], 1));
    ids.insert(slots.back()->id());
  }
  EXPECT_EQ(ids.size(), slots.size());
}

TEST(SlotPoolTest, MemoryStaysBoundedWhateverTheSizes) {
  constexpr size_t kLent = 4;
  constexpr uint64_t kMostPages = 20;
  const Held before = Held::Now();
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(3 * PageBytes());
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<std::shared_ptr<Slot>> lent(kLent);
  for (int i = 0; i < 10000; ++i) {
    std::shared_ptr<Slot>& slot = lent[random.Below(kLent)];
    slot.reset();
    const uint64_t bytes = random.Below(kMostPages * PageBytes() + 1);
    slot = TakeSlot(*pool, bytes);
    ASSERT_GE(slot->bytes(), bytes);
    // Nobody else has this memory.
    *reinterpret_cast<uint64_t*>(slot->data()) = slot->id();
    for (const std::shared_ptr<Slot>& one : lent) {
      if (one == nullptr) continue;
      ASSERT_EQ(*reinterpret_cast<uint64_t*>(one->data()), one->id());
    }
    ASSERT_LE(pool->num_slots(), static_cast<int64_t>(kLent));
    ASSERT_LE(pool->bytes(), kLent * kMostPages * PageBytes());
  }
  const Held now = Held::Now();
  EXPECT_EQ(now.descriptors - before.descriptors, pool->num_slots());
  EXPECT_EQ(now.mappings - before.mappings, pool->num_slots());
}

TEST(SlotPoolTest, LentSlotsOutliveThePool) {
  const Held before = Held::Now();
  std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::shared_ptr<Slot> first = TakeSlot(*pool, 1);
  std::shared_ptr<Slot> second = TakeSlot(*pool, 1);
  const std::weak_ptr<const void> free = TakeSlot(*pool, 1)->file();
  pool.reset();
  EXPECT_TRUE(free.expired());
  const std::weak_ptr<const void> file = first->file();
  first.reset();
  EXPECT_TRUE(file.expired()) << "nobody can take it any more";
  second->data()[0] = std::byte{1};
  second.reset();
  EXPECT_EQ(Held::Now(), before);
}

TEST(SlotPoolTest, LendsNothingOnceItIsClosed) {
  const Held before = Held::Now();
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::shared_ptr<Slot> lent = TakeSlot(*pool, 1);
  { const std::shared_ptr<Slot> free = TakeSlot(*pool, 1); }
  pool->Close();
  EXPECT_EQ(pool->num_slots(), 1);
  EXPECT_EQ(pool->bytes(), PageBytes());
  EXPECT_TRUE(absl::IsFailedPrecondition(pool->TakeSlot(1).status()));
  lent.reset();
  EXPECT_EQ(pool->num_slots(), 0);
  EXPECT_EQ(pool->bytes(), 0u);
  EXPECT_EQ(Held::Now(), before);
}

// Whether all fails that somebody with a slot's descriptor may try.
bool NothingCanWrite(int descriptor, uint64_t bytes) {
  const char byte = 1;
  const void* const failed = MAP_FAILED;
  void* const reader =
      ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  return reader != failed &&
         ::mprotect(reader, bytes, PROT_READ | PROT_WRITE) != 0 &&
         ::madvise(reader, bytes, MADV_REMOVE) != 0 &&
         ::munmap(reader, bytes) == 0 &&
         ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                0) == failed &&
         ::mmap(nullptr, bytes, PROT_WRITE, MAP_SHARED, descriptor, 0) ==
             failed &&
         ::pwrite(descriptor, &byte, 1, 0) < 0 &&
         ::pwrite(descriptor, &byte, 1, static_cast<off_t>(bytes)) < 0 &&
         ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                     static_cast<off_t>(bytes)) != 0 &&
         ::ftruncate(descriptor, 0) != 0 &&
         ::ftruncate(descriptor, static_cast<off_t>(2 * bytes)) != 0 &&
         ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) != 0;
}

TEST(SlotTest, OnlyItsOwnMappingWrites) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  const std::shared_ptr<Slot> slot = TakeSlot(*pool, 2 * PageBytes());
  slot->data()[5] = std::byte{5};
  // The descriptor as a client gets it, and another that it opens by that.
  const io::Descriptor passed(::dup(slot->descriptor()));
  const io::Descriptor opened(::open(
      absl::StrCat("/proc/self/fd/", slot->descriptor()).c_str(), O_RDWR));
  ASSERT_GE(opened.get(), 0);
  EXPECT_TRUE(NothingCanWrite(passed.get(), slot->bytes()));
  EXPECT_TRUE(NothingCanWrite(opened.get(), slot->bytes()));
  EXPECT_EQ(slot->data()[5], std::byte{5});
  slot->data()[5] = std::byte{6};
  std::byte read{0};
  ASSERT_EQ(::pread(opened.get(), &read, 1, 5), 1);
  EXPECT_EQ(read, std::byte{6});
}

TEST(SlotTest, AnotherProcessSeesItAndWritesToItsOwnPages) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  const std::shared_ptr<Slot> slot = TakeSlot(*pool, PageBytes());
  slot->data()[0] = std::byte{3};
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // What fork copied is a mapping that writes: a client has none.
    if (::munmap(slot->data(), slot->bytes()) != 0) ::_exit(1);
    void* const address = ::mmap(nullptr, slot->bytes(), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE, slot->descriptor(), 0);
    if (address == MAP_FAILED) ::_exit(2);
    auto* const bytes = static_cast<std::byte*>(address);
    if (bytes[0] != std::byte{3}) ::_exit(3);
    bytes[0] = std::byte{9};
    if (!NothingCanWrite(slot->descriptor(), slot->bytes())) ::_exit(4);
    ::_exit(bytes[0] == std::byte{9} ? 0 : 5);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(slot->data()[0], std::byte{3});
}

TEST(SlotTest, APrivateMappingSeesWhatIsWrittenLater) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::shared_ptr<Slot> slot = TakeSlot(*pool, 2 * PageBytes());
  const uint64_t id = slot->id();
  auto* const client = static_cast<std::byte*>(
      ::mmap(nullptr, slot->bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE,
             slot->descriptor(), 0));
  ASSERT_NE(static_cast<void*>(client), MAP_FAILED);
  client[0] = std::byte{9};
  slot.reset();
  // The next batch.
  slot = TakeSlot(*pool, 1);
  ASSERT_EQ(slot->id(), id);
  EXPECT_EQ(slot->data()[0], std::byte{0});
  slot->data()[PageBytes()] = std::byte{4};
  EXPECT_EQ(client[PageBytes()], std::byte{4});
  EXPECT_EQ(client[0], std::byte{9});
  EXPECT_EQ(::munmap(client, slot->bytes()), 0);
}

// Fails one of the calls.
class FailingCalls final : public MemoryFileCalls {
 public:
  explicit FailingCalls(absl::string_view failing) : failing_(failing) {}

  int Create() const override {
    return Fails("create", EMFILE) ? -1 : MemoryFileCalls::Create();
  }
  int Resize(int descriptor, uint64_t bytes) const override {
    return Fails("resize", ENOSPC) ? -1
                                   : MemoryFileCalls::Resize(descriptor, bytes);
  }
  void* Map(int descriptor, uint64_t bytes) const override {
    return Fails("map", ENOMEM) ? MAP_FAILED
                                : MemoryFileCalls::Map(descriptor, bytes);
  }
  int Seal(int descriptor) const override {
    return Fails("seal", EINVAL) ? -1 : MemoryFileCalls::Seal(descriptor);
  }
  int AdviseHugePages(void* address, uint64_t bytes) const override {
    return Fails("advise", EINVAL)
               ? -1
               : MemoryFileCalls::AdviseHugePages(address, bytes);
  }

 private:
  bool Fails(absl::string_view call, int error) const {
    if (call == failing_) errno = error;
    return call == failing_;
  }

  const std::string failing_;
};

class FailureTest : public testing::TestWithParam<const char*> {};

TEST_P(FailureTest, IsToldAndLeavesNothing) {
  const Held before = Held::Now();
  const FailingCalls calls(GetParam());
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0, &calls);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = pool->TakeSlot(3 * PageBytes()).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_NE(status.message().find(absl::StrCat(3 * PageBytes(), " bytes")),
              absl::string_view::npos)
        << status;
  }
  EXPECT_EQ(Held::Now(), before);
  EXPECT_EQ(pool->num_slots(), 0);
  EXPECT_EQ(pool->bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Calls, FailureTest,
                         testing::Values("create", "resize", "map", "seal"));

TEST(SlotPoolTest, HugePagesAreNoMust) {
  const FailingCalls calls("advise");
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0, &calls);
  TakeSlot(*pool, kHugePage)->data()[kHugePage - 1] = std::byte{1};
  EXPECT_EQ(pool->bytes(), kHugePage);
}

TEST(SlotPoolTest, RefusesMoreThanAnyMachineHas) {
  const std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  for (const uint64_t bytes :
       {uint64_t{1} << 55, (uint64_t{1} << 56) + 1, UINT64_MAX}) {
    const absl::Status status = pool->TakeSlot(bytes).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_NE(status.message().find(absl::StrCat(bytes)),
              absl::string_view::npos)
        << status;
  }
  EXPECT_EQ(TakeSlot(*pool, 1)->bytes(), PageBytes());
}

TEST(SlotPoolTest, ServesManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kHeld = 3;
  const Held before = Held::Now();
  std::shared_ptr<SlotPool> pool = SlotPool::Make(0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([pool, t] {
      RandomStream random(static_cast<uint64_t>(t), RandomPurpose::kGenerator);
      std::vector<std::shared_ptr<Slot>> held(kHeld);
      for (int i = 0; i < 500; ++i) {
        std::shared_ptr<Slot>& slot = held[random.Below(kHeld)];
        slot.reset();
        slot = TakeSlot(*pool, random.Below(5 * PageBytes()));
        slot->data()[0] = static_cast<std::byte>(t);
        std::this_thread::yield();
        ASSERT_EQ(slot->data()[0], static_cast<std::byte>(t));
        ASSERT_LE(pool->num_slots(), kThreads * kHeld);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool->lent(), 0);
  pool.reset();
  EXPECT_EQ(Held::Now(), before);
}

}  // namespace

}  // namespace hearth::feed
