#include "engine/plan/plan_store.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/plan/plan_records.h"

// Files are touched without mutex_ held: the thread that does so holds an
// exclusive lease, or has marked the plan as being removed.
//
// A plan is measured when its size is first asked for, when space is made for
// it, and when a lease that may have changed it ends. If measuring fails, the
// next question measures again.

namespace hearth::plan {

namespace {

// More bytes than anybody needs.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

std::string PartOfName(const std::string& name, size_t part) {
  const std::vector<std::string> parts = absl::StrSplit(name, '-');
  return part < parts.size() ? parts[part] : "";
}

// Free bytes on the file system where `path` is or will be.
absl::StatusOr<uint64_t> FreeBytesAt(io::FileSystem& files, std::string path) {
  while (true) {
    absl::StatusOr<uint64_t> free = files.FreeBytes(path);
    if (!absl::IsNotFound(free.status())) return free;
    std::string parent = io::ParentDirectory(path);
    if (parent == path) return free;
    path = std::move(parent);
  }
}

}  // namespace

std::string PlanInfo::strategy() const { return PartOfName(name, 0); }

std::string PlanInfo::fingerprint() const { return PartOfName(name, 1); }

std::string PlanName(absl::string_view strategy, absl::string_view fingerprint,
                     absl::string_view digest) {
  return absl::StrCat(strategy, "-", fingerprint, "-", digest);
}

PlanStore::PlanStore(io::FileSystem& files, const Clock& clock, Options options)
    : files_(files), clock_(clock), options_(std::move(options)) {}

std::string PlanStore::Path(const std::string& name) const {
  return io::JoinPath(options_.folder, name);
}

void PlanStore::SetOnRelease(std::function<void()> on_release) {
  absl::MutexLock lock(&mutex_);
  on_release_ = std::move(on_release);
}

void PlanStore::CallOnRelease() {
  std::function<void()> on_release;
  {
    absl::MutexLock lock(&mutex_);
    on_release = on_release_;
  }
  if (on_release) on_release();
}

absl::StatusOr<std::vector<std::string>> PlanStore::Names() {
  HEARTH_RETURN_IF_ERROR(FindPlans());
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, size] : sizes_) names.push_back(name);
  return names;
}

// Every call that makes or removes plans comes here first, so that no plan
// vanishes between reading the folder and entering it into sizes_.
absl::Status PlanStore::FindPlans() {
  absl::MutexLock looking(&looking_mutex_);
  if (listed_) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> names =
      files_.List(options_.folder);
  if (!absl::IsNotFound(names.status())) {
    HEARTH_RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      if (absl::EndsWith(name, io::kTemporarySuffix)) continue;
      const absl::StatusOr<io::FileInfo> info = files_.Stat(Path(name));
      // Files in the folder may come and go.
      if (absl::IsNotFound(info.status())) continue;
      HEARTH_RETURN_IF_ERROR(info.status());
      absl::MutexLock lock(&mutex_);
      if (info->is_directory) sizes_.try_emplace(name);
    }
  }
  listed_ = true;
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> PlanStore::SizeOf(const std::string& name) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = sizes_.find(name);
    if (found == sizes_.end()) {
      return absl::NotFoundError(absl::StrCat("no plan \"", name, "\""));
    }
    if (found->second.has_value()) return *found->second;
  }
  return Measure(name);
}

absl::StatusOr<uint64_t> PlanStore::Measure(const std::string& name) {
  // Measurements are serialized, so that the last one is kept.
  absl::MutexLock looking(&looking_mutex_);
  const absl::StatusOr<uint64_t> size = AddUp(name);
  absl::MutexLock lock(&mutex_);
  const auto found = sizes_.find(name);
  if (found == sizes_.end()) return size;
  if (absl::IsNotFound(size.status())) {
    sizes_.erase(found);
  } else {
    found->second = size.ok() ? std::optional<uint64_t>(*size) : std::nullopt;
  }
  return size;
}

absl::StatusOr<uint64_t> PlanStore::AddUp(const std::string& name) const {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                          files_.List(Path(name)));
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    const absl::StatusOr<io::FileInfo> info =
        files_.Stat(io::JoinPath(Path(name), file));
    // The file may just have been renamed or removed.
    if (info.ok()) bytes += info->size_bytes;
  }
  return bytes;
}

absl::StatusOr<PlanLease> PlanStore::Take(const std::string& name,
                                          const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  uint64_t number = 0;
  {
    absl::MutexLock lock(&mutex_);
    while (!stop.stop_requested() &&
           (holders_[name].exclusive || holders_[name].removing)) {
      changed_.Wait(&mutex_);
    }
    if (stop.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat("plan ", name, ": waiting for it stopped on request"));
    }
    Holders& holders = holders_[name];
    holders.exclusive = true;
    ++holders.leases;
    number = next_lease_++;
  }
  PlanLease lease(*this, number, name);
  HEARTH_RETURN_IF_ERROR(FindPlans());
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(options_.folder));
  {
    absl::MutexLock lock(&mutex_);
    sizes_.try_emplace(name);
  }
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(lease.folder()));
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(options_.folder));
  return lease;
}

bool PlanStore::EndRest(uint64_t lease) {
  // Destroyed after the lock is released, because closing takes time.
  std::shared_ptr<void> open;
  absl::MutexLock lock(&mutex_);
  const auto resting = resting_.find(lease);
  if (resting == resting_.end()) return false;
  open = std::move(resting->second.open);
  resting_.erase(resting);
  return true;
}

void PlanStore::EndExclusive(const std::string& name) {
  Measure(name).status().IgnoreError();
  {
    absl::MutexLock lock(&mutex_);
    Holders& holders = holders_[name];
    holders.exclusive = false;
    holders.reserved_bytes = 0;
    changed_.SignalAll();
  }
  CallOnRelease();
}

void PlanStore::EndLease(const std::string& name, bool exclusive) {
  Measure(name).status().IgnoreError();
  {
    absl::MutexLock lock(&mutex_);
    Holders& holders = holders_[name];
    if (exclusive) {
      holders.exclusive = false;
      holders.reserved_bytes = 0;
    }
    if (--holders.leases == 0) holders_.erase(name);
    changed_.SignalAll();
  }
  CallOnRelease();
}

bool PlanStore::InUse(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find(name);
  return found != holders_.end() && found->second.leases > 0;
}

absl::StatusOr<PlanInfo> PlanStore::Describe(const std::string& name) {
  PlanInfo info = {.name = name, .in_use = InUse(name)};
  HEARTH_ASSIGN_OR_RETURN(info.size_bytes, SizeOf(name));
  const PlanRecords records(files_, Path(name));
  const absl::StatusOr<PlanRecords::About> about = records.ReadAbout();
  if (about.ok()) {
    info.state = PlanInfo::State::kWhole;
    info.created = about->created;
    info.properties = about->properties;
  }
  if (records.ReadDamage().ok()) info.state = PlanInfo::State::kDamaged;
  info.used = records.ReadUse();
  return info;
}

absl::StatusOr<std::vector<PlanInfo>> PlanStore::List() {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  std::vector<PlanInfo> plans;
  for (const std::string& name : names) {
    absl::StatusOr<PlanInfo> info = Describe(name);
    // The plan was removed meanwhile.
    if (absl::IsNotFound(info.status())) continue;
    HEARTH_RETURN_IF_ERROR(info.status());
    plans.push_back(*std::move(info));
  }
  std::stable_sort(
      plans.begin(), plans.end(),
      [](const PlanInfo& a, const PlanInfo& b) { return a.used > b.used; });
  return plans;
}

absl::StatusOr<PlanInfo> PlanStore::Get(const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return absl::NotFoundError(absl::StrCat("no plan \"", name, "\""));
  }
  return Describe(name);
}

absl::StatusOr<uint64_t> PlanStore::TotalBytes() {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  uint64_t bytes = 0;
  for (const std::string& name : names) {
    const absl::StatusOr<uint64_t> size = SizeOf(name);
    if (size.ok()) bytes += *size;
  }
  return bytes;
}

absl::Status PlanStore::BeginRemoval(const std::string& name) {
  absl::MutexLock lock(&mutex_);
  Holders& holders = holders_[name];
  if (holders.leases > 0 || holders.removing) {
    return absl::FailedPreconditionError(
        absl::StrCat("plan \"", name, "\" is in use"));
  }
  holders.removing = true;
  return absl::OkStatus();
}

absl::Status PlanStore::FinishRemoval(const std::string& name) {
  // A plan exists whole or not at all, also after a kill.
  const std::string leftover = absl::StrCat(Path(name), io::kTemporarySuffix);
  absl::Status status = files_.RemoveTree(leftover);
  if (status.ok()) status = files_.Rename(Path(name), leftover);
  // Destroyed after the lock is released, because closing takes time.
  std::vector<Resting> rested;
  absl::MutexLock lock(&mutex_);
  if (status.ok()) {
    rested = TakeResting(name);
    sizes_.erase(name);
  } else {
    sizes_[name] = std::nullopt;
  }
  holders_.erase(name);
  changed_.SignalAll();
  return status;
}

std::vector<PlanStore::Resting> PlanStore::TakeResting(
    const std::string& name) {
  std::vector<Resting> taken;
  for (auto& [number, resting] : resting_) {
    if (resting.name == name) taken.push_back(std::exchange(resting, {}));
  }
  return taken;
}

absl::Status PlanStore::Remove(const std::string& name) {
  HEARTH_RETURN_IF_ERROR(Get(name).status());
  HEARTH_RETURN_IF_ERROR(BeginRemoval(name));
  HEARTH_RETURN_IF_ERROR(FinishRemoval(name));
  return files_.RemoveTree(absl::StrCat(Path(name), io::kTemporarySuffix));
}

absl::Status PlanStore::RemoveOf(absl::string_view fingerprint) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  absl::Status status;
  for (const std::string& name : names) {
    if (PartOfName(name, 1) == fingerprint) status.Update(Remove(name));
  }
  return status;
}

absl::StatusOr<PlanStore::OtherBytes> PlanStore::BytesOfOthers(
    const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names());
  OtherBytes others;
  for (const std::string& other : names) {
    if (other == name) continue;
    const absl::StatusOr<uint64_t> size = SizeOf(other);
    const uint64_t taken = size.ok() ? *size : 0;
    absl::MutexLock lock(&mutex_);
    const auto found = holders_.find(other);
    if (found != holders_.end() && found->second.leases > 0) {
      others.in_use += BytesInUse(other, found->second);
    } else {
      others.unused += taken;
    }
  }
  return others;
}

absl::StatusOr<PlanSpace> PlanStore::Space(const std::string& name) {
  HEARTH_ASSIGN_OR_RETURN(const uint64_t free, FreeBytesAt(files_, Path(name)));
  const uint64_t limit = options_.space_bytes;
  PlanSpace space;
  if (limit == 0) {
    space.bytes = free;
    space.alone_bytes = kNoLimit;
    return space;
  }
  HEARTH_ASSIGN_OR_RETURN(const OtherBytes others, BytesOfOthers(name));
  HEARTH_ASSIGN_OR_RETURN(const uint64_t own, BytesSoFar(name));
  const uint64_t within_limit = limit - std::min(limit, others.in_use + own);
  const uint64_t on_disk = free + others.unused;
  space.bytes = std::min(on_disk, within_limit);
  space.alone_bytes = limit - std::min(limit, own);
  if (within_limit <= on_disk) space.more_needs_bytes = own + within_limit + 1;
  return space;
}

bool PlanStore::HasRoomFor(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, holders] : holders_) {
    bytes += BytesInUse(name, holders);
  }
  return options_.space_bytes == 0 || bytes <= options_.space_bytes;
}

uint64_t PlanStore::BytesInUse(const std::string& name,
                               const Holders& holders) const {
  if (holders.leases == 0) return 0;
  const auto found = sizes_.find(name);
  const uint64_t size =
      found == sizes_.end() ? 0 : found->second.value_or(uint64_t{0});
  return std::max(size, holders.reserved_bytes);
}

absl::StatusOr<uint64_t> PlanStore::BytesSoFar(const std::string& name) const {
  absl::StatusOr<uint64_t> size = AddUp(name);
  if (absl::IsNotFound(size.status())) return 0;
  return size;
}

absl::Status PlanStore::MakeRoom(const std::string& name, uint64_t bytes) {
  if (options_.space_bytes == 0) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const uint64_t own, Measure(name));
  bytes += own;
  uint64_t before = 0;
  {
    absl::MutexLock lock(&mutex_);
    before = std::exchange(holders_[name].reserved_bytes, bytes);
  }
  // Described only if one of them must be removed.
  std::optional<std::vector<PlanInfo>> plans;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const OtherBytes others, BytesOfOthers(name));
    if (others.in_use + others.unused + bytes <= options_.space_bytes) {
      return absl::OkStatus();
    }
    if (!plans.has_value()) {
      HEARTH_ASSIGN_OR_RETURN(plans, List());
    }
    const auto oldest =
        std::find_if(plans->rbegin(), plans->rend(), [&](const PlanInfo& plan) {
          return plan.name != name && !InUse(plan.name);
        });
    if (oldest == plans->rend()) {
      {
        absl::MutexLock lock(&mutex_);
        holders_[name].reserved_bytes = before;
      }
      const absl::Status refusal = absl::ResourceExhaustedError(absl::StrCat(
          "a plan of ", bytes, " bytes (", FormatByteSize(bytes),
          ") does not fit: ", others.in_use, " bytes of plans are in use, of ",
          options_.space_bytes, " bytes (",
          FormatByteSize(options_.space_bytes), ") for all plans"));
      return bytes <= options_.space_bytes ? WaitForPlanSpace(refusal, bytes)
                                           : refusal;
    }
    const absl::Status removed = Remove(oldest->name);
    // Somebody has just taken or removed the plan.
    if (!absl::IsFailedPrecondition(removed) && !absl::IsNotFound(removed)) {
      HEARTH_RETURN_IF_ERROR(removed);
    }
    plans->erase(std::next(oldest).base());
  }
}

PlanLease::~PlanLease() {
  if (store_ == nullptr || store_->EndRest(number_)) return;
  store_->EndLease(name_, exclusive_);
}

absl::Status PlanLease::Clear() {
  io::FileSystem& files = store_->files_;
  std::vector<PlanStore::Resting> rested;
  {
    absl::MutexLock lock(&store_->mutex_);
    rested = store_->TakeResting(name_);
  }
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder()));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder()));
  return files.SyncDirectory(store_->options_.folder);
}

PlanRecords PlanLease::records() const {
  return PlanRecords(store_->files_, folder());
}

absl::Status PlanLease::Publish(const PlanProperties& properties) {
  return records().WriteAbout(
      {.created = store_->clock_.Now(), .properties = properties});
}

absl::Status PlanLease::Share() {
  HEARTH_RETURN_IF_ERROR(records().WriteUse(store_->clock_.Now()));
  if (!exclusive_) return absl::OkStatus();
  exclusive_ = false;
  store_->EndExclusive(name_);
  return absl::OkStatus();
}

void PlanLease::Rest(std::shared_ptr<void> open) {
  {
    absl::MutexLock lock(&store_->mutex_);
    store_->resting_[number_] = {.name = name_, .open = std::move(open)};
  }
  store_->EndLease(name_, /*exclusive=*/false);
}

std::shared_ptr<void> PlanLease::Wake() {
  absl::MutexLock lock(&store_->mutex_);
  const auto resting = store_->resting_.find(number_);
  if (resting == store_->resting_.end() || resting->second.open == nullptr ||
      store_->holders_[name_].removing) {
    return nullptr;
  }
  std::shared_ptr<void> open = std::move(resting->second.open);
  store_->resting_.erase(resting);
  ++store_->holders_[name_].leases;
  return open;
}

namespace {

const absl::Status& StatusOf(const absl::Status& status) { return status; }

const absl::Status& StatusOf(const absl::StatusOr<PlanInfo>& info) {
  return info.status();
}

}  // namespace

PlanStores::PlanStores(PlanStore& main, absl::Span<PlanStore* const> others)
    : stores_({&main}) {
  stores_.insert(stores_.end(), others.begin(), others.end());
}

template <typename Outcome>
Outcome PlanStores::FirstFound(
    const std::function<Outcome(PlanStore& store)>& look) const {
  for (size_t i = 0; i + 1 < stores_.size(); ++i) {
    Outcome outcome = look(*stores_[i]);
    if (!absl::IsNotFound(StatusOf(outcome))) return outcome;
  }
  return look(*stores_.back());
}

absl::StatusOr<std::vector<PlanInfo>> PlanStores::List() const {
  std::vector<PlanInfo> all;
  for (PlanStore* const store : stores_) {
    HEARTH_ASSIGN_OR_RETURN(std::vector<PlanInfo> plans, store->List());
    std::move(plans.begin(), plans.end(), std::back_inserter(all));
  }
  std::stable_sort(
      all.begin(), all.end(),
      [](const PlanInfo& a, const PlanInfo& b) { return a.used > b.used; });
  return all;
}

absl::StatusOr<PlanInfo> PlanStores::Get(const std::string& name) const {
  return FirstFound<absl::StatusOr<PlanInfo>>(
      [&](PlanStore& store) { return store.Get(name); });
}

absl::Status PlanStores::Remove(const std::string& name) const {
  return FirstFound<absl::Status>(
      [&](PlanStore& store) { return store.Remove(name); });
}

absl::Status PlanStores::RemoveOf(absl::string_view fingerprint) const {
  absl::Status status;
  for (PlanStore* const store : stores_) {
    status.Update(store->RemoveOf(fingerprint));
  }
  return status;
}

}  // namespace hearth::plan
