#include "server/storage/job_state.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace hearth::server {
namespace {

TEST(JobStateTest, ExactlyTheDocumentedStepsAreAllowed) {
  const std::set<std::pair<int, int>> allowed = {
      {v1::QUEUED, v1::PREPARING},    {v1::QUEUED, v1::CANCELLED},
      {v1::PREPARING, v1::RUNNING},   {v1::PREPARING, v1::FAILED},
      {v1::PREPARING, v1::CANCELLED}, {v1::PREPARING, v1::QUEUED},
      {v1::RUNNING, v1::SUCCEEDED},   {v1::RUNNING, v1::FAILED},
      {v1::RUNNING, v1::CANCELLED},   {v1::RUNNING, v1::QUEUED},
      {v1::QUEUED, v1::FAILED},       {v1::FAILED, v1::QUEUED},
      {v1::CANCELLED, v1::QUEUED},    {v1::PREPARING, v1::WAITING},
      {v1::RUNNING, v1::WAITING},     {v1::WAITING, v1::PREPARING},
      {v1::WAITING, v1::CANCELLED},   {v1::WAITING, v1::FAILED},
  };
  for (int from = v1::JobState_MIN; from <= v1::JobState_MAX; ++from) {
    for (int to = v1::JobState_MIN; to <= v1::JobState_MAX; ++to) {
      EXPECT_EQ(MayFollow(static_cast<v1::JobState>(from),
                          static_cast<v1::JobState>(to)),
                allowed.contains({from, to}))
          << from << " -> " << to;
    }
  }
}

TEST(JobStateTest, AJobThatHasEndedIsQueuedAgainAtMost) {
  for (int state = v1::JobState_MIN; state <= v1::JobState_MAX; ++state) {
    const auto from = static_cast<v1::JobState>(state);
    bool leaves = false;
    for (int to = v1::JobState_MIN; to <= v1::JobState_MAX; ++to) {
      leaves |=
          to != v1::QUEUED && MayFollow(from, static_cast<v1::JobState>(to));
    }
    if (from == v1::JOB_STATE_UNSPECIFIED) continue;
    EXPECT_NE(leaves, HasEnded(from)) << state;
  }
  EXPECT_FALSE(MayFollow(v1::SUCCEEDED, v1::QUEUED));
}

}  // namespace
}  // namespace hearth::server
