#include "server/cluster/checkpoint_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "server/mapping/request_checks.h"

namespace hearth::server {

namespace {

constexpr size_t kPieceBytes = size_t{512} << 10;

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

absl::Status SendCheckpoint(
    io::FileSystem& files, const std::string& folder, const std::string& name,
    absl::FunctionRef<void(const v1::CheckpointPiece&)> send) {
  v1::CheckpointPiece piece;
  if (name.empty()) {
    piece.set_is_last(true);
    send(piece);
    return absl::OkStatus();
  }
  HEARTH_ASSIGN_OR_RETURN(const auto file,
                          files.OpenForRead(io::JoinPath(folder, name)));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  piece.set_name(name);
  Sha256 digest;
  for (uint64_t offset = 0; offset < info.size_bytes;) {
    const size_t bytes =
        std::min<uint64_t>(kPieceBytes, info.size_bytes - offset);
    std::string& data = *piece.mutable_data();
    data.resize(bytes);
    HEARTH_RETURN_IF_ERROR(
        file->Read(offset, {reinterpret_cast<std::byte*>(data.data()), bytes}));
    digest.Update(data);
    offset += bytes;
    piece.set_is_last(offset == info.size_bytes);
    if (piece.is_last()) piece.set_sha256(digest.HexDigest());
    send(piece);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckpointReceiver::Take(
    const v1::CheckpointPiece& piece) {
  const bool is_first = file_ == nullptr;
  if (is_done_ || (is_first && piece.name().empty() && !piece.is_last())) {
    return absl::InvalidArgumentError("a piece of a checkpoint too many");
  }
  if (is_first && piece.name().empty()) {
    is_done_ = true;
    return true;
  }
  if (is_first) HEARTH_RETURN_IF_ERROR(Begin(piece.name()));
  HEARTH_RETURN_IF_ERROR(file_->Append(BytesOf(piece.data())));
  digest_.Update(piece.data());
  if (!piece.is_last()) return false;
  HEARTH_RETURN_IF_ERROR(Finish(piece.sha256()));
  is_done_ = true;
  return true;
}

absl::Status CheckpointReceiver::Begin(const std::string& name) {
  if (!IsValidName(name)) {
    return absl::InvalidArgumentError("a checkpoint with another kind of name");
  }
  path_ = io::JoinPath(folder_, name);
  HEARTH_ASSIGN_OR_RETURN(
      file_, files_.Create(absl::StrCat(path_, io::kTemporarySuffix)));
  return absl::OkStatus();
}

absl::Status CheckpointReceiver::Finish(const std::string& sha256) {
  if (digest_.HexDigest() != sha256) {
    return absl::DataLossError(
        absl::StrCat(path_, ": was damaged on its way from the leader"));
  }
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_RETURN_IF_ERROR(
      files_.Rename(absl::StrCat(path_, io::kTemporarySuffix), path_));
  return files_.SyncDirectory(folder_);
}

}  // namespace hearth::server
