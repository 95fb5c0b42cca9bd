#include "server/storage/trash.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::server {

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
    spdlog::warn("what was deleted goes at the next start: {}",
                 status.ToString());
  }
}

}  // namespace hearth::server
