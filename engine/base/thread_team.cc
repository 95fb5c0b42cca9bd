#include "engine/base/thread_team.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace hearth {

// The parts of one call, guarded by the team's mutex. Parts that any worker may
// do are handed out in order: a thread that wakes late finds none left, and
// nobody waits for it.
struct ThreadTeam::Round {
  // Number of the part that `worker` is to do next, if any.
  std::optional<int64_t> Next(int worker) {
    if (!begun.empty()) {
      if (begun[worker]) return std::nullopt;
      begun[worker] = true;
      return worker;
    }
    if (next == parts) return std::nullopt;
    return next++;
  }

  absl::FunctionRef<void(int64_t part)> work;
  int64_t parts = 0;
  // For each worker, whether it has begun its part; empty if any worker may do
  // any part.
  std::vector<bool> begun = {};
  int64_t next = 0;
  // Number of parts that are not done.
  int64_t left = parts;
};

namespace {

// Calls `run` with a function that does one part by `work` and keeps its
// status; returns the error of the lowest part.
template <typename Work, typename Run>
absl::Status FirstError(int64_t parts, const Work& work, const Run& run) {
  std::vector<absl::Status> statuses(static_cast<size_t>(parts));
  run([&](int64_t part) { statuses[part] = work(part); });
  absl::Status first;
  for (const absl::Status& status : statuses) first.Update(status);
  return first;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadTeam>> ThreadTeam::Create(int threads) {
  std::unique_ptr<ThreadTeam> team(new ThreadTeam());
  const absl::Status status = team->Start(threads - 1);
  if (!status.ok()) return status;
  return team;
}

absl::Status ThreadTeam::Start(int others) {
  try {
    for (int i = 0; i < others; ++i) {
      others_.emplace_back([this, worker = i + 1] { WorkUntilEnded(worker); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("starting a thread of a team: ", error.what()));
  }
  return absl::OkStatus();
}

ThreadTeam::~ThreadTeam() {
  {
    const absl::MutexLock lock(&mutex_);
    ended_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : others_) thread.join();
}

void ThreadTeam::Run(int64_t parts,
                     absl::FunctionRef<void(int64_t part)> work) {
  if (others_.empty() || parts <= 1) {
    for (int64_t part = 0; part < parts; ++part) work(part);
    return;
  }
  Round round = {.work = work, .parts = parts};
  RunRound(round);
}

void ThreadTeam::RunRanges(
    int64_t count, int64_t part,
    absl::FunctionRef<void(int64_t first, int64_t count)> work) {
  Run((count + part - 1) / part, [&](int64_t number) {
    const int64_t first = number * part;
    work(first, std::min(part, count - first));
  });
}

absl::Status ThreadTeam::TryRun(
    int64_t parts, absl::FunctionRef<absl::Status(int64_t part)> work) {
  return FirstError(parts, work, [&](const auto& part) { Run(parts, part); });
}

absl::Status ThreadTeam::RunWorkers(
    absl::FunctionRef<absl::Status(int worker)> work) {
  return FirstError(size(), work, [&](const auto& part) {
    Round round = {
        .work = part, .parts = size(), .begun = std::vector<bool>(size())};
    RunRound(round);
  });
}

void ThreadTeam::RunRound(Round& round) {
  const absl::MutexLock lock(&mutex_);
  round_ = &round;
  changed_.SignalAll();
  DoParts(0);
  while (round.left > 0) changed_.Wait(&mutex_);
  round_ = nullptr;
}

void ThreadTeam::WorkUntilEnded(int worker) {
  const absl::MutexLock lock(&mutex_);
  while (!ended_) {
    DoParts(worker);
    changed_.Wait(&mutex_);
  }
}

void ThreadTeam::DoParts(int worker) {
  while (round_ != nullptr) {
    Round& round = *round_;
    const std::optional<int64_t> part = round.Next(worker);
    if (!part.has_value()) return;
    mutex_.Unlock();
    round.work(*part);
    mutex_.Lock();
    if (--round.left == 0) changed_.SignalAll();
  }
}

}  // namespace hearth
