#include "engine/model/team.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/catch_exceptions.h"

namespace hearth::model {

absl::StatusOr<std::unique_ptr<Team>> Team::Start(int size) {
  std::unique_ptr<Team> team(new Team(size));
  try {
    for (int member = 0; member < size; ++member) {
      team->threads_.emplace_back(
          [team = team.get(), member] { team->RunMember(member); });
    }
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("starting a trainer's thread: ", error.what()));
  }
  return team;
}

Team::~Team() {
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
    begun_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status Team::Run(Part part) {
  const absl::MutexLock lock(&mutex_);
  part_ = &part;
  busy_ = statuses_.size();
  ++round_;
  begun_.SignalAll();
  while (busy_ > 0) ended_.Wait(&mutex_);
  part_ = nullptr;
  absl::Status first;
  for (const absl::Status& status : statuses_) first.Update(status);
  return first;
}

void Team::RunMember(int member) {
  for (uint64_t round = 0;; ++round) {
    const Part* const part = AwaitRound(round);
    if (part == nullptr) return;
    absl::Status status = CatchExceptions([&] { return (*part)(member); });
    const absl::MutexLock lock(&mutex_);
    statuses_[member] = std::move(status);
    if (--busy_ == 0) ended_.Signal();
  }
}

const Team::Part* Team::AwaitRound(uint64_t round) {
  const absl::MutexLock lock(&mutex_);
  while (round_ == round && !closing_) begun_.Wait(&mutex_);
  return part_;
}

}  // namespace hearth::model
