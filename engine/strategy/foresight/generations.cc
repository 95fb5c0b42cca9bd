#include "engine/strategy/foresight/generations.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::strategy {

absl::StatusOr<bool> Generations::Continue(const std::stop_token& stop) {
  absl::MutexLock lock(&mutex_);
  if (timeline_.next() >= timeline_.size()) return false;
  HEARTH_ASSIGN_OR_RETURN(const std::optional<int64_t> begin,
                          maker_.ContinueAt(timeline_.next(), stop));
  if (!begin.has_value()) return false;
  end_ = *begin;
  position_ = timeline_.next();
  return true;
}

int64_t Generations::position() const {
  absl::MutexLock lock(&mutex_);
  return position_;
}

absl::StatusOr<PreparationReport> Generations::MakeFirst(
    RowSlots* fill, const PreparationListener& listener,
    const std::stop_token& stop) {
  absl::MutexLock lock(&mutex_);
  if (timeline_.size() == 0) return PreparationReport();
  // MakeAhead may have come first.
  while (is_making_) changed_.Wait(&mutex_);
  if (has_made_) return PreparationReport();
  return Make(fill, listener, stop);
}

absl::StatusOr<PreparationReport> Generations::MakeAhead(
    const PreparationListener& listener, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  if (free_shards_ && has_made_) return PreparationReport();
  // Of the ready generations one is being delivered.
  while (!is_abandoned_ && !stop.stop_requested() && end_ < timeline_.size() &&
         (is_making_ || ready_.size() > 1)) {
    changed_.Wait(&mutex_);
  }
  if (stop.stop_requested()) {
    return absl::CancelledError("preparing ahead: stopped on request");
  }
  if (is_abandoned_) {
    return absl::AbortedError("passes come in another order");
  }
  if (end_ == timeline_.size()) return PreparationReport();
  auto report = Make(nullptr, listener, stop);
  if (report.ok() || !is_abandoned_) return report;
  return absl::AbortedError("passes come in another order");
}

absl::StatusOr<std::shared_ptr<const Generation>> Generations::At(
    int64_t position, const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  absl::MutexLock lock(&mutex_);
  while (position >= end_) {
    if (stop.stop_requested()) {
      return absl::CancelledError("waiting for a plan: stopped on request");
    }
    if (is_making_ || (free_shards_ && position_ < end_)) {
      changed_.Wait(&mutex_);
      continue;
    }
    if (free_shards_) free_shards_();
    HEARTH_RETURN_IF_ERROR(Make(nullptr, {}, stop).status());
  }
  for (const auto& generation : ready_) {
    if (position >= generation->span().begin &&
        position < generation->span().end) {
      return generation;
    }
  }
  return absl::NotFoundError(
      absl::StrCat("the plan of position ", position, " was released"));
}

absl::StatusOr<PreparationReport> Generations::Make(
    RowSlots* fill, const PreparationListener& listener,
    const std::stop_token& stop) {
  is_making_ = true;
  const GenerationMaker::Demand demand = {.position = position_,
                                          .is_awaited = ready_.empty()};
  mutex_.Unlock();
  std::stop_source either;
  const auto request = [&either] { either.request_stop(); };
  const std::stop_callback on_stop(stop, request);
  const std::stop_callback on_abandon(abandon_.get_token(), request);
  absl::StatusOr<GenerationMaker::Made> made =
      maker_.MakeNext(demand, fill, listener, either.get_token());
  mutex_.Lock();
  is_making_ = false;
  changed_.SignalAll();
  if (!made.ok()) return made.status();
  has_made_ = true;
  end_ = made->generation->span().end;
  ready_.push_back(std::move(made->generation));
  return std::move(made->report);
}

bool Generations::HasReady(int64_t position) const {
  return !ready_.empty() && position >= ready_.front()->span().begin &&
         position < end_;
}

bool Generations::IsNear(int64_t position) const {
  absl::MutexLock lock(&mutex_);
  if (HasReady(position)) return true;
  return position >= end_ && end_ < timeline_.size() &&
         position < timeline_.GenerationAt(end_, timeline_.size()).end;
}

void Generations::GoOnAt(int64_t position) {
  absl::MutexLock lock(&mutex_);
  position_ = position;
  if (position >= end_) changed_.SignalAll();
  while (!ready_.empty() && ready_.front()->span().end <= position) {
    ready_.pop_front();
    changed_.SignalAll();
  }
}

void Generations::Abandon() {
  abandon_.request_stop();
  absl::MutexLock lock(&mutex_);
  is_abandoned_ = true;
  changed_.SignalAll();
  while (is_making_) changed_.Wait(&mutex_);
  maker_.DropAhead();
}

}  // namespace hearth::strategy
