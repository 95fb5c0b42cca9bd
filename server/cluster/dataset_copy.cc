#include "server/cluster/dataset_copy.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/inspect/verify.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_writer.h"
#include "engine/store/block_checksums.h"
#include "engine/store/feature_rows.h"
#include "engine/store/npy.h"
#include "engine/store/stored_array.h"
#include "hearth/v1/peers.grpc.pb.h"

// Protocol of a copy:
// 1. Read the manifest. Remove the unfinished folder if its manifest has
//    another fingerprint; write the manifest there. Equal fingerprints mean
//    equal arrays, so that files of the folder go on where they end.
// 2. Read the list of files; remove all others. Check that the disk suffices.
// 3. Append what is missing to each file, piece by piece, each against its
//    CRC32C. Sync from time to time, and at the end of each file.
// 4. Read all arrays against the checksums of the manifest, past the page
//    cache: a power loss or a failed sync may have left other bytes on disk.
//    Remove what is damaged, and do step 3 again, once.
// 5. Sync the folder, rename it to its destination, sync the parent.
//
// The manifest's own checksum covers the fingerprint and the checksums of the
// checksum files, which cover all arrays.

namespace hearth::server {

namespace {

// Bytes between two syncs of a file.
constexpr uint64_t kSyncBytes = 64 << 20;
// Reads of pieces that came damaged.
constexpr int kMostReads = 3;
// Times that a copy begins, while its source becomes another dataset.
constexpr int kMostStarts = 3;
// Length of a call. Both sides notice within it that they are separated; one
// that has brought something is followed by another.
constexpr std::chrono::seconds kCallPatience{20};

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint64_t ChecksumBytes(const store::ArrayFile& array) {
  return store::NumBlocks(array.file_size_bytes - array.data_offset,
                          array.crc_block_bytes) *
         sizeof(uint32_t);
}

// The header of the file that an import writes for these features.
std::string HeaderOf(const store::ArrayFile& features) {
  return store::FormatNpyHeader(features.dtype, features.shape,
                                store::kRandomAccess.alignment);
}

// The entry of features in place, in the manifest of a copy.
store::ArrayFile Copied(store::ArrayFile features) {
  const std::string header = HeaderOf(features);
  features.path =
      std::string(absl::StripSuffix(features.crc_path, store::kChecksumSuffix));
  features.in_place = false;
  features.file_size_bytes += header.size() - features.data_offset;
  features.data_offset = header.size();
  features.header_crc32c = Crc32c(BytesOf(header));
  features.modified_ns = 0;
  return features;
}

}  // namespace

absl::StatusOr<OfferedDataset> OfferedDataset::Open(io::FileSystem& files,
                                                    const std::string& folder) {
  const std::string path = io::JoinPath(folder, store::Manifest::kFileName);
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(files, path, store::Manifest::kMaxFileBytes));
  HEARTH_ASSIGN_OR_RETURN(const store::Manifest own,
                          store::ParseManifest(text, path));
  if (own.is_sharded()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "dataset \"", own.name,
        "\" has a part of its feature rows here (--placement sharded): it can "
        "be copied from a member that has all of it"));
  }
  OfferedDataset offered(files, folder);
  offered.fingerprint_ = own.fingerprint;
  // An import registers nothing else in place.
  store::Manifest copy = own;
  for (store::NodeTypeEntry& type : copy.node_types) {
    if (type.features.in_place) type.features = Copied(type.features);
  }
  offered.list_.push_back({.name = store::Manifest::kFileName,
                           .head = store::SerializeManifest(copy)});
  HEARTH_RETURN_IF_ERROR(
      offered.AddIfThere(ingest::DatasetStatistics::kFileName));
  for (const store::ArrayFile* array : own.Arrays()) offered.AddArray(*array);
  for (const store::NodeTypeEntry& type : own.node_types) {
    if (type.features.path.empty()) continue;
    HEARTH_RETURN_IF_ERROR(
        offered.AddIfThere(store::RowChecksumPath(type.features)));
  }
  return offered;
}

void OfferedDataset::AddArray(const store::ArrayFile& array) {
  list_.push_back({.name = array.crc_path,
                   .path = io::JoinPath(folder_, array.crc_path),
                   .bytes = ChecksumBytes(array)});
  File data = {.name = array.path,
               .path = store::ArrayPath(folder_, array),
               .bytes = array.file_size_bytes,
               .array = array};
  if (array.in_place) {
    data.name = Copied(array).path;
    data.head = HeaderOf(array);
    data.skipped = array.data_offset;
    data.bytes -= array.data_offset;
  }
  list_.push_back(std::move(data));
}

// Adds a file that a dataset may lack.
absl::Status OfferedDataset::AddIfThere(const std::string& name) {
  const std::string path = io::JoinPath(folder_, name);
  const absl::StatusOr<io::FileInfo> info = files_->Stat(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(info.status());
  list_.push_back({.name = name, .path = path, .bytes = info->size_bytes});
  return absl::OkStatus();
}

absl::Status OfferedDataset::Send(
    const v1::ReadDatasetRequest& request,
    absl::FunctionRef<bool(const v1::DatasetPiece&)> send) const {
  if (!request.fingerprint().empty() && request.fingerprint() != fingerprint_) {
    return absl::AbortedError(
        absl::StrCat("dataset \"", request.name(), "\" has the fingerprint ",
                     fingerprint_, ", not ", request.fingerprint()));
  }
  if (request.file().empty()) {
    v1::DatasetPiece list;
    for (const File& file : list_) {
      v1::DatasetFile& one = *list.add_files();
      one.set_name(file.name);
      one.set_bytes(file.size());
    }
    return send(list) ? absl::OkStatus() : absl::CancelledError("not taken");
  }
  const auto file =
      std::find_if(list_.begin(), list_.end(),
                   [&](const File& one) { return one.name == request.file(); });
  if (file == list_.end()) {
    return absl::NotFoundError(absl::StrCat("dataset \"", request.name(),
                                            "\" has no file \"", request.file(),
                                            "\""));
  }
  return SendFile(*file, request.offset(), request.bytes(), send);
}

absl::Status OfferedDataset::SendFile(
    const File& file, uint64_t offset, uint64_t most,
    absl::FunctionRef<bool(const v1::DatasetPiece&)> send) const {
  if (offset > file.size()) {
    return absl::OutOfRangeError(
        absl::StrCat(file.name, ": has ", file.size(), " bytes, not ", offset));
  }
  std::unique_ptr<io::ReadableFile> opened;
  if (!file.array.path.empty()) {
    HEARTH_RETURN_IF_ERROR(
        store::CheckArrayUnchanged(*files_, folder_, file.array));
  }
  if (file.bytes > 0) {
    HEARTH_ASSIGN_OR_RETURN(opened, files_->OpenForScan(file.path));
  }
  const uint64_t last =
      most > 0 && most < file.size() - offset ? offset + most : file.size();
  v1::DatasetPiece piece;
  while (offset < last) {
    const bool in_head = offset < file.head.size();
    const uint64_t end =
        in_head ? std::min<uint64_t>(last, file.head.size()) : last;
    const size_t bytes = std::min<uint64_t>(kPieceBytes, end - offset);
    std::string& data = *piece.mutable_data();
    if (in_head) {
      data = file.head.substr(offset, bytes);
    } else {
      data.resize(bytes);
      HEARTH_RETURN_IF_ERROR(
          opened->Read(file.skipped + offset - file.head.size(),
                       {reinterpret_cast<std::byte*>(data.data()), bytes}));
    }
    piece.set_crc32c(Crc32c(BytesOf(data)));
    if (!send(piece)) return absl::CancelledError("not taken");
    offset += bytes;
  }
  return absl::OkStatus();
}

// Daemons that stop or have too much to do are there again later.
absl::Status PeerError(const std::string& member, const grpc::Status& status) {
  const std::string text = absl::StrCat(member, ": ", status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::INTERNAL:
      return WaitForPeerError(text);
    default:
      return {static_cast<absl::StatusCode>(status.error_code()), text};
  }
}

namespace {

class PeerDatasets final : public DatasetSource {
 public:
  PeerDatasets(std::shared_ptr<grpc::Channel> channel, std::string member,
               std::stop_token stop)
      : stub_(v1::Peers::NewStub(std::move(channel))),
        member_(std::move(member)),
        stop_(std::move(stop)) {}

  absl::Status Read(
      const v1::ReadDatasetRequest& request,
      absl::FunctionRef<absl::Status(const v1::DatasetPiece&)> take) override {
    v1::ReadDatasetRequest rest = request;
    while (true) {
      const uint64_t offset = rest.offset();
      absl::Status taken;
      bool is_whole = false;
      const grpc::Status status =
          Call(rest, [&](const v1::DatasetPiece& piece) {
            taken = take(piece);
            const uint64_t bytes = piece.data().size();
            rest.set_offset(rest.offset() + bytes);
            is_whole = rest.bytes() > 0 && bytes >= rest.bytes();
            if (rest.bytes() > 0 && !is_whole) {
              rest.set_bytes(rest.bytes() - bytes);
            }
            return taken.ok();
          });
      HEARTH_RETURN_IF_ERROR(taken);
      if (stop_.stop_requested()) return absl::CancelledError("stopped");
      if (status.ok() || is_whole) return absl::OkStatus();
      const bool goes_on =
          status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
          rest.offset() > offset;
      if (!goes_on) return PeerError(member_, status);
    }
  }

 private:
  // One call, until `take` returns false.
  grpc::Status Call(const v1::ReadDatasetRequest& request,
                    absl::FunctionRef<bool(const v1::DatasetPiece&)> take) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallPatience);
    const std::stop_callback cancel(stop_, [&] { context.TryCancel(); });
    const auto stream = stub_->ReadDataset(&context, request);
    v1::DatasetPiece piece;
    while (stream->Read(&piece)) {
      if (!take(piece)) {
        context.TryCancel();
        break;
      }
    }
    return stream->Finish();
  }

  const std::unique_ptr<v1::Peers::Stub> stub_;
  const std::string member_;
  const std::stop_token stop_;
};

// Whether the name is that of a file in a folder, and of no temporary one.
bool IsFileName(const std::string& name) {
  return !name.empty() && name[0] != '.' && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\0') &&
         !absl::EndsWith(name, io::kTemporarySuffix);
}

class DatasetCopy {
 public:
  DatasetCopy(io::FileSystem& files, DatasetSource& source,
              const DatasetCopyOptions& options, const std::stop_token& stop)
      : files_(files), source_(source), options_(options), stop_(stop) {}

  absl::StatusOr<store::Manifest> Run() {
    for (int start = 1;; ++start) {
      const absl::Status status = RunOnce();
      if (status.ok()) return std::move(manifest_);
      if (!absl::IsAborted(status) || start == kMostStarts) return status;
      options_.on_log(absl::StrCat("started over: ", status.message()));
    }
  }

 private:
  // A file of the copy: that of the source, or of a shard its first `gap_at`
  // bytes and those from `gap` bytes behind them on.
  struct Wanted {
    std::string name;
    uint64_t bytes = 0;
    uint64_t gap_at = 0;
    uint64_t gap = 0;
  };

  absl::Status RunOnce() {
    HEARTH_RETURN_IF_ERROR(ReadManifest());
    HEARTH_RETURN_IF_ERROR(ReadList());
    HEARTH_RETURN_IF_ERROR(RemoveOthers());
    HEARTH_RETURN_IF_ERROR(CheckSpace());
    HEARTH_RETURN_IF_ERROR(ReadFiles());
    HEARTH_ASSIGN_OR_RETURN(std::string damage, RemoveDamaged());
    if (!damage.empty()) {
      options_.on_log(absl::StrCat("copied again: ", damage));
      HEARTH_RETURN_IF_ERROR(ReadFiles());
      HEARTH_ASSIGN_OR_RETURN(damage, RemoveDamaged());
    }
    if (!damage.empty()) {
      return absl::DataLossError(absl::StrCat(
          damage,
          ", nor does it when it is copied again: `hearth dataset "
          "verify` at the source tells whether it is damaged there"));
    }
    return Publish();
  }

  v1::ReadDatasetRequest RequestOf(const std::string& file) const {
    v1::ReadDatasetRequest request;
    request.set_name(options_.name);
    request.set_fingerprint(manifest_.fingerprint);
    request.set_file(file);
    return request;
  }

  std::string PathOf(const std::string& name) const {
    return io::JoinPath(options_.unfinished, name);
  }

  static absl::Status CheckPiece(const v1::DatasetPiece& piece,
                                 const std::string& file) {
    if (Crc32c(BytesOf(piece.data())) == piece.crc32c()) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat(file, ": was damaged on its way here"));
  }

  // Step 1.
  absl::Status ReadManifest() {
    const std::string name = store::Manifest::kFileName;
    manifest_.fingerprint.clear();
    std::string text;
    HEARTH_RETURN_IF_ERROR(
        source_.Read(RequestOf(name), [&](const v1::DatasetPiece& piece) {
          absl::StrAppend(&text, piece.data());
          if (text.size() > store::Manifest::kMaxFileBytes) {
            return absl::DataLossError(
                absl::StrCat(name, ": is longer than any manifest"));
          }
          return CheckPiece(piece, name);
        }));
    HEARTH_ASSIGN_OR_RETURN(manifest_, store::ParseManifest(text, name));
    if (options_.share.has_value()) {
      TakeShare(*options_.share);
      text = store::SerializeManifest(manifest_);
    }
    const std::string path = PathOf(name);
    const absl::StatusOr<std::string> before =
        io::ReadWholeFile(files_, path, store::Manifest::kMaxFileBytes);
    if (before.ok() && *before == text) return absl::OkStatus();
    if (!before.ok() && !absl::IsNotFound(before.status())) {
      return before.status();
    }
    const absl::StatusOr<store::Manifest> known =
        store::ParseManifest(before.value_or(""), path);
    if (!known.ok() || known->fingerprint != manifest_.fingerprint ||
        RowsOf(*known) != RowsOf(manifest_)) {
      if (before.ok()) {
        options_.on_log(
            "started over: the dataset has changed since the earlier run");
      }
      HEARTH_RETURN_IF_ERROR(files_.RemoveTree(options_.unfinished));
      HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(options_.unfinished));
    }
    return io::WriteFileAtomically(files_, path, text);
  }

  // The copy keeps a share of the rows.
  void TakeShare(const DatasetShare& share) {
    for (store::NodeTypeEntry& type : manifest_.node_types) {
      if (type.features.path.empty()) continue;
      type.features.rows =
          store::ShareOfRows(type.num_nodes, share.index, share.count);
      options_.on_log(absl::StrCat(
          "keeps ", store::DescribeRows(*type.features.rows, type.num_nodes),
          " of nodes of type \"", type.name, "\""));
    }
  }

  static std::vector<std::optional<store::RowRange>> RowsOf(
      const store::Manifest& manifest) {
    std::vector<std::optional<store::RowRange>> rows;
    for (const store::NodeTypeEntry& type : manifest.node_types) {
      rows.push_back(type.features.rows);
    }
    return rows;
  }

  // Step 2.
  absl::Status ReadList() {
    list_.clear();
    HEARTH_RETURN_IF_ERROR(
        source_.Read(RequestOf(""), [&](const v1::DatasetPiece& piece) {
          for (const v1::DatasetFile& file : piece.files()) {
            list_.push_back({.name = file.name(), .bytes = file.bytes()});
          }
          return absl::OkStatus();
        }));
    std::erase_if(list_, [](const Wanted& file) {
      return file.name == store::Manifest::kFileName;
    });
    for (const Wanted& file : list_) {
      if (!IsFileName(file.name)) {
        return absl::DataLossError(absl::StrCat(
            "a dataset with a file \"", file.name, "\" cannot be copied"));
      }
    }
    for (const store::ArrayFile* array : manifest_.Arrays()) {
      if (!IsListed(array->path, array->file_size_bytes) ||
          !IsListed(array->crc_path, ChecksumBytes(*array))) {
        return absl::DataLossError(absl::StrCat(
            "the files that are offered are not those of the manifest: ",
            array->path));
      }
    }
    for (const store::NodeTypeEntry& type : manifest_.node_types) {
      if (type.features.rows.has_value()) CutToRows(type.features);
    }
    total_ = 0;
    for (const Wanted& file : list_) total_ += file.bytes;
    return absl::OkStatus();
  }

  // Wants the rows of a shard alone, and no checksums of single rows, which
  // nobody reads.
  void CutToRows(const store::ArrayFile& features) {
    const std::string row_checksums = store::RowChecksumPath(features);
    std::erase_if(
        list_, [&](const Wanted& file) { return file.name == row_checksums; });
    for (Wanted& file : list_) {
      if (file.name != features.path) continue;
      file.bytes = features.StoredBytes();
      file.gap_at = features.data_offset;
      file.gap = features.KeptBytes().begin;
    }
  }

  bool IsListed(const std::string& name, uint64_t bytes) const {
    return std::any_of(list_.begin(), list_.end(), [&](const Wanted& file) {
      return file.name == name && file.bytes == bytes;
    });
  }

  // Files that are no longer offered, and longer ones.
  absl::Status RemoveOthers() {
    std::set<std::string> stay = {store::Manifest::kFileName};
    for (const Wanted& file : list_) {
      HEARTH_ASSIGN_OR_RETURN(const uint64_t bytes, BytesHere(file.name));
      if (bytes <= file.bytes) stay.insert(file.name);
    }
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            files_.List(options_.unfinished));
    for (const std::string& name : names) {
      if (stay.contains(name)) continue;
      HEARTH_RETURN_IF_ERROR(files_.RemoveTree(PathOf(name)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> BytesHere(const std::string& name) const {
    const absl::StatusOr<io::FileInfo> info = files_.Stat(PathOf(name));
    if (absl::IsNotFound(info.status())) return 0;
    HEARTH_RETURN_IF_ERROR(info.status());
    return info->size_bytes;
  }

  absl::Status CheckSpace() const {
    uint64_t here = 0;
    for (const Wanted& file : list_) {
      HEARTH_ASSIGN_OR_RETURN(const uint64_t bytes, BytesHere(file.name));
      here += bytes;
    }
    if (here > 0) {
      options_.on_log(absl::StrCat("going on with ", FormatByteSize(here),
                                   " of ", FormatByteSize(total_),
                                   " from an earlier run"));
    }
    const std::string parent = io::ParentDirectory(options_.destination);
    HEARTH_ASSIGN_OR_RETURN(const uint64_t free, files_.FreeBytes(parent));
    if (total_ - here <= free) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(parent, ": the copy needs ", total_ - here, " bytes (",
                     FormatByteSize(total_ - here), "), ", free, " (",
                     FormatByteSize(free), ") are free"));
  }

  // Step 3.
  absl::Status ReadFiles() {
    done_ = 0;
    for (const Wanted& file : list_) {
      HEARTH_RETURN_IF_ERROR(ReadFile(file));
    }
    return absl::OkStatus();
  }

  absl::Status ReadFile(const Wanted& file) {
    HEARTH_ASSIGN_OR_RETURN(uint64_t here, BytesHere(file.name));
    done_ += here;
    if (here == file.bytes && here > 0) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> out,
                            files_.OpenForAppend(PathOf(file.name)));
    uint64_t unsynced = 0;
    const auto take = [&](const v1::DatasetPiece& piece) -> absl::Status {
      if (stop_.stop_requested()) return absl::CancelledError("stopped");
      HEARTH_RETURN_IF_ERROR(CheckPiece(piece, file.name));
      const uint64_t bytes = piece.data().size();
      if (bytes > file.bytes - here) {
        return absl::OutOfRangeError(
            absl::StrCat(file.name, ": has more bytes than was told"));
      }
      HEARTH_RETURN_IF_ERROR(out->Append(BytesOf(piece.data())));
      here += bytes;
      done_ += bytes;
      unsynced += bytes;
      if (unsynced >= kSyncBytes) {
        unsynced = 0;
        HEARTH_RETURN_IF_ERROR(out->Sync());
        options_.on_durable();
      }
      options_.on_progress("copying", done_, total_);
      return absl::OkStatus();
    };
    for (int read = 1; here < file.bytes; ++read) {
      v1::ReadDatasetRequest request = RequestOf(file.name);
      const bool before_gap = here < file.gap_at;
      const uint64_t end = before_gap ? file.gap_at : file.bytes;
      request.set_offset(before_gap ? here : here + file.gap);
      if (file.gap_at > 0) request.set_bytes(end - here);
      absl::Status status = source_.Read(request, take);
      if (status.ok() && here < end) {
        status =
            absl::DataLossError(absl::StrCat(file.name, ": has ended early"));
      }
      if (absl::IsDataLoss(status) && read < kMostReads) continue;
      HEARTH_RETURN_IF_ERROR(status);
    }
    HEARTH_RETURN_IF_ERROR(out->Sync());
    HEARTH_RETURN_IF_ERROR(out->Close());
    return absl::OkStatus();
  }

  // Step 4. Returns the damage in words; empty if there is none.
  absl::StatusOr<std::string> RemoveDamaged() {
    uint64_t total = 0;
    for (const store::ArrayFile* array : manifest_.Arrays()) {
      total += array->StoredBytes() + ChecksumBytes(*array);
    }
    uint64_t done = 0;
    std::string damage;
    const auto remove = [&](const absl::Status& status,
                            const std::vector<std::string>& names) {
      if (!absl::IsDataLoss(status)) return status;
      if (damage.empty()) damage = std::string(status.message());
      for (const std::string& name : names) {
        HEARTH_RETURN_IF_ERROR(files_.RemoveTree(PathOf(name)));
      }
      return absl::OkStatus();
    };
    for (const store::ArrayFile* array : manifest_.Arrays()) {
      const auto on_read = [&](uint64_t bytes, uint64_t /*of_array*/) {
        options_.on_progress("verifying", done + bytes, total);
      };
      HEARTH_RETURN_IF_ERROR(
          remove(ingest::VerifyArrays(files_, options_.unfinished, {&array, 1},
                                      on_read, stop_)
                     .status(),
                 {array->path, array->crc_path}));
      done += array->StoredBytes() + ChecksumBytes(*array);
    }
    HEARTH_RETURN_IF_ERROR(
        remove(ingest::LoadStatistics(files_, options_.unfinished).status(),
               {ingest::DatasetStatistics::kFileName}));
    return damage;
  }

  // Step 5.
  absl::Status Publish() {
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(options_.unfinished));
    HEARTH_RETURN_IF_ERROR(
        files_.Rename(options_.unfinished, options_.destination));
    const absl::Status status =
        files_.SyncDirectory(io::ParentDirectory(options_.destination));
    // It is unknown whether the rename is durable: take it back.
    if (!status.ok()) {
      files_.Rename(options_.destination, options_.unfinished).IgnoreError();
    }
    return status;
  }

  io::FileSystem& files_;
  DatasetSource& source_;
  const DatasetCopyOptions& options_;
  const std::stop_token& stop_;
  store::Manifest manifest_;
  // All files but the manifest.
  std::vector<Wanted> list_;
  // Bytes of the list's files: all, and those that are here.
  uint64_t total_ = 0;
  uint64_t done_ = 0;
};

}  // namespace

std::unique_ptr<DatasetSource> NewPeerDatasets(
    std::shared_ptr<grpc::Channel> channel, std::string member,
    std::stop_token stop) {
  return std::make_unique<PeerDatasets>(std::move(channel), std::move(member),
                                        std::move(stop));
}

absl::StatusOr<store::Manifest> CopyDataset(io::FileSystem& files,
                                            DatasetSource& source,
                                            const DatasetCopyOptions& options,
                                            const std::stop_token& stop) {
  return DatasetCopy(files, source, options, stop).Run();
}

}  // namespace hearth::server
