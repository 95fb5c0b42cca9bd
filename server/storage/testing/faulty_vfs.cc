#include "server/storage/testing/faulty_vfs.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <utility>

namespace hearth::server {
namespace {

using Operation = VfsOperation;
using Effect = VfsEffect;

// Unit of a write that reaches the disk as a whole.
constexpr uint64_t kSectorBytes = 512;

int FailureOf(Operation operation) {
  switch (operation) {
    case Operation::kOpen:
      return SQLITE_CANTOPEN;
    case Operation::kDelete:
      return SQLITE_IOERR_DELETE;
    case Operation::kAccess:
      return SQLITE_IOERR_ACCESS;
    case Operation::kRead:
      return SQLITE_IOERR_READ;
    case Operation::kWrite:
      return SQLITE_IOERR_WRITE;
    case Operation::kTruncate:
      return SQLITE_IOERR_TRUNCATE;
    case Operation::kSync:
      return SQLITE_IOERR_FSYNC;
    case Operation::kFileSize:
      return SQLITE_IOERR_FSTAT;
    case Operation::kLock:
      return SQLITE_IOERR_LOCK;
    case Operation::kShmMap:
      return SQLITE_IOERR_SHMMAP;
    case Operation::kShmLock:
      return SQLITE_IOERR_SHMLOCK;
  }
  return SQLITE_IOERR;
}

bool LosesPower(Effect effect) {
  return effect == Effect::kLosePower ||
         effect == Effect::kLosePowerBetweenSectors;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Open file of this VFS, followed in memory by the file of the VFS below.
struct OpenFile : sqlite3_file {
  FaultyVfs* owner;
  // Path; null for a file without a name, which is gone after a power loss.
  std::string* path;
};

OpenFile& Mine(sqlite3_file* file) { return *static_cast<OpenFile*>(file); }

sqlite3_file* Below(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(&Mine(file) + 1);
}

}  // namespace

// Callbacks of SQLite. Each asks Arrive for the call's fate, passes the call
// on, and updates the file's contents.
struct VfsCalls {
  static int Fail(const FaultyVfs::Verdict& verdict) {
    errno = verdict.error;
    return verdict.result;
  }

  static FaultyVfs& OwnerOf(sqlite3_vfs* vfs) {
    return *static_cast<FaultyVfs*>(vfs->pAppData);
  }

  template <typename Change>
  static void Note(sqlite3_file* file, const Change& change) {
    const OpenFile& mine = Mine(file);
    if (mine.path == nullptr) return;
    absl::MutexLock lock(&mine.owner->mutex_);
    change(mine.owner->contents_[*mine.path]);
  }

  // Makes `call` on the file below, unless a fault prevents it.
  template <typename Call>
  static int PassOn(sqlite3_file* file, Operation operation, const Call& call) {
    const FaultyVfs::Verdict verdict = Mine(file).owner->Arrive(operation);
    if (verdict.result != SQLITE_OK) return Fail(verdict);
    sqlite3_file* below = Below(file);
    return call(*below->pMethods, below);
  }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file,
                  int flags, int* out_flags) {
    FaultyVfs& owner = OwnerOf(vfs);
    file->pMethods = nullptr;
    const FaultyVfs::Verdict verdict = owner.Arrive(Operation::kOpen);
    if (verdict.result != SQLITE_OK) return Fail(verdict);
    const int result =
        owner.base_.xOpen(&owner.base_, name, Below(file), flags, out_flags);
    if (result != SQLITE_OK) return result;
    const bool is_kept =
        name != nullptr && (flags & SQLITE_OPEN_DELETEONCLOSE) == 0;
    if (is_kept) owner.Know(name);
    Mine(file).owner = &owner;
    Mine(file).path = is_kept ? new std::string(name) : nullptr;
    file->pMethods = &kMethods;
    return SQLITE_OK;
  }

  static int Delete(sqlite3_vfs* vfs, const char* name, int sync_directory) {
    FaultyVfs& owner = OwnerOf(vfs);
    const FaultyVfs::Verdict verdict = owner.Arrive(Operation::kDelete);
    if (verdict.result != SQLITE_OK) return Fail(verdict);
    const int result = owner.base_.xDelete(&owner.base_, name, sync_directory);
    absl::MutexLock lock(&owner.mutex_);
    if (result == SQLITE_OK) owner.contents_.erase(name);
    return result;
  }

  static int Access(sqlite3_vfs* vfs, const char* name, int flags, int* out) {
    FaultyVfs& owner = OwnerOf(vfs);
    const FaultyVfs::Verdict verdict = owner.Arrive(Operation::kAccess);
    if (verdict.result != SQLITE_OK) return Fail(verdict);
    return owner.base_.xAccess(&owner.base_, name, flags, out);
  }

  static int Close(sqlite3_file* file) {
    delete Mine(file).path;
    return Below(file)->pMethods->xClose(Below(file));
  }

  static int Read(sqlite3_file* file, void* out, int size,
                  sqlite3_int64 offset) {
    return PassOn(file, Operation::kRead, [&](const auto& methods, auto below) {
      return methods.xRead(below, out, size, offset);
    });
  }

  static int WriteSome(sqlite3_file* file, const void* data, int size,
                       sqlite3_int64 offset) {
    const int result =
        Below(file)->pMethods->xWrite(Below(file), data, size, offset);
    if (result != SQLITE_OK) return result;
    Note(file, [&](auto& contents) {
      contents.Write(static_cast<const char*>(data),
                     static_cast<uint64_t>(size),
                     static_cast<uint64_t>(offset));
    });
    return SQLITE_OK;
  }

  static int Write(sqlite3_file* file, const void* data, int size,
                   sqlite3_int64 offset) {
    const FaultyVfs::Verdict verdict =
        Mine(file).owner->Arrive(Operation::kWrite);
    if (verdict.result == SQLITE_OK) {
      return WriteSome(file, data, size, offset);
    }
    if (verdict.tear) {
      const sqlite3_int64 middle = offset + size / 2;
      const sqlite3_int64 end =
          middle - middle % static_cast<sqlite3_int64>(kSectorBytes);
      if (end > offset) {
        WriteSome(file, data, static_cast<int>(end - offset), offset);
      }
    }
    return Fail(verdict);
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    const int result = PassOn(file, Operation::kTruncate,
                              [&](const auto& methods, auto below) {
                                return methods.xTruncate(below, size);
                              });
    if (result != SQLITE_OK) return result;
    Note(file, [&](auto& contents) {
      contents.Truncate(static_cast<uint64_t>(size));
    });
    return SQLITE_OK;
  }

  // Not passed on: a real sync would only take time.
  static int Sync(sqlite3_file* file, int) {
    FaultyVfs& owner = *Mine(file).owner;
    const FaultyVfs::Verdict verdict = owner.Arrive(Operation::kSync);
    if (verdict.result == SQLITE_OK) {
      Note(file, [](auto& contents) { contents.Sync(); });
      return SQLITE_OK;
    }
    if (!owner.power_is_lost()) {
      Note(file, [](auto& contents) { contents.dirty.clear(); });
    }
    return Fail(verdict);
  }

  static int FileSize(sqlite3_file* file, sqlite3_int64* out) {
    return PassOn(file, Operation::kFileSize,
                  [&](const auto& methods, auto below) {
                    return methods.xFileSize(below, out);
                  });
  }

  static int Lock(sqlite3_file* file, int level) {
    return PassOn(file, Operation::kLock, [&](const auto& methods, auto below) {
      return methods.xLock(below, level);
    });
  }

  static int Unlock(sqlite3_file* file, int level) {
    return Below(file)->pMethods->xUnlock(Below(file), level);
  }

  static int CheckReservedLock(sqlite3_file* file, int* out) {
    return Below(file)->pMethods->xCheckReservedLock(Below(file), out);
  }

  static int FileControl(sqlite3_file* file, int operation, void* argument) {
    return Below(file)->pMethods->xFileControl(Below(file), operation,
                                               argument);
  }

  static int SectorSize(sqlite3_file* file) {
    return Below(file)->pMethods->xSectorSize(Below(file));
  }

  static int DeviceCharacteristics(sqlite3_file* file) {
    return Below(file)->pMethods->xDeviceCharacteristics(Below(file));
  }

  static int ShmMap(sqlite3_file* file, int region, int size, int extend,
                    void volatile** out) {
    return PassOn(file, Operation::kShmMap,
                  [&](const auto& methods, auto below) {
                    return methods.xShmMap(below, region, size, extend, out);
                  });
  }

  static int ShmLock(sqlite3_file* file, int offset, int count, int flags) {
    if ((flags & SQLITE_SHM_UNLOCK) != 0) {
      return Below(file)->pMethods->xShmLock(Below(file), offset, count, flags);
    }
    return PassOn(file, Operation::kShmLock,
                  [&](const auto& methods, auto below) {
                    return methods.xShmLock(below, offset, count, flags);
                  });
  }

  static void ShmBarrier(sqlite3_file* file) {
    Below(file)->pMethods->xShmBarrier(Below(file));
  }

  static int ShmUnmap(sqlite3_file* file, int remove) {
    return Below(file)->pMethods->xShmUnmap(Below(file), remove);
  }

  static const sqlite3_io_methods kMethods;
};

// Version 2: without memory-mapped files, which would bypass the callbacks.
const sqlite3_io_methods VfsCalls::kMethods = {2,
                                               Close,
                                               Read,
                                               Write,
                                               Truncate,
                                               Sync,
                                               FileSize,
                                               Lock,
                                               Unlock,
                                               CheckReservedLock,
                                               FileControl,
                                               SectorSize,
                                               DeviceCharacteristics,
                                               ShmMap,
                                               ShmLock,
                                               ShmBarrier,
                                               ShmUnmap,
                                               nullptr,
                                               nullptr};

void FaultyVfs::Contents::Write(const char* data, uint64_t size,
                                uint64_t offset) {
  const uint64_t begin = std::min<uint64_t>(offset, cached.size());
  if (cached.size() < offset + size) cached.resize(offset + size);
  cached.replace(offset, size, data, size);
  for (uint64_t sector = begin / kSectorBytes;
       sector * kSectorBytes < offset + size; ++sector) {
    dirty.insert(sector);
  }
}

void FaultyVfs::Contents::Truncate(uint64_t size) {
  cached.resize(size);
  dirty.erase(dirty.lower_bound((size + kSectorBytes - 1) / kSectorBytes),
              dirty.end());
}

void FaultyVfs::Contents::Sync() {
  synced.resize(cached.size());
  for (const uint64_t sector : dirty) {
    const uint64_t begin = sector * kSectorBytes;
    synced.replace(begin, kSectorBytes, cached, begin, kSectorBytes);
  }
  dirty.clear();
  on_disk = true;
}

std::string FaultyVfs::Contents::AfterPowerLoss(bool between_sectors) const {
  if (!between_sectors) return synced;
  std::string bytes = synced;
  bytes.resize(cached.size());
  for (const uint64_t sector : dirty) {
    if (sector % 2 != 0) continue;
    const uint64_t begin = sector * kSectorBytes;
    bytes.replace(begin, kSectorBytes, cached, begin, kSectorBytes);
  }
  return bytes;
}

FaultyVfs::FaultyVfs(std::string name)
    : name_(std::move(name)), base_(*sqlite3_vfs_find(nullptr)) {
  // The base does everything that this VFS does not.
  vfs_ = base_;
  vfs_.iVersion = 1;
  vfs_.szOsFile = static_cast<int>(sizeof(OpenFile)) + base_.szOsFile;
  vfs_.pNext = nullptr;
  vfs_.zName = name_.c_str();
  vfs_.pAppData = this;
  vfs_.xOpen = VfsCalls::Open;
  vfs_.xDelete = VfsCalls::Delete;
  vfs_.xAccess = VfsCalls::Access;
  sqlite3_vfs_register(&vfs_, /*makeDflt=*/0);
}

FaultyVfs::~FaultyVfs() { sqlite3_vfs_unregister(&vfs_); }

void FaultyVfs::Inject(const VfsFault& fault) {
  absl::MutexLock lock(&mutex_);
  fault_ = fault;
  matching_ = 0;
  hits_ = 0;
}

void FaultyVfs::Clear() {
  absl::MutexLock lock(&mutex_);
  fault_.reset();
}

int64_t FaultyVfs::hits() const {
  absl::MutexLock lock(&mutex_);
  return hits_;
}

std::map<VfsOperation, int64_t> FaultyVfs::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

bool FaultyVfs::power_is_lost() const {
  absl::MutexLock lock(&mutex_);
  return power_is_lost_;
}

FaultyVfs::Verdict FaultyVfs::Arrive(Operation operation) {
  absl::MutexLock lock(&mutex_);
  ++counts_[operation];
  const Verdict failure = {.result = FailureOf(operation), .error = EIO};
  if (power_is_lost_) return failure;
  if (!fault_.has_value() || fault_->operation != operation) return {};
  ++matching_;
  if (matching_ < fault_->nth) return {};
  if (matching_ > fault_->nth && !fault_->for_good) return {};
  ++hits_;
  power_is_lost_ = LosesPower(fault_->effect);
  if (fault_->effect == Effect::kFull) {
    return {
        .result = operation == Operation::kWrite ? SQLITE_FULL : failure.result,
        .error = ENOSPC};
  }
  return {.result = failure.result,
          .error = failure.error,
          .tear = fault_->effect == Effect::kTearWrite};
}

void FaultyVfs::Know(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  const auto [entry, is_new] = contents_.try_emplace(path);
  if (!is_new) return;
  Contents& contents = entry->second;
  contents.cached = ReadFile(path);
  contents.synced = contents.cached;
  // A file that was just created is empty.
  contents.on_disk = !contents.cached.empty();
}

void FaultyVfs::RestorePower() {
  absl::MutexLock lock(&mutex_);
  const bool between_sectors =
      fault_.has_value() && fault_->effect == Effect::kLosePowerBetweenSectors;
  for (const auto& [path, contents] : contents_) {
    if (!contents.on_disk) {
      std::remove(path.c_str());
      continue;
    }
    std::ofstream(path, std::ios::binary | std::ios::trunc)
        << contents.AfterPowerLoss(between_sectors);
  }
  contents_.clear();
  fault_.reset();
  power_is_lost_ = false;
}

void FaultyVfs::Forget() {
  absl::MutexLock lock(&mutex_);
  contents_.clear();
}

}  // namespace hearth::server
