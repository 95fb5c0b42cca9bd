#include "server/storage/disk_space.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/log.h"

namespace hearth::server {

std::string DiskReserve::PathOf(int piece) const {
  return io::JoinPath(folder_, absl::StrCat(piece));
}

bool DiskReserve::IsThere(int piece) {
  const absl::StatusOr<io::FileInfo> info = files_.Stat(PathOf(piece));
  return info.ok() && info->size_bytes >= kPieceBytes;
}

int DiskReserve::pieces() {
  absl::MutexLock lock(&mutex_);
  int there = 0;
  for (int piece = 0; piece < kPieces; ++piece) there += IsThere(piece);
  return there;
}

absl::Status DiskReserve::Make(int piece) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                          files_.Create(PathOf(piece)));
  HEARTH_RETURN_IF_ERROR(file->Allocate(kPieceBytes));
  // The size shows that the piece is whole.
  const std::byte last = {};
  HEARTH_RETURN_IF_ERROR(
      file->Write(kPieceBytes - 1, absl::MakeConstSpan(&last, 1)));
  // A piece lost with the power is made again.
  return file->Close();
}

absl::Status DiskReserve::Fill() {
  absl::MutexLock lock(&mutex_);
  last_fill_seconds_ = clock_.SteadySeconds();
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  for (int piece = 0; piece < kPieces; ++piece) {
    if (IsThere(piece)) continue;
    HEARTH_ASSIGN_OR_RETURN(const uint64_t free, files_.FreeBytes(folder_));
    if (free < kPieceBytes + kSlackBytes) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(Make(piece));
  }
  incomplete_ = false;
  return absl::OkStatus();
}

bool DiskReserve::GiveUp() {
  absl::MutexLock lock(&mutex_);
  for (int piece = 0; piece < kPieces; ++piece) {
    if (!IsThere(piece)) continue;
    incomplete_ = true;
    last_fill_seconds_ = clock_.SteadySeconds();
    if (files_.RemoveTree(PathOf(piece)).ok()) return true;
  }
  return false;
}

bool DiskReserve::FillIsDue() {
  absl::MutexLock lock(&mutex_);
  return incomplete_ && clock_.SteadySeconds() - last_fill_seconds_ >=
                            absl::ToDoubleSeconds(kFillInterval);
}

absl::Status DiskReserve::Write(absl::FunctionRef<absl::Status()> attempt) {
  absl::Status status = attempt();
  while (absl::IsResourceExhausted(status) && GiveUp()) {
    LogWarning("the disk is full: a part of ", folder_,
               " is given up: ", status.ToString());
    status = attempt();
  }
  if (status.ok() && FillIsDue()) {
    const absl::Status filled = Fill();
    if (!filled.ok()) LogWarning(folder_, ": ", filled.ToString());
  }
  return status;
}

Trash::Trash(io::FileSystem& files, std::string folder,
             std::function<void()> on_removed)
    : files_(files),
      folder_(std::move(folder)),
      on_removed_(std::move(on_removed)),
      thread_([this](const std::stop_token& stop) { Work(stop); }) {}

Trash::~Trash() {
  thread_.request_stop();
  {
    absl::MutexLock lock(&mutex_);
    changed_.SignalAll();
  }
  thread_.join();
}

absl::Status Trash::Throw(const std::string& path) {
  std::string thrown;
  {
    absl::MutexLock lock(&mutex_);
    thrown = io::JoinPath(folder_, absl::StrCat(next_++));
  }
  const absl::Status moved = Move(path, thrown);
  if (absl::IsResourceExhausted(moved)) {
    HEARTH_RETURN_IF_ERROR(files_.RemoveTree(path));
    on_removed_();
  } else {
    HEARTH_RETURN_IF_ERROR(moved);
  }
  const absl::Status durable = files_.SyncDirectory(io::ParentDirectory(path));
  if (!moved.ok()) return durable;
  absl::MutexLock lock(&mutex_);
  paths_.push_back(std::move(thrown));
  changed_.SignalAll();
  return durable;
}

absl::Status Trash::Move(const std::string& path, const std::string& to) {
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(io::ParentDirectory(folder_)));
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  return files_.Rename(path, to);
}

void Trash::Work(const std::stop_token& stop) {
  for (std::string path = Next(stop); !path.empty(); path = Next(stop)) {
    Remove(path, stop);
    on_removed_();
  }
}

std::string Trash::Next(const std::stop_token& stop) {
  absl::MutexLock lock(&mutex_);
  while (paths_.empty() && !stop.stop_requested()) changed_.Wait(&mutex_);
  if (stop.stop_requested()) return "";
  std::string path = std::move(paths_.front());
  paths_.pop_front();
  return path;
}

// Removes the entries of a folder one by one, so that a stop does not wait for
// all of them.
void Trash::Remove(const std::string& path, const std::stop_token& stop) {
  absl::Status status;
  if (const absl::StatusOr<std::vector<std::string>> names = files_.List(path);
      names.ok()) {
    for (const std::string& name : *names) {
      if (stop.stop_requested()) return;
      status.Update(files_.RemoveTree(io::JoinPath(path, name)));
    }
  }
  status.Update(files_.RemoveTree(path));
  if (!status.ok()) {
    LogWarning("what was deleted goes at the next start: ", status.ToString());
  }
}

}  // namespace hearth::server
