#include "server/cluster/link_group.h"

#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/train/testing/local_group.h"
#include "gtest/gtest.h"

namespace hearth::server {
namespace {

using train::RankGroup;

std::unique_ptr<Link> NewLink(int socket, size_t rank) {
  return std::make_unique<Link>(Link{absl::StrCat("host-", rank),
                                     io::Descriptor(socket),
                                     NewPlainWire(socket)});
}

// Ranks of one group, connected pairwise.
std::vector<std::unique_ptr<LinkGroup>> Connect(
    size_t size, absl::Duration silence = absl::Seconds(60)) {
  std::vector<std::vector<std::unique_ptr<Link>>> links(size);
  for (auto& of_rank : links) of_rank.resize(size);
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = a + 1; b < size; ++b) {
      int ends[2];
      EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           0, ends),
                0);
      links[a][b] = NewLink(ends[0], b);
      links[b][a] = NewLink(ends[1], a);
    }
  }
  std::vector<std::unique_ptr<LinkGroup>> groups;
  for (size_t rank = 0; rank < size; ++rank) {
    auto group =
        LinkGroup::Make({.rank = static_cast<int>(rank), .silence = silence},
                        std::move(links[rank]), Clock::Real());
    EXPECT_TRUE(group.ok()) << group.status();
    groups.push_back(*std::move(group));
  }
  return groups;
}

// Calls `part` for each rank on a thread of its own.
void OnRanks(size_t size, const std::function<void(size_t rank)>& part) {
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&part, rank] { part(rank); });
  }
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> SomeValues(size_t rank, size_t count) {
  RandomStream random(rank + 1, RandomPurpose::kGenerator);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(random.Below(1 << 20)) * 1e-3F - 300;
  }
  return values;
}

TEST(LinkGroupTest, SumsAreThoseOfALocalGroup) {
  for (const size_t size : {1, 2, 3, 5}) {
    const auto groups = Connect(size);
    const auto local = train::NewLocalGroup(static_cast<int>(size));
    for (const size_t count : {0, 1, 4, 1000, 700'001}) {
      std::vector<std::vector<float>> sums(size);
      std::vector<std::vector<float>> expected(size);
      OnRanks(size, [&](size_t rank) {
        sums[rank] = SomeValues(rank, count);
        expected[rank] = sums[rank];
        EXPECT_EQ(groups[rank]->Sum(absl::MakeSpan(sums[rank])),
                  absl::OkStatus());
        EXPECT_EQ(local[rank]->Sum(absl::MakeSpan(expected[rank])),
                  absl::OkStatus());
      });
      for (size_t rank = 0; rank < size; ++rank) {
        EXPECT_TRUE(sums[rank] == expected[rank]) << size << " " << count;
      }
    }
  }
}

TEST(LinkGroupTest, AgreeTellsAllWhatBecameOfABatch) {
  const auto groups = Connect(3);
  for (uint64_t batch = 0; batch < 50; ++batch) {
    OnRanks(3, [&](size_t rank) {
      train::BatchResult own = {.loss = static_cast<float>(rank),
                                .num_seeds = static_cast<int64_t>(batch)};
      own.tally.ranking.scores.resize(batch * 100);
      const auto agreed =
          groups[rank]->Agree({.epoch = 1, .batch = batch}, own);
      ASSERT_TRUE(agreed.ok()) << agreed.status();
      ASSERT_EQ(agreed->size(), 3u);
      for (size_t other = 0; other < 3; ++other) {
        EXPECT_EQ((*agreed)[other].loss, static_cast<float>(other));
        EXPECT_EQ((*agreed)[other].num_seeds, static_cast<int64_t>(batch));
        EXPECT_EQ((*agreed)[other].tally.ranking.scores.size(), batch * 100);
      }
    });
  }
}

// An error of a batch ends nothing: the next batch may be good.
TEST(LinkGroupTest, AnErrorOfOneRankIsThatOfAll) {
  const auto groups = Connect(3);
  OnRanks(3, [&](size_t rank) {
    absl::StatusOr<train::BatchResult> own = train::BatchResult();
    if (rank > 0) own = absl::DataLossError(absl::StrCat("row of ", rank));
    EXPECT_EQ(groups[rank]->Agree({.batch = 1}, own).status(),
              absl::DataLossError("row of 1"));
    EXPECT_TRUE(groups[rank]->Agree({.batch = 2}, train::BatchResult()).ok());
  });
}

TEST(LinkGroupTest, RanksAtDifferentBatchesAreToldSo) {
  const auto groups = Connect(2);
  OnRanks(2, [&](size_t rank) {
    EXPECT_TRUE(absl::IsAborted(
        groups[rank]->Agree({.batch = rank}, train::BatchResult()).status()));
  });
}

TEST(LinkGroupTest, TheEndOfOneRankWakesAllThatWait) {
  const auto groups = Connect(3);
  std::vector<absl::Status> statuses(3);
  std::thread ending([&] {
    absl::SleepFor(absl::Milliseconds(20));
    groups[1]->End(absl::CancelledError("stopped on request"));
  });
  OnRanks(3, [&](size_t rank) {
    if (rank == 2) return;
    statuses[rank] = groups[rank]->Agree({}, train::BatchResult()).status();
  });
  ending.join();
  EXPECT_EQ(WaitCauseOf(statuses[0]), WaitCause::kPeer) << statuses[0];
  EXPECT_TRUE(absl::StrContains(statuses[0].message(), "rank 1 (host-1)"));
  EXPECT_TRUE(absl::IsCancelled(statuses[1])) << statuses[1];
  // For good.
  EXPECT_EQ(groups[0]->Agree({}, train::BatchResult()).status(), statuses[0]);
  std::vector<float> values(3);
  EXPECT_EQ(groups[1]->Sum(absl::MakeSpan(values)), statuses[1]);
}

// Whoever has what the last call gives may go while others still wait for it.
TEST(LinkGroupTest, ARankMayGoAfterItsLastCall) {
  for (int round = 0; round < 300; ++round) {
    auto groups = Connect(4);
    OnRanks(4, [&](size_t rank) {
      std::vector<float> values(100);
      EXPECT_EQ(groups[rank]->Sum(absl::MakeSpan(values)), absl::OkStatus());
      const auto agreed = groups[rank]->Agree({}, train::BatchResult());
      EXPECT_TRUE(agreed.ok()) << agreed.status();
      groups[rank].reset();
    });
  }
}

TEST(LinkGroupTest, ARankThatGoesEndsTheGroup) {
  auto groups = Connect(2);
  groups[1].reset();
  std::vector<float> values(1000);
  const absl::Status status = groups[0]->Sum(absl::MakeSpan(values));
  EXPECT_EQ(WaitCauseOf(status), WaitCause::kPeer) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "rank 1 (host-1)"));
}

TEST(LinkGroupTest, ASilentRankEndsASum) {
  const auto groups = Connect(3, absl::Milliseconds(50));
  OnRanks(3, [&](size_t rank) {
    if (rank == 2) return;
    std::vector<float> values(1000);
    const absl::Status status = groups[rank]->Sum(absl::MakeSpan(values));
    EXPECT_EQ(WaitCauseOf(status), WaitCause::kPeer) << status;
  });
}

TEST(LinkGroupTest, ForeignBytesEndTheGroup) {
  int ends[2];
  ASSERT_EQ(
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends),
      0);
  std::vector<std::unique_ptr<Link>> links(2);
  links[1] = NewLink(ends[0], 1);
  const io::Descriptor other(ends[1]);
  const auto group =
      LinkGroup::Make({.rank = 0}, std::move(links), Clock::Real());
  ASSERT_TRUE(group.ok()) << group.status();
  const std::string bytes = "GET / HTTP/1.1\r\nHost: host-0\r\n\r\n";
  ASSERT_EQ(send(ends[1], bytes.data(), bytes.size(), 0), std::ssize(bytes));
  const auto agreed = (*group)->Agree({}, train::BatchResult());
  EXPECT_TRUE(absl::IsDataLoss(agreed.status())) << agreed.status();
  EXPECT_TRUE(absl::StrContains(agreed.status().message(), "rank 1 (host-1)"));
}

TEST(LinkGroupTest, EachOtherRankHasALink) {
  for (const int rank : {0, 1, 2}) {
    std::vector<std::unique_ptr<Link>> links(2);
    EXPECT_TRUE(absl::IsInvalidArgument(
        LinkGroup::Make({.rank = rank}, std::move(links), Clock::Real())
            .status()));
  }
}

}  // namespace
}  // namespace hearth::server
