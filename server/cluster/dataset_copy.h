#ifndef HEARTH_SERVER_CLUSTER_DATASET_COPY_H_
#define HEARTH_SERVER_CLUSTER_DATASET_COPY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"
#include "hearth/v1/peers.pb.h"

/// A dataset on its way from one daemon to another: what the one offers, and
/// how the other takes it.

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace hearth::server {

/// A dataset as its copy will be: features that are registered in place have a
/// file in the folder, as if their import had copied them, and the manifest
/// says so. All else is as it is, the fingerprint, too. Thread-safe.
class OfferedDataset {
 public:
  /// Most bytes of a piece.
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  /// The dataset in `folder`. `files` outlives the result. Errors of reading
  /// the manifest; FAILED_PRECONDITION for a shard.
  static absl::StatusOr<OfferedDataset> Open(io::FileSystem& files,
                                             const std::string& folder);

  /// Passes the pieces that `request` asks for to `send`, in order: the list of
  /// files, the manifest first, or the bytes of a file. CANCELLED if `send`
  /// returns false. ABORTED if the dataset has another fingerprint; NOT_FOUND
  /// for a file that it does not have; OUT_OF_RANGE for an offset behind the
  /// file's end; FAILED_PRECONDITION, naming the file, if it has changed since
  /// the import.
  absl::Status Send(
      const v1::ReadDatasetRequest& request,
      absl::FunctionRef<bool(const v1::DatasetPiece&)> send) const;

 private:
  // A file of the copy: `head`, then `bytes` of the file `path` from `skipped`
  // on.
  struct File {
    std::string name;
    std::string head = {};
    std::string path = {};
    uint64_t skipped = 0;
    uint64_t bytes = 0;
    // The entry of an array's data in the dataset's own manifest.
    store::ArrayFile array = {};

    uint64_t size() const { return head.size() + bytes; }
  };

  OfferedDataset(io::FileSystem& files, std::string folder)
      : files_(&files), folder_(std::move(folder)) {}

  void AddArray(const store::ArrayFile& array);
  absl::Status AddIfThere(const std::string& name);
  absl::Status SendFile(
      const File& file, uint64_t offset, uint64_t most,
      absl::FunctionRef<bool(const v1::DatasetPiece&)> send) const;

  io::FileSystem* files_;
  std::string folder_;
  std::string fingerprint_;
  std::vector<File> list_;
};

/// The error of a call of a member: of the cause WaitCause::kPeer if the member
/// may answer later.
absl::Status PeerError(const std::string& member, const grpc::Status& status);

/// Where a copy comes from.
class DatasetSource {
 public:
  virtual ~DatasetSource() = default;

  /// Passes the pieces that `request` asks for to `take`, in order, until it
  /// returns an error, which is returned. Otherwise errors as of
  /// Peers.ReadDataset; UNAVAILABLE of the cause WaitCause::kPeer if the
  /// dataset's daemon cannot be reached, or no longer.
  virtual absl::Status Read(
      const v1::ReadDatasetRequest& request,
      absl::FunctionRef<absl::Status(const v1::DatasetPiece&)> take) = 0;
};

/// The datasets of the member behind `channel`. A read ends with CANCELLED once
/// `stop` is requested.
std::unique_ptr<DatasetSource> NewPeerDatasets(
    std::shared_ptr<grpc::Channel> channel, std::string member,
    std::stop_token stop);

/// Share `index`, from 0, of `count` shares of the rows.
struct DatasetShare {
  int64_t index = 0;
  int64_t count = 1;
};

/// How a dataset is copied. The functions are called on the caller's thread.
struct DatasetCopyOptions {
  /// The dataset's name, there and here.
  std::string name;
  /// The share of the feature rows of each node type that the copy keeps; all
  /// rows if absent.
  std::optional<DatasetShare> share = {};
  /// Folder of the unfinished copy. Another run goes on with what is in it.
  std::string unfinished;
  /// Folder of the whole copy, which must not exist.
  std::string destination;
  std::function<void(absl::string_view phase, uint64_t done, uint64_t total)>
      on_progress;
  /// What has come so far survives a power loss.
  std::function<void()> on_durable;
  std::function<void(const std::string& text)> on_log;
};

/// Copies a dataset: its name, fingerprint and arrays are those of the source,
/// but for the rows that are not of `share`.
/// All of it is checked against its checksums before it is at `destination`.
/// What has come stays in `unfinished` after any error, and need not come
/// again; a dataset that has become another one meanwhile is copied anew.
/// RESOURCE_EXHAUSTED, with the bytes needed, if the disk does not suffice;
/// DATA_LOSS if what comes is damaged; CANCELLED after a stop.
absl::StatusOr<store::Manifest> CopyDataset(io::FileSystem& files,
                                            DatasetSource& source,
                                            const DatasetCopyOptions& options,
                                            const std::stop_token& stop);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_DATASET_COPY_H_
