#include "engine/io/testing/faults.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::io {

void FaultyDevice::Inject(const DeviceFault& fault) {
  const absl::MutexLock lock(&mutex_);
  fault_ = fault;
  attempts_ = 0;
  hits_ = 0;
  released_ = false;
}

void FaultyDevice::Release() {
  const absl::MutexLock lock(&mutex_);
  released_ = true;
  changed_.SignalAll();
}

void FaultyDevice::WaitUntilHeld(int64_t count) {
  const absl::MutexLock lock(&mutex_);
  while (held_ < count) changed_.Wait(&mutex_);
}

int64_t FaultyDevice::attempts() const {
  const absl::MutexLock lock(&mutex_);
  return attempts_;
}

int64_t FaultyDevice::hits() const {
  const absl::MutexLock lock(&mutex_);
  return hits_;
}

std::optional<DeviceFault> FaultyDevice::Arrive() {
  const absl::MutexLock lock(&mutex_);
  ++attempts_;
  if (!fault_.has_value() || attempts_ < fault_->nth) return std::nullopt;
  if (attempts_ > fault_->nth && !fault_->for_good) return std::nullopt;
  ++hits_;
  return fault_;
}

void FaultyDevice::Hold() {
  const absl::MutexLock lock(&mutex_);
  ++held_;
  changed_.SignalAll();
  while (!released_) changed_.Wait(&mutex_);
  --held_;
}

ssize_t FaultyDevice::ReadOnce(uint64_t offset, absl::Span<std::byte> out) {
  const std::optional<DeviceFault> fault = Arrive();
  if (!fault.has_value()) return base_.ReadOnce(offset, out);
  switch (fault->effect) {
    case DeviceFault::Effect::kFail:
      return -fault->error;
    case DeviceFault::Effect::kHold:
      Hold();
      return base_.ReadOnce(offset, out);
    case DeviceFault::Effect::kShorten:
      break;
  }
  const ssize_t count = base_.ReadOnce(offset, out);
  return std::min(count, static_cast<ssize_t>(fault->bytes));
}

namespace {

absl::Status ToStatus(const absl::Status& status) { return status; }

template <typename T>
absl::Status ToStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

/// Does `operation` as far as `fault`, if any, lets it.
template <typename Operate>
auto Perform(const std::optional<Fault>& fault, const std::string& path,
             Operate operate) -> decltype(operate()) {
  if (!fault.has_value() || fault->effect == Effect::kCorruptRead ||
      fault->effect == Effect::kForgetWrite) {
    return operate();
  }
  if (fault->effect == Effect::kLoseReply) {
    // The real result is lost.
    ToStatus(operate()).IgnoreError();
  }
  return absl::Status(fault->status.code(),
                      absl::StrCat(path, ": ", fault->status.message()));
}

}  // namespace

class FaultyFileSystem::FaultyReadableFile final : public ReadableFile {
 public:
  FaultyReadableFile(FaultyFileSystem& owner,
                     std::unique_ptr<ReadableFile> base)
      : owner_(owner), base_(std::move(base)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const std::optional<Fault> fault = owner_.Arrive(Operation::kRead, path());
    const absl::Status status =
        Perform(fault, path(), [&] { return base_->Read(offset, out); });
    if (status.ok() && fault.has_value() && !out.empty()) {
      out[out.size() / 2] ^= std::byte{0x10};
    }
    return status;
  }

  absl::StatusOr<FileInfo> Info() override {
    return Perform(owner_.Arrive(Operation::kInfo, path()), path(),
                   [&] { return base_->Info(); });
  }

  const std::string& path() const override { return base_->path(); }

 private:
  FaultyFileSystem& owner_;
  const std::unique_ptr<ReadableFile> base_;
};

class FaultyFileSystem::FaultyBlockDevice final : public InterceptingDevice {
 public:
  FaultyBlockDevice(FaultyFileSystem& owner, std::unique_ptr<BlockDevice> base)
      : InterceptingDevice(std::move(base)), owner_(owner) {}

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const std::optional<Fault> fault = owner_.Arrive(Operation::kRead, path());
    if (!fault.has_value()) return base().ReadOnce(offset, out);
    if (fault->effect != Effect::kCorruptRead) return -EIO;
    const ssize_t count = base().ReadOnce(offset, out);
    if (count > 0) out[count / 2] ^= std::byte{0x10};
    return count;
  }

 private:
  FaultyFileSystem& owner_;
};

class FaultyFileSystem::FaultyWritableFile final : public WritableFile {
 public:
  FaultyWritableFile(FaultyFileSystem& owner, std::string path,
                     std::unique_ptr<WritableFile> base)
      : owner_(owner), path_(std::move(path)), base_(std::move(base)) {}

  absl::Status Append(absl::Span<const std::byte> data) override {
    return WriteBy(data, [this](absl::Span<const std::byte> part) {
      return base_->Append(part);
    });
  }

  absl::Status Write(uint64_t offset,
                     absl::Span<const std::byte> data) override {
    return WriteBy(data, [&](absl::Span<const std::byte> part) {
      return base_->Write(offset, part);
    });
  }

  absl::Status Allocate(uint64_t size_bytes) override {
    return Perform(owner_.Arrive(Operation::kAllocate, path_), path_,
                   [&] { return base_->Allocate(size_bytes); });
  }

  absl::Status Sync() override {
    return Perform(owner_.Arrive(Operation::kSync, path_), path_,
                   [&] { return base_->Sync(); });
  }

  absl::Status Close() override {
    return Perform(owner_.Arrive(Operation::kClose, path_), path_,
                   [&] { return base_->Close(); });
  }

 private:
  template <typename WritePart>
  absl::Status WriteBy(absl::Span<const std::byte> data, WritePart write) {
    const std::optional<Fault> fault = owner_.Arrive(Operation::kWrite, path_);
    if (fault.has_value() && fault->effect == Effect::kTearWrite) {
      write(data.first(data.size() / 2)).IgnoreError();
    }
    if (fault.has_value() && fault->effect == Effect::kForgetWrite) {
      return Forget(data, write);
    }
    return Perform(fault, path_, [&]() -> absl::Status {
      const uint64_t fitting = owner_.TakeSpace(data.size());
      const absl::Status status = write(data.first(fitting));
      if (!status.ok() || fitting == data.size()) return status;
      return ErrnoStatus(ENOSPC, path_, "writing");
    });
  }

  // Later bytes go where they would have gone, as on a disk that has lost the
  // write: zeros are in its place.
  template <typename WritePart>
  static absl::Status Forget(absl::Span<const std::byte> data,
                             WritePart write) {
    // As aligned as the bytes were: the file may require it.
    std::vector<std::byte> memory(data.size() + kPageBytes);
    const auto from = reinterpret_cast<uintptr_t>(data.data()) % kPageBytes;
    const auto at = reinterpret_cast<uintptr_t>(memory.data()) % kPageBytes;
    return write(absl::MakeConstSpan(memory).subspan(
        (from + kPageBytes - at) % kPageBytes, data.size()));
  }

  static constexpr size_t kPageBytes = 4096;

  FaultyFileSystem& owner_;
  const std::string path_;
  const std::unique_ptr<WritableFile> base_;
};

FaultyFileSystem::FaultyFileSystem(FileSystem& base) : base_(base) {}
FaultyFileSystem::~FaultyFileSystem() = default;

void FaultyFileSystem::Inject(Fault fault) {
  const absl::MutexLock lock(&mutex_);
  fault_ = std::move(fault);
  matching_ = 0;
  hits_ = 0;
  ++faults_;
  changed_.SignalAll();
}

void FaultyFileSystem::Clear() {
  const absl::MutexLock lock(&mutex_);
  fault_.reset();
  space_left_.reset();
  ++faults_;
  changed_.SignalAll();
}

void FaultyFileSystem::LimitSpace(uint64_t bytes) {
  const absl::MutexLock lock(&mutex_);
  space_left_ = bytes;
}

int64_t FaultyFileSystem::hits() const {
  const absl::MutexLock lock(&mutex_);
  return hits_;
}

void FaultyFileSystem::AwaitHit() const {
  const absl::MutexLock lock(&mutex_);
  while (hits_ == 0) changed_.Wait(&mutex_);
}

std::vector<FaultyFileSystem::Call> FaultyFileSystem::calls() const {
  const absl::MutexLock lock(&mutex_);
  return calls_;
}

std::optional<Fault> FaultyFileSystem::Arrive(Operation operation,
                                              const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  calls_.push_back({operation, path});
  if (!fault_.has_value()) return std::nullopt;
  if (fault_->only.has_value() && *fault_->only != operation) {
    return std::nullopt;
  }
  if (fault_->effect == Effect::kCorruptRead && operation != Operation::kRead) {
    return std::nullopt;
  }
  if (fault_->effect == Effect::kForgetWrite &&
      operation != Operation::kWrite) {
    return std::nullopt;
  }
  if (!absl::EndsWith(path, fault_->path_end)) return std::nullopt;
  ++matching_;
  if (matching_ < fault_->nth) return std::nullopt;
  if (matching_ > fault_->nth && !fault_->for_good) return std::nullopt;
  ++hits_;
  changed_.SignalAll();
  if (fault_->effect != Effect::kBlock) return fault_;
  for (const int64_t mine = faults_; faults_ == mine;) changed_.Wait(&mutex_);
  return std::nullopt;
}

uint64_t FaultyFileSystem::TakeSpace(uint64_t wanted) {
  const absl::MutexLock lock(&mutex_);
  if (!space_left_.has_value()) return wanted;
  const uint64_t taken = std::min(wanted, *space_left_);
  *space_left_ -= taken;
  return taken;
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFileSystem::OpenForRead(
    const std::string& path) {
  using Result = absl::StatusOr<std::unique_ptr<ReadableFile>>;
  return Perform(Arrive(Operation::kOpenForRead, path), path, [&]() -> Result {
    Result base = base_.OpenForRead(path);
    if (!base.ok()) return base.status();
    return std::make_unique<FaultyReadableFile>(*this, *std::move(base));
  });
}

absl::StatusOr<std::unique_ptr<ReadableFile>> FaultyFileSystem::OpenForScan(
    const std::string& path) {
  using Result = absl::StatusOr<std::unique_ptr<ReadableFile>>;
  return Perform(Arrive(Operation::kOpenForRead, path), path, [&]() -> Result {
    Result base = base_.OpenForScan(path);
    if (!base.ok()) return base.status();
    return std::make_unique<FaultyReadableFile>(*this, *std::move(base));
  });
}

absl::StatusOr<std::unique_ptr<BlockDevice>> FaultyFileSystem::OpenBlockDevice(
    const std::string& path, const BlockDeviceOptions& options) {
  using Result = absl::StatusOr<std::unique_ptr<BlockDevice>>;
  return Perform(Arrive(Operation::kOpenForRead, path), path, [&]() -> Result {
    Result base = base_.OpenBlockDevice(path, options);
    if (!base.ok()) return base.status();
    return std::make_unique<FaultyBlockDevice>(*this, *std::move(base));
  });
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Create(
    const std::string& path) {
  using Result = absl::StatusOr<std::unique_ptr<WritableFile>>;
  return Perform(Arrive(Operation::kCreate, path), path, [&]() -> Result {
    Result base = base_.Create(path);
    if (!base.ok()) return base.status();
    return std::make_unique<FaultyWritableFile>(*this, path, *std::move(base));
  });
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::CreateUncached(
    const std::string& path) {
  using Result = absl::StatusOr<std::unique_ptr<WritableFile>>;
  return Perform(Arrive(Operation::kCreate, path), path, [&]() -> Result {
    Result base = base_.CreateUncached(path);
    if (!base.ok()) return base.status();
    return std::make_unique<FaultyWritableFile>(*this, path, *std::move(base));
  });
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::OpenForAppend(
    const std::string& path) {
  using Result = absl::StatusOr<std::unique_ptr<WritableFile>>;
  return Perform(Arrive(Operation::kCreate, path), path, [&]() -> Result {
    Result base = base_.OpenForAppend(path);
    if (!base.ok()) return base.status();
    return std::make_unique<FaultyWritableFile>(*this, path, *std::move(base));
  });
}

absl::StatusOr<std::unique_ptr<MappedFile>> FaultyFileSystem::Map(
    const std::string& path, AccessPattern pattern) {
  return Perform(Arrive(Operation::kMap, path), path,
                 [&] { return base_.Map(path, pattern); });
}

absl::StatusOr<FileInfo> FaultyFileSystem::Stat(const std::string& path) {
  return Perform(Arrive(Operation::kStat, path), path,
                 [&] { return base_.Stat(path); });
}

absl::StatusOr<std::string> FaultyFileSystem::RealPath(
    const std::string& path) {
  return Perform(Arrive(Operation::kRealPath, path), path,
                 [&] { return base_.RealPath(path); });
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(
    const std::string& directory) {
  return Perform(Arrive(Operation::kList, directory), directory,
                 [&] { return base_.List(directory); });
}

absl::Status FaultyFileSystem::CreateDirectory(const std::string& path) {
  return Perform(Arrive(Operation::kCreateDirectory, path), path,
                 [&] { return base_.CreateDirectory(path); });
}

absl::Status FaultyFileSystem::Rename(const std::string& from,
                                      const std::string& to) {
  return Perform(Arrive(Operation::kRename, to), to,
                 [&] { return base_.Rename(from, to); });
}

absl::Status FaultyFileSystem::RemoveTree(const std::string& path) {
  return Perform(Arrive(Operation::kRemoveTree, path), path,
                 [&] { return base_.RemoveTree(path); });
}

absl::Status FaultyFileSystem::SyncDirectory(const std::string& path) {
  return Perform(Arrive(Operation::kSyncDirectory, path), path,
                 [&] { return base_.SyncDirectory(path); });
}

absl::StatusOr<uint64_t> FaultyFileSystem::FreeBytes(const std::string& path) {
  return Perform(Arrive(Operation::kFreeBytes, path), path,
                 [&]() -> absl::StatusOr<uint64_t> {
                   {
                     const absl::MutexLock lock(&mutex_);
                     if (space_left_.has_value()) return *space_left_;
                   }
                   return base_.FreeBytes(path);
                 });
}

}  // namespace hearth::io
