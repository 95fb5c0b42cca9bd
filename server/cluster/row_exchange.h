#ifndef HEARTH_SERVER_CLUSTER_ROW_EXCHANGE_H_
#define HEARTH_SERVER_CLUSTER_ROW_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "engine/store/remote_rows.h"
#include "hearth/v1/peers.pb.h"

/// Feature rows on their way from one daemon to another (Peers.ReadRows): what
/// the one offers, and how the other asks for what its shard lacks.

namespace grpc {
class Channel;
}

namespace hearth::server {

class Cluster;
class TrafficMetrics;

/// Most runs of a request.
inline constexpr size_t kMostRowRuns = 16384;

/// The rows of a node type that are here. Single-owner.
class OfferedRows {
 public:
  /// Bytes of a piece, unless a row is longer.
  static constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

  /// The rows that `request`, the first of a call, names, of the dataset in
  /// `folder`. `files` outlives the result. ABORTED if the dataset has another
  /// fingerprint; INVALID_ARGUMENT without such a node type; errors as of
  /// store::Dataset::Open.
  static absl::StatusOr<OfferedRows> Open(io::FileSystem& files,
                                          const std::string& folder,
                                          const v1::ReadRowsRequest& request);

  /// Passes the rows of the request's runs to `send`, each checked as it is
  /// read. CANCELLED if `send` returns false; OUT_OF_RANGE for rows that are
  /// not here; DATA_LOSS, naming file and block, for damaged ones.
  absl::Status Send(const v1::ReadRowsRequest& request,
                    absl::FunctionRef<bool(const v1::RowsPiece&)> send);

 private:
  OfferedRows(const store::ArrayFile& features, std::string name,
              std::unique_ptr<io::ReadableFile> file);

  absl::StatusOr<std::vector<store::RowRun>> RunsOf(
      const v1::ReadRowsRequest& request) const;

  store::ArrayFile features_;
  uint64_t row_bytes_;
  std::string name_;
  std::unique_ptr<io::ReadableFile> file_;
  std::vector<std::byte> read_;
};

/// Where rows come from.
struct PeerRowsOptions {
  /// The machines of an attempt, and the number of this one among them.
  std::vector<std::string> members;
  size_t own = 0;
  /// A connection to one of the others.
  std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>(
      const std::string& member)>
      channel;
  /// Counts what comes. Outlives the rows.
  TrafficMetrics& metrics;
  /// For a member that is asked which rows it has.
  absl::Duration patience = absl::Seconds(5);
};

/// The rows of datasets that the other members have.
std::shared_ptr<store::RemoteRows> NewPeerRows(const PeerRowsOptions& options);

/// The same for the machines of an attempt of `cluster`, which outlives the
/// result.
std::shared_ptr<store::RemoteRows> NewPeerRows(
    Cluster& cluster, const std::vector<std::string>& members);

/// A range of rows, and the number of the member that has them.
struct RowSource {
  store::RowRange rows;
  size_t member = 0;
};

/// Where rows 0 to `all` - 1 come from that are not in `own`, in order;
/// `offered` are the rows of each member. FAILED_PRECONDITION, naming the first
/// rows that nobody has.
absl::StatusOr<std::vector<RowSource>> FindRows(
    int64_t all, const store::RowRange& own,
    const std::vector<RowSource>& offered);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_ROW_EXCHANGE_H_
