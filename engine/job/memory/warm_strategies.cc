#include "engine/job/memory/warm_strategies.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

// Entries are destroyed without the lock held: destruction takes time, and
// gives their memory back to the ledger, which wakes waiting jobs.

namespace hearth::job {

namespace {

// What reads a plan. The strategy uses the dataset.
struct Reader {
  std::unique_ptr<store::Dataset> dataset;
  std::unique_ptr<strategy::Strategy> strategy;
};

}  // namespace

ScratchFolder& ScratchFolder::operator=(ScratchFolder&& other) noexcept {
  std::swap(files_, other.files_);
  std::swap(path_, other.path_);
  return *this;
}

ScratchFolder::~ScratchFolder() {
  // A folder that cannot be removed now is removed at the daemon's next start.
  if (!path_.empty()) files_->RemoveTree(path_).IgnoreError();
}

WarmStrategies::WarmStrategies(io::FileSystem& files, MemoryLedger& ledger,
                               std::string scratch_path)
    : files_(files), ledger_(ledger), scratch_path_(std::move(scratch_path)) {
  ledger_.SetReclaim([this] { return GiveUpOldest(); });
}

WarmStrategies::~WarmStrategies() { ledger_.SetReclaim(nullptr); }

absl::StatusOr<ScratchFolder> WarmStrategies::NewScratch() {
  std::string path;
  {
    absl::MutexLock lock(&mutex_);
    path = io::JoinPath(scratch_path_, absl::StrCat(next_scratch_++));
  }
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(scratch_path_));
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(path));
  return ScratchFolder(files_, std::move(path));
}

std::optional<WarmStrategy> WarmStrategies::Take(const StrategyKey& key) {
  std::optional<Entry> taken;
  {
    absl::MutexLock lock(&mutex_);
    const auto found =
        std::find_if(entries_.rbegin(), entries_.rend(),
                     [&](const Entry& entry) { return entry.key == key; });
    if (found == entries_.rend()) return std::nullopt;
    taken = std::move(*found);
    entries_.erase(std::next(found).base());
  }
  if (taken->rows.has_value()) {
    const auto reader = std::static_pointer_cast<Reader>(taken->rows->Wake());
    if (reader == nullptr) return std::nullopt;
    taken->strategy.dataset = std::move(reader->dataset);
    taken->strategy.strategy = std::move(reader->strategy);
  }
  return std::move(taken->strategy);
}

void WarmStrategies::Keep(StrategyKey key, WarmStrategy strategy,
                          std::optional<plan::PlanLease> rows) {
  strategy.strategy->Rest();
  strategy.memory.Rest();
  if (rows.has_value()) {
    auto reader = std::make_shared<Reader>();
    reader->dataset = std::move(strategy.dataset);
    reader->strategy = std::move(strategy.strategy);
    rows->Rest(std::move(reader));
  }
  std::optional<Entry> oldest;
  absl::MutexLock lock(&mutex_);
  entries_.push_back({std::move(key), std::move(strategy), std::move(rows)});
  if (entries_.size() <= kMaxStrategies) return;
  oldest = std::move(entries_.front());
  entries_.pop_front();
}

void WarmStrategies::Forget(const std::string& dataset_path) {
  std::deque<Entry> forgotten;
  absl::MutexLock lock(&mutex_);
  for (Entry& entry : entries_) {
    if (entry.key.dataset_path == dataset_path) {
      forgotten.push_back(std::move(entry));
    }
  }
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.key.dataset_path == dataset_path;
  });
}

bool WarmStrategies::GiveUpOldest() {
  std::optional<Entry> oldest;
  absl::MutexLock lock(&mutex_);
  if (entries_.empty()) return false;
  oldest = std::move(entries_.front());
  entries_.pop_front();
  return true;
}

}  // namespace hearth::job
