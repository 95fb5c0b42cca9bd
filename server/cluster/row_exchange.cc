#include "server/cluster/row_exchange.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/manifest.h"
#include "engine/store/stored_array.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/peers.grpc.pb.h"
#include "server/cluster/cluster.h"
#include "server/cluster/dataset_copy.h"
#include "server/cluster/traffic_metrics.h"

// Protocol of a reader:
// 1. Ask the other members of the attempt which rows they have (Describe), and
//    give each row that is not here to one of them.
// 2. Keep a call (ReadRows) open to each, and ask there for the wanted rows of
//    one range of nodes after the other, as a scan comes to them. A call that
//    is older than kCallPatience is replaced: one that hangs is noticed so.
// 3. Check each piece against its CRC32C; ask again for rows of damaged ones.
//
// The other side checks each block that it reads against its checksum.

namespace hearth::server {

namespace {

// Requests of rows that came damaged.
constexpr int kMostReads = 3;
// Age of a call at most.
constexpr std::chrono::seconds kCallPatience{10};
// Bytes between two wanted rows that are read with them at most.
constexpr uint64_t kMostGapBytes = 64 << 10;

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint64_t RowBytesOf(const store::ArrayFile& features) {
  return static_cast<uint64_t>(
      store::RowBytes(features.shape[1], features.dtype));
}

}  // namespace

OfferedRows::OfferedRows(const store::ArrayFile& features, std::string name,
                         std::unique_ptr<io::ReadableFile> file)
    : features_(features),
      row_bytes_(RowBytesOf(features)),
      name_(std::move(name)),
      file_(std::move(file)) {}

absl::StatusOr<OfferedRows> OfferedRows::Open(
    io::FileSystem& files, const std::string& folder,
    const v1::ReadRowsRequest& request) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                          store::Dataset::Open(files, folder));
  const store::Manifest& manifest = dataset->manifest();
  if (manifest.fingerprint != request.fingerprint()) {
    return absl::AbortedError(
        absl::StrCat("dataset \"", request.name(), "\" has the fingerprint ",
                     manifest.fingerprint, ", not ", request.fingerprint()));
  }
  if (request.node_type() >= manifest.node_types.size() ||
      manifest.node_types[request.node_type()].features.path.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset \"", request.name(),
                     "\" has no features of node type ", request.node_type()));
  }
  const store::ArrayFile& features =
      manifest.node_types[request.node_type()].features;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          store::OpenVerifiedFile(files, folder, features));
  return OfferedRows(features, manifest.name, std::move(file));
}

absl::StatusOr<std::vector<store::RowRun>> OfferedRows::RunsOf(
    const v1::ReadRowsRequest& request) const {
  const auto count = static_cast<size_t>(request.runs_size());
  if (count % 2 != 0 || count > 2 * kMostRowRuns) {
    return absl::InvalidArgumentError("runs: are not pairs, or too many");
  }
  const store::RowRange here =
      features_.rows.value_or(store::RowRange{.end = features_.shape[0]});
  std::vector<store::RowRun> runs;
  uint64_t at = 0;
  for (int i = 0; i < request.runs_size(); i += 2) {
    const auto all = static_cast<uint64_t>(features_.shape[0]);
    const uint64_t skipped = request.runs(i);
    const uint64_t rows = request.runs(i + 1);
    const bool is_range = skipped <= all - at && rows <= all - at - skipped;
    if (!is_range || static_cast<int64_t>(at + skipped) < here.first ||
        static_cast<int64_t>(at + skipped + rows) > here.end) {
      return absl::OutOfRangeError(absl::StrCat(
          "dataset \"", name_, "\" has ",
          store::DescribeRows(here, features_.shape[0]), " here, not ", rows,
          " rows, ", skipped, " behind row ", at));
    }
    runs.push_back({.first = static_cast<int64_t>(at + skipped),
                    .count = static_cast<int64_t>(rows)});
    at += skipped + rows;
  }
  return runs;
}

// Runs that lie close to each other are read at once.
absl::Status OfferedRows::Send(
    const v1::ReadRowsRequest& request,
    absl::FunctionRef<bool(const v1::RowsPiece&)> send) {
  HEARTH_ASSIGN_OR_RETURN(std::vector<store::RowRun> runs, RunsOf(request));
  const auto most =
      static_cast<int64_t>(std::max<uint64_t>(1, kPieceBytes / row_bytes_));
  const auto most_gap = static_cast<int64_t>(kMostGapBytes / row_bytes_);
  v1::RowsPiece piece;
  std::string& data = *piece.mutable_data();
  const auto flush = [&] {
    if (data.empty()) return true;
    piece.set_crc32c(Crc32c(BytesOf(data)));
    const bool sent = send(piece);
    data.clear();
    return sent;
  };
  const auto end_of = [&](size_t i) { return runs[i].first + runs[i].count; };
  for (size_t i = 0; i < runs.size();) {
    // Rows `first` to `end` - 1: of run i, or of the runs i to j - 1.
    const int64_t first = runs[i].first;
    int64_t end = first + std::min(runs[i].count, most);
    size_t j = i + 1;
    while (j < runs.size() && end == end_of(j - 1) &&
           runs[j].first - end <= most_gap && end_of(j) - first <= most) {
      end = end_of(j++);
    }
    read_.resize(static_cast<size_t>(end - first) * row_bytes_);
    HEARTH_RETURN_IF_ERROR(file_->Read(
        features_.data_offset + static_cast<uint64_t>(first) * row_bytes_,
        absl::MakeSpan(read_)));
    while (i < j) {
      store::RowRun& run = runs[i];
      const int64_t count = std::min(run.count, end - run.first);
      data.append(reinterpret_cast<const char*>(
                      read_.data() +
                      static_cast<size_t>(run.first - first) * row_bytes_),
                  static_cast<size_t>(count) * row_bytes_);
      run.first += count;
      run.count -= count;
      if (run.count > 0) break;
      ++i;
    }
    if (data.size() >= kPieceBytes && !flush()) {
      return absl::CancelledError("not taken");
    }
  }
  return flush() ? absl::OkStatus() : absl::CancelledError("not taken");
}

absl::StatusOr<std::vector<RowSource>> FindRows(
    int64_t all, const store::RowRange& own,
    const std::vector<RowSource>& offered) {
  std::vector<RowSource> found;
  for (int64_t at = 0; at < all;) {
    if (own.first <= at && at < own.end) {
      at = own.end;
      continue;
    }
    // What lies behind the next own row is asked for after it.
    int64_t end = own.first > at && own.first < own.end ? own.first : all;
    const RowSource* best = nullptr;
    int64_t next = end;
    for (const RowSource& one : offered) {
      if (one.rows.first > at) next = std::min(next, one.rows.first);
      if (one.rows.first > at || one.rows.end <= at) continue;
      if (best == nullptr || one.rows.end > best->rows.end) best = &one;
    }
    if (best == nullptr) {
      return absl::FailedPreconditionError(
          store::DescribeRows({.first = at, .end = next}, all));
    }
    end = std::min(end, best->rows.end);
    found.push_back(
        {.rows = {.first = at, .end = end}, .member = best->member});
    at = end;
  }
  return found;
}

namespace {

// Another dataset, or none any more: nothing that would pass by itself.
absl::Status ErrorOf(const std::string& member, const grpc::Status& status) {
  absl::Status error = PeerError(member, status);
  if (WaitCauseOf(error) != WaitCause::kNone || absl::IsDataLoss(error)) {
    return error;
  }
  return absl::FailedPreconditionError(error.message());
}

// Calls of one member for rows of one node type.
class PeerCalls {
 public:
  PeerCalls(std::string member, std::shared_ptr<grpc::Channel> channel,
            v1::ReadRowsRequest first, std::stop_token stop,
            TrafficMetrics& metrics)
      : member_(std::move(member)),
        stub_(v1::Peers::NewStub(std::move(channel))),
        first_(std::move(first)),
        stop_(std::move(stop)),
        metrics_(metrics) {}

  // Fills `out` with the rows of `runs`, at most kMostRowRuns of them.
  absl::Status Read(absl::Span<const store::RowRun> runs,
                    absl::Span<std::byte> out) {
    for (int read = 1;;) {
      const bool is_new = call_ == nullptr;
      if (is_new) call_ = std::make_unique<Call>(*stub_, stop_);
      const absl::Status taken = Ask(runs, out, is_new);
      if (taken.ok()) return taken;
      const bool is_damaged = absl::IsDataLoss(taken);
      const grpc::Status status = call_->End(/*cancel=*/is_damaged);
      call_ = nullptr;
      if (stop_.stop_requested()) return absl::CancelledError("stopped");
      if (is_damaged) {
        if (++read > kMostReads) return taken;
        continue;
      }
      if (is_new) return ErrorOf(member_, status);
    }
  }

 private:
  struct Call {
    Call(v1::Peers::Stub& stub, const std::stop_token& stop) {
      context.set_deadline(std::chrono::system_clock::now() + kCallPatience);
      stream = stub.ReadRows(&context);
      cancel.emplace(stop, [this] { context.TryCancel(); });
    }
    ~Call() {
      if (!has_ended) End(/*cancel=*/true);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // Without `cancel` the other side has ended the call, or its deadline.
    grpc::Status End(bool cancel) {
      has_ended = true;
      if (cancel) context.TryCancel();
      return stream->Finish();
    }

    bool has_ended = false;
    grpc::ClientContext context;
    std::unique_ptr<
        grpc::ClientReaderWriter<v1::ReadRowsRequest, v1::RowsPiece>>
        stream;
    std::optional<std::stop_callback<std::function<void()>>> cancel;
  };

  // DATA_LOSS for rows that came damaged; UNAVAILABLE if the call has ended.
  absl::Status Ask(absl::Span<const store::RowRun> runs,
                   absl::Span<std::byte> out, bool is_first) {
    v1::ReadRowsRequest request;
    if (is_first) request = first_;
    int64_t at = 0;
    for (const store::RowRun& run : runs) {
      request.add_runs(static_cast<uint64_t>(run.first - at));
      request.add_runs(static_cast<uint64_t>(run.count));
      at = run.first + run.count;
    }
    const absl::Status ended = absl::UnavailableError("the call has ended");
    if (!call_->stream->Write(request)) return ended;
    v1::RowsPiece piece;
    while (!out.empty()) {
      if (!call_->stream->Read(&piece)) return ended;
      const absl::Span<const std::byte> data = BytesOf(piece.data());
      metrics_.AddRows(member_, /*sent=*/0, data.size());
      if (data.empty() || data.size() > out.size() ||
          Crc32c(data) != piece.crc32c()) {
        return absl::DataLossError(
            absl::StrCat("rows of dataset ", first_.name(), " from ", member_,
                         ": were damaged on their way here"));
      }
      std::memcpy(out.data(), data.data(), data.size());
      out.remove_prefix(data.size());
    }
    return absl::OkStatus();
  }

  const std::string member_;
  const std::unique_ptr<v1::Peers::Stub> stub_;
  const v1::ReadRowsRequest first_;
  const std::stop_token stop_;
  TrafficMetrics& metrics_;
  std::unique_ptr<Call> call_;
};

class PeerReader final : public store::RemoteRows::Reader {
 public:
  PeerReader(std::vector<RowSource> sources, uint64_t row_bytes,
             std::map<size_t, PeerCalls> calls)
      : sources_(std::move(sources)),
        row_bytes_(row_bytes),
        calls_(std::move(calls)) {}

  absl::Status Read(absl::Span<const store::RowRun> runs,
                    absl::Span<std::byte> out) override {
    auto source = sources_.begin();
    std::vector<store::RowRun> asked;
    int64_t rows = 0;
    const auto ask = [&]() -> absl::Status {
      if (asked.empty()) return absl::OkStatus();
      const size_t bytes = static_cast<size_t>(rows) * row_bytes_;
      HEARTH_RETURN_IF_ERROR(
          calls_.at(source->member).Read(asked, out.first(bytes)));
      out.remove_prefix(bytes);
      asked.clear();
      rows = 0;
      return absl::OkStatus();
    };
    for (store::RowRun run : runs) {
      while (run.count > 0) {
        while (source != sources_.end() && source->rows.end <= run.first) {
          HEARTH_RETURN_IF_ERROR(ask());
          ++source;
        }
        if (source == sources_.end() || source->rows.first > run.first) {
          return absl::InternalError(
              absl::StrCat("row ", run.first, " is asked for, but is here"));
        }
        const int64_t count = std::min(run.count, source->rows.end - run.first);
        asked.push_back({.first = run.first, .count = count});
        rows += count;
        run.first += count;
        run.count -= count;
        if (asked.size() == kMostRowRuns) HEARTH_RETURN_IF_ERROR(ask());
      }
    }
    return ask();
  }

 private:
  const std::vector<RowSource> sources_;
  const uint64_t row_bytes_;
  std::map<size_t, PeerCalls> calls_;
};

class PeerRows final : public store::RemoteRows {
 public:
  explicit PeerRows(const PeerRowsOptions& options) : options_(options) {}

  absl::StatusOr<std::unique_ptr<Reader>> Open(
      const store::Manifest& manifest, size_t node_type,
      const std::stop_token& stop) override {
    const store::NodeTypeEntry& type = manifest.node_types[node_type];
    const std::vector<std::string>& members = options_.members;
    std::vector<RowSource> offered;
    std::vector<std::shared_ptr<grpc::Channel>> channels(members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      if (i == options_.own) continue;
      if (stop.stop_requested()) return absl::CancelledError("stopped");
      HEARTH_ASSIGN_OR_RETURN(channels[i], options_.channel(members[i]));
      HEARTH_ASSIGN_OR_RETURN(
          const store::RowRange rows,
          Ask(members[i], channels[i], manifest, node_type, stop));
      offered.push_back({.rows = rows, .member = i});
    }
    auto sources = FindRows(
        type.num_nodes,
        type.features.rows.value_or(store::RowRange{.end = type.num_nodes}),
        offered);
    if (!sources.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "dataset ", manifest.name, ": none of ", absl::StrJoin(members, ", "),
          " has ", sources.status().message(), " of nodes of type \"",
          type.name,
          "\": copy them to one of these members (hearth dataset copy "
          "--share), "
          "or train on all members that have a share (--machines, --members)"));
    }
    v1::ReadRowsRequest first;
    first.set_name(manifest.name);
    first.set_fingerprint(manifest.fingerprint);
    first.set_node_type(static_cast<uint32_t>(node_type));
    std::map<size_t, PeerCalls> calls;
    for (const RowSource& source : *sources) {
      calls.try_emplace(source.member, members[source.member],
                        channels[source.member], first, stop, options_.metrics);
    }
    return std::make_unique<PeerReader>(
        *std::move(sources), RowBytesOf(type.features), std::move(calls));
  }

 private:
  // The rows that a member has; none of a dataset that it lacks.
  absl::StatusOr<store::RowRange> Ask(
      const std::string& member, const std::shared_ptr<grpc::Channel>& channel,
      const store::Manifest& manifest, size_t node_type,
      const std::stop_token& stop) const {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(options_.patience));
    const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    v1::MemberState state;
    const grpc::Status status =
        v1::Peers::NewStub(channel)->Describe(&context, {}, &state);
    if (stop.stop_requested()) return absl::CancelledError("stopped");
    if (!status.ok()) return ErrorOf(member, status);
    for (const v1::MemberDataset& dataset : state.datasets()) {
      if (dataset.name() != manifest.name ||
          dataset.fingerprint() != manifest.fingerprint) {
        continue;
      }
      if (dataset.feature_rows_size() == 0) {
        return store::RowRange{.end = manifest.node_types[node_type].num_nodes};
      }
      if (node_type >= static_cast<size_t>(dataset.feature_rows_size())) break;
      const v1::RowRange& rows =
          dataset.feature_rows(static_cast<int>(node_type));
      return store::RowRange{.first = static_cast<int64_t>(rows.first()),
                             .end = static_cast<int64_t>(rows.end())};
    }
    return store::RowRange();
  }

  const PeerRowsOptions options_;
};

}  // namespace

std::shared_ptr<store::RemoteRows> NewPeerRows(const PeerRowsOptions& options) {
  return std::make_shared<PeerRows>(options);
}

std::shared_ptr<store::RemoteRows> NewPeerRows(
    Cluster& cluster, const std::vector<std::string>& members) {
  const auto own = std::find(members.begin(), members.end(), cluster.name());
  return NewPeerRows(
      {.members = members,
       .own = static_cast<size_t>(own - members.begin()),
       .channel = [&cluster](const std::string& name)
           -> absl::StatusOr<std::shared_ptr<grpc::Channel>> {
         HEARTH_ASSIGN_OR_RETURN(const ClusterFile file, cluster.Read());
         const ClusterMember* const member = file.Find(name);
         if (member == nullptr) {
           return absl::NotFoundError(absl::StrCat(
               "the cluster has no member \"", name, "\" any more"));
         }
         return cluster.ChannelTo(*member);
       },
       .metrics = cluster.traffic_metrics(),
       .patience = cluster.times().last_words});
}

}  // namespace hearth::server
