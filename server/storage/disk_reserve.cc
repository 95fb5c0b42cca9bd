#include "server/storage/disk_reserve.h"

#include <spdlog/spdlog.h>

#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"

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
  // Its size tells that it is whole.
  const std::byte last = {};
  HEARTH_RETURN_IF_ERROR(
      file->Write(kPieceBytes - 1, absl::MakeConstSpan(&last, 1)));
  // A piece that is lost with the power is made again.
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
    spdlog::warn("the disk is full: a part of {} is given up: {}", folder_,
                 status.ToString());
    status = attempt();
  }
  if (status.ok() && FillIsDue()) {
    const absl::Status filled = Fill();
    if (!filled.ok()) spdlog::warn("{}: {}", folder_, filled.ToString());
  }
  return status;
}

}  // namespace hearth::server
